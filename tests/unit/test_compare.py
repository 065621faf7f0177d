"""Comparisons: paired differences by closed form, what is refused and by which name, and the real command line."""

import io
import json
import math
import subprocess
import sys

import pytest
from rich.console import Console

import fake_results as fake
from claasbench.errors import ClaasbenchError
from claasbench.report import compare, contrasts, terminal, text
from claasbench.stats import t_interval

SPLITS = ["a", "b"]


def scores(*successes, n=20):
    """A matrix of cells in which the first tasks succeed."""
    return [[fake.ones(count, n) for count in row] for row in successes]


def method(folder, name, finals, **tables):
    """Runs of trials 0, 1, ...: the last row has `finals[trial]` successes of 20 in each of two splits."""
    for trial, final in enumerate(finals):
        rows = scores([4, 4], [10, 6], [final, final])
        live = [[1.0, 0.0], [1.0, 1.0]]
        fake.write(
            folder / f"o{trial}-s{trial}", SPLITS, rows, live, fake.config(name, order=trial, seed=trial, **tables)
        )
    return folder


def shown(found, width=80):
    console = Console(width=width, file=io.StringIO(), color_system=None)
    for part in terminal.render([compare.chapter(found)]):
        console.print(part)
    return console.file.getvalue()


def warned(found):
    return "\n".join(compare.warnings(found))


@pytest.fixture
def pair(tmp_path):
    return [method(tmp_path / "none", "none", [4] * 6), method(tmp_path / "icl", "icl", [8, 9, 10, 8, 9, 10])]


def test_differences_by_closed_form(pair):
    found = contrasts.compare(pair)
    (contrast,) = found.contrasts
    number = contrast.numbers["final"]
    assert (number.reference, number.other) == pytest.approx((0.2, 0.45))
    assert number.interval.mean == pytest.approx(0.25)
    expected = t_interval([0.2, 0.25, 0.3, 0.2, 0.25, 0.3])
    assert (number.interval.low, number.interval.high, number.interval.n) == pytest.approx(
        (expected.low, expected.high, 6)
    )
    assert contrast.p == 2 / 2**6  # all six differ in one direction
    assert found.adjusted == [contrast.p]
    assert contrast.pairs == 6 * 2 * 20
    assert contrast.numbers["forgetting"].interval.mean == pytest.approx(-0.25)  # 10 - 4 against 10 - 9, of 20
    assert contrast.numbers["prequential"].interval.mean == 0
    assert {name: interval.mean for name, interval in contrast.splits.items()} == pytest.approx({"a": 0.25, "b": 0.25})
    assert list(contrast.kinds) == ["frozen-lake a", "frozen-lake b"]
    gains = [example.other - example.reference for example in contrast.examples]
    assert gains == sorted(gains, reverse=True)
    # tasks 4 to 7 succeed in all trials of icl and in none of none
    assert {example.task for example in contrast.examples if example.other - example.reference == 1} == {
        f"{split}-{k}" for split in SPLITS for k in range(4, 8)
    }


def test_a_method_against_itself_shows_nothing(tmp_path):
    folders = [method(tmp_path / name, "icl", [3, 7, 5], learner={"items": k}) for k, name in enumerate("ab")]
    (contrast,) = contrasts.compare(folders).contrasts
    assert contrast.p == 1
    assert contrast.correlation == pytest.approx(1)
    assert {number.interval.mean for number in contrast.numbers.values()} == {0}
    assert contrast.side.label == "icl · items=1"


def test_one_reference_and_every_method_of_a_study(tmp_path):
    study = tmp_path / "study"
    for k, name in enumerate(["none", "icl", "sft"]):
        method(study / name, name, [4 + k] * 6)
    found = contrasts.compare([study / "none", study])
    assert [contrast.side.label for contrast in found.contrasts] == ["icl", "sft"]
    assert found.adjusted == [2 * 2 / 64] * 2
    assert found.smallest(found.contrasts[0]) == 2 * 2 / 64
    assert "6 trials and 2 contrasts can reach no p below 0.062" in warned(found)


def test_the_reference_is_one_method(tmp_path, pair):
    with pytest.raises(ClaasbenchError, match="holds 2 methods: name one as the reference"):
        contrasts.compare([tmp_path, pair[0]])
    with pytest.raises(ClaasbenchError, match="nothing to compare: all runs are those of"):
        contrasts.compare([pair[0], pair[0]])
    with pytest.raises(ClaasbenchError, match="two folders or more"):
        contrasts.compare(pair[:1])


def test_namesakes_are_told_apart_by_their_folders(tmp_path, pair):
    again = method(tmp_path / "again", "icl", [1] * 6)
    found = contrasts.compare([pair[0], pair[1], again])
    assert [contrast.side.label for contrast in found.contrasts] == [f"icl ({pair[1]})", f"icl ({again})"]


def test_failed_episodes_are_dropped_in_pairs(pair):
    def fail(done):
        cell = done["measures"][0]["variants"]["learner"][0]
        cell["scores"][0], cell["statuses"][0] = None, "infra_error"
        cell["counts"]["failed"] = 1

    fake.edit(pair[1] / "o0-s0", fail, rows="01-*")
    found = contrasts.compare(pair)
    (contrast,) = found.contrasts
    assert contrast.dropped == 1
    assert "icl: 1 pairs of which an episode failed count nowhere" in warned(found)
    # the task succeeded on both sides: 3 of 19 and 7 of 19 in that cell
    expected = ((7 - 3) / 19 + (8 - 4) / 20) / 2
    assert contrast.numbers["final"].units[0] == pytest.approx(expected)


def test_lone_trials_and_missing_rows_leave_out_their_trial(tmp_path, pair):
    method(tmp_path / "sft", "sft", [5] * 8)
    found = contrasts.compare([pair[0], tmp_path / "sft"])
    assert "trials that only one of both has count nowhere: o6-s6, o7-s7" in warned(found)
    (pair[1] / "o5-s5" / "splits" / "01-b" / "done.json").unlink()
    (contrast,) = contrasts.compare(pair).contrasts
    assert contrast.numbers["final"].interval.n == 5


def test_one_trial_speaks_of_checkpoints(tmp_path):
    folders = [method(tmp_path / name, name, [final]) for name, final in (("none", 4), ("icl", 9))]
    found = contrasts.compare(folders)
    (contrast,) = found.contrasts
    assert contrast.numbers["final"].interval.over == "tasks"
    assert math.isnan(contrast.p)
    assert "speaks of these checkpoints, not of the methods" in warned(found)
    shown(found)


@pytest.mark.parametrize(
    ("change", "key"),
    [
        ({"scenario": {"protocol": "drift"}}, 'scenario.protocol is "shift" and "drift"'),
        ({"sampling": {"measure": {"max_tokens": 32}}}, "sampling.measure.max_tokens is 64 and 32"),
        ({"policy": {"engine": "vllm"}}, 'policy.engine is "hf" and "vllm"'),
        ({"measure": {"attempts": 2}}, "measure.attempts is 1 and 2"),
    ],
)
def test_what_does_not_match_is_named(tmp_path, pair, change, key):
    other = method(tmp_path / "other", "sft", [5] * 6, **change)
    with pytest.raises(ClaasbenchError) as refusal:
        contrasts.compare([pair[0], other])
    assert key in str(refusal.value)
    name = key.split(" is ")[0]
    assert f"--allow {name}" in str(refusal.value)
    found = contrasts.compare([pair[0], other], [name])
    assert f"differ and were allowed to: {name}" in warned(found)


@pytest.mark.parametrize("key", ["stream", "prompts"])
def test_other_contents_are_refused(pair, key):
    fake.edit(pair[1] / "o3-s3", lambda done: done["resolved"].update({key: "other"}))
    with pytest.raises(ClaasbenchError, match=f"resolved.{key} is"):
        contrasts.compare(pair)


def test_other_metrics_and_verifiers_are_refused(pair):
    for run in pair[1].iterdir():
        fake.edit(run, lambda done: done.update(metric_version=2))
    with pytest.raises(ClaasbenchError, match=r"versions\.metrics is 1 and 2"):
        contrasts.compare(pair)


def test_other_tasks_are_refused(pair):
    def rename(done):
        done["measures"][0]["variants"]["learner"][1]["tasks"][0] = "elsewhere"

    fake.edit(pair[1] / "o2-s2", rename, rows="01-*")
    with pytest.raises(ClaasbenchError, match="measured other tasks in row '01-b', split 'b'"):
        contrasts.compare(pair)


def test_an_unknown_key_is_told_the_nearest(pair):
    with pytest.raises(ClaasbenchError, match=r"did you mean 'policy.engine'"):
        contrasts.compare(pair, ["policy.engin"])


def test_no_common_trial(tmp_path, pair):
    other = fake.write(tmp_path / "x", SPLITS, scores([4, 4], [5, 5], [6, 6]), (), fake.config("sft", order=9, seed=9))
    with pytest.raises(ClaasbenchError, match="share no trial"):
        contrasts.compare([pair[0], other])


def test_live_scores_under_an_adaptive_attacker_are_no_pair(pair):
    for folder in pair:
        for run in folder.iterdir():
            fake.edit(run, lambda done: done.update(attacker={"state": "abc", "attacks": 300}))
    found = contrasts.compare(pair)
    assert "prequential" not in found.contrasts[0].numbers
    assert "--set attacker.name=replay" in warned(found)
    fake.edit(pair[1] / "o1-s1", lambda done: done.update(attacker={"state": "other", "attacks": 300}))
    with pytest.raises(ClaasbenchError, match=r'attacker.state is "abc" and "other"'):
        contrasts.compare(pair)


def test_a_measure_without_columns_has_its_final(tmp_path):
    for name, final in (("none", 4), ("icl", 9)):
        for trial in range(6):
            rows = [[fake.ones(count, 20)] for count in (4, 5, final)]
            fake.write(tmp_path / name / str(trial), SPLITS, rows, (), fake.config(name, order=trial, seed=trial))
    (contrast,) = contrasts.compare([tmp_path / "none", tmp_path / "icl"]).contrasts
    assert list(contrast.numbers) == ["final"]
    assert list(contrast.splits) == ["all"]
    assert contrast.numbers["final"].interval.mean == pytest.approx(0.25)


def test_what_is_shown_fits_a_terminal_and_equals_the_json(pair):
    found = contrasts.compare(pair)
    page = shown(found)
    assert max(map(len, page.splitlines())) <= 80
    (row,) = [line.split() for line in page.splitlines() if line.startswith("icl  ") and "trials" in line]
    assert row[:4] + row[5:7] == ["icl", "45.0", "20.0", "25.0", "0.031", "0.031"]
    tree = json.loads(compare.as_json(found))
    (row,) = tree["contrasts"]
    assert row["p_holm"] == 2 / 64
    assert row["numbers"]["final"]["interval"]["mean"] == pytest.approx(0.25)
    assert "| icl | 45.0 | 20.0 |" in text.markdown([compare.chapter(found)])


def claasbench(*words, cwd):
    command = [sys.executable, "-c", "from claasbench.cli import main; main()", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, check=False)


def test_two_real_studies_of_scripted_learners(tmp_path):
    small = ["--set", "scenario.tasks_per_split=8", "--set", "scenario.measured_per_split=8", "--quiet"]
    for name, policy in (("none", "scripted:random"), ("scripted", "scripted:oracle")):
        played = claasbench(
            "run", "frozen-lake", "--method", name, "--model", policy, *small, "--out", tmp_path / name, cwd=tmp_path
        )
        assert played.returncode == 0, played.stderr
    found = claasbench("compare", tmp_path / "none", tmp_path / "scripted", "--json", cwd=tmp_path)
    assert found.returncode == 0, found.stderr
    (contrast,) = json.loads(found.stdout)["contrasts"]
    reports = [claasbench("report", tmp_path / name, "--json", cwd=tmp_path).stdout for name in ("none", "scripted")]
    measures = [json.loads(report)["scenarios"][0]["methods"][0]["measures"][0] for report in reports]
    finals = [measure["metrics"]["final"]["mean"] for measure in measures]
    assert contrast["numbers"]["final"]["interval"]["mean"] == pytest.approx(finals[1] - finals[0])
    assert finals[1] > finals[0]
    page = claasbench("compare", tmp_path / "none", tmp_path / "scripted", cwd=tmp_path)
    command = next(line for line in page.stdout.split("│") if "claasbench show" in line)
    assert "--row" in command
    refused = claasbench("compare", tmp_path / "none", tmp_path / "nowhere", cwd=tmp_path)
    assert refused.returncode == 2
    assert refused.stderr.count("\n") == 1
