"""The report against values worked out by hand."""

import csv
import io
import json
import math
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

import fake_results as fake
from claasbench.errors import ClaasbenchError
from claasbench.report import cautions, figures, load, numbers, tables, terminal, text

SPLITS = ["4x4", "5x5", "6x6"]
GOLDEN = [[4, 5, 2], [16, 6, 4], [14, 18, 8], [12, 16, 17]]
"""Successes of 20: the untrained row, then M = [[.8, .3, .2], [.7, .9, .4], [.6, .8, .85]]."""
LIVE = [[1.0, 0.0, 0.0, 1.0], [1.0, 1.0, 1.0, 0.0], [0.0, 0.0, 1.0, None]]
HOSTILE = "a|b [bold]c[/bold] <b> $x_1$ `d` \x1b[31m\nnext"


def rows(successes, n=20):
    return [row and [fake.ones(k, n) for k in row] for row in successes]


def study(*paths):
    return numbers.study(load.load(paths))


def method(*paths):
    (section,) = study(*paths).sections
    (found,) = section.methods
    return found


def values(found):
    return {name: number.interval.mean for name, number in found.series[0].numbers.items()}


def said(*paths):
    return "\n".join(line for section in study(*paths).sections for line in cautions.cautions(section))


def markdown(found):
    return text.markdown(tables.chapters(found))


def shown(found, width=80):
    console = Console(width=width, file=io.StringIO(), color_system=None)
    for part in terminal.render(tables.chapters(found)):
        console.print(part)
    return console.file.getvalue()


@pytest.fixture
def golden(tmp_path):
    return fake.write(tmp_path / "icl" / "o0-s0", SPLITS, rows(GOLDEN), LIVE, bounds=(0.1, 0.9, 0.8))


def test_metrics_equal_the_golden_ones(golden):
    expected = {
        "final": 0.75, "forward": 0.3, "forward_by_row": 0.325, "forward_next": 0.35, "forgetting": 0.15,
        "forgetting_best": 0.15, "forgetting_pairs": 0.4 / 3, "forgetting_clipped": 0.15, "forgetting_rwalk": 0.15,
        "bwt": -0.15, "average_incremental": 2.35 / 3, "fwt": 0.175, "gain": 0.75 - 0.55 / 3, "prequential": 6 / 11,
    }  # fmt: skip
    assert values(method(golden)) == pytest.approx(expected)


def test_one_trial_has_an_interval_over_tasks(golden):
    number = method(golden).series[0].numbers["final"]
    # task by task the last row scores 12 x 1, 4 x 2/3, 1 x 1/3 and 3 x 0: variance (125/9 - 11.25) / 19 = 5/36
    half = 2.093024 * math.sqrt(5 / 36 / 20)
    assert (number.interval.low, number.interval.high) == pytest.approx((0.75 - half, 0.75 + half), abs=1e-6)
    assert (number.interval.n, number.interval.over) == (20, "tasks")
    assert "this checkpoint, not the method" in markdown(study(golden))
    assert math.isnan(method(golden).series[0].numbers["forgetting_best"].interval.low)


def test_many_trials_have_an_interval_over_trials(tmp_path):
    for k, last in enumerate(([12, 16, 17], [13, 17, 18])):
        fake.write(tmp_path / f"o{k}-s{k}", SPLITS, rows([*GOLDEN[:3], last]), LIVE, fake.config(order=k, seed=k))
    interval = method(tmp_path).series[0].numbers["final"].interval
    assert (interval.mean, interval.high - interval.mean) == pytest.approx((0.775, 12.706205 * 0.025), abs=1e-6)
    assert (interval.n, interval.over) == (2, "trials")
    assert "this checkpoint" not in markdown(study(tmp_path))


def test_repeated_orders_are_the_unit_and_the_naive_interval_stands_beside(tmp_path):
    for order, seed, last in ((0, 0, 12), (0, 1, 14), (1, 0, 16), (1, 1, 18)):
        config = fake.config(order=order, seed=seed)
        fake.write(tmp_path / f"o{order}-s{seed}", ["a"], rows([[4], [last]]), (), config)
    number = method(tmp_path).series[0].numbers["final"]
    assert (number.interval.over, number.interval.n, number.naive.n) == ("orders", 2, 4)
    assert number.interval.mean == pytest.approx(0.75)
    assert number.interval.high - 0.75 == pytest.approx(12.706205 * 0.1, abs=1e-6)
    assert number.naive.high - 0.75 == pytest.approx(3.182446 * math.sqrt(1 / 60) / 2, abs=1e-6)
    assert "taking all 4 trials as independent: Final 75.0" in markdown(study(tmp_path))


def test_orders_with_other_splits_are_averaged_by_position(tmp_path):
    for order, splits in ((0, ["a", "b"]), (1, ["b", "a"])):
        successes = [[2, 4], [16, 4], [8, 18]] if order == 0 else [[4, 2], [12, 6], [10, 16]]
        fake.write(tmp_path / f"o{order}", splits, rows(successes), (), fake.config(order=order))
    series = method(tmp_path).series[0]
    assert series.columns == ("split 1", "split 2")
    assert series.success == [pytest.approx(row) for row in ([0.15, 0.15], [0.7, 0.25], [0.45, 0.85])]


def test_missing_rows_are_never_zero(tmp_path):
    folder = fake.write(tmp_path / "o0-s0", SPLITS, rows([GOLDEN[0], GOLDEN[1], None, GOLDEN[3]]), LIVE)
    found = values(method(folder))
    assert found["final"] == pytest.approx(0.75)
    assert all(math.isnan(found[name]) for name in ("forward", "forgetting", "forgetting_rwalk", "prequential"))
    assert "3 of 12 cells were not measured (o0-s0 01-5x5 on held-out)" in said(folder)
    page = markdown(study(folder))
    assert "| 01-5x5 | – | – | – |" in page  # noqa: RUF001
    assert "| icl | play | – | – | – | – |" in page  # noqa: RUF001 (a part of the costs is no cost)
    tree = json.loads(text.as_json(study(folder)))
    assert tree["scenarios"][0]["methods"][0]["measures"][0]["metrics"]["forward"]["mean"] is None


def test_an_incomplete_trial_is_left_out_of_what_it_lacks(tmp_path):
    for seed in range(3):
        successes = [*GOLDEN[:2], None if seed == 2 else GOLDEN[2], GOLDEN[3]]
        fake.write(tmp_path / f"s{seed}", SPLITS, rows(successes), LIVE, fake.config(seed=seed, order=seed))
    found = method(tmp_path).series[0].numbers
    assert (found["final"].interval.n, found["forward"].interval.n) == (3, 2)
    assert found["forward"].interval.mean == pytest.approx(0.3)
    assert "30.0 ±0.0 (n=2)" in markdown(study(tmp_path))


def test_failures_are_no_zeros(tmp_path):
    folder = fake.write(tmp_path / "r", ["a"], [[fake.ones(4, 20)], [fake.ones(12, 20, failed=4)]], [[1.0, None]])
    point = method(folder).series[0].points[1][0]
    assert (point.interval.mean, point.n, point.n_failed) == (0.75, 16, 4)
    assert "4 measured episodes failed and count nowhere (o0-s0 00-a)" in said(folder)
    assert "1 training episodes failed" in said(folder)
    assert "| n (failed) | 16-20 (4) |" in markdown(study(folder))


def test_a_shared_measure_has_a_curve(tmp_path):
    successes = [[4], [8], [12], [18]]
    for seed in range(2):
        config = fake.config("oel", seed=seed, order=seed)
        fake.write(tmp_path / f"s{seed}", SPLITS, rows(successes), LIVE, config, bounds=(0.1, 0.9, 0.7))
    series = method(tmp_path).series[0]
    assert series.success == [[0.2], [0.4], [0.6], [0.9]]
    assert list(series.numbers) == ["final", "prequential", "gain"]
    assert (series.numbers["final"].interval.mean, series.numbers["gain"].interval.mean) == pytest.approx((0.9, 0.7))
    page = markdown(study(tmp_path))
    assert "| 01-5x5 | 60.0 ±0.0 |" in page
    assert "Forward" not in page
    assert "Forgetting" not in page


def test_a_return_is_kept_out_of_final(tmp_path):
    successes = [[2, 2, 2], [18, 2, 16], [2, 18, 3], [18, 2, 19]]
    folder = fake.write(tmp_path / "r", ["a", "b", "a2"], rows(successes))
    fake.edit(folder, lambda done: done.update(returns=True))
    found = values(method(folder))
    assert (found["final"], found["forgetting"], found["relearn"]) == pytest.approx((0.5, 0.8, 0.8))
    assert "returns to the first kind" in markdown(study(folder))


def test_variants_stand_beside_the_learner_and_empty_cells_are_none(tmp_path):
    folder = fake.write(tmp_path / "r", ["a", "b"], rows([[4, 4], [10, 4], [10, 10]]))

    def add(done):
        cells = [fake.cell("a", fake.ones(20, 20)), fake.cell("b", [])]
        done["measures"][0]["variants"] = {"in-context": cells, **done["measures"][0]["variants"]}

    fake.edit(folder, add)
    assert [series.measured.variant for series in method(folder).series] == ["learner", "in-context"]
    assert math.isnan(method(folder).series[1].success[2][1])
    assert "icl · in-context" in markdown(study(folder))
    fake.edit(folder, lambda done: done["row"] < 0 and done["measures"][0]["variants"].pop("in-context"))
    assert "2 of 10 cells were not measured" in said(folder)  # the empty ones; before training there is no such variant


def test_bounds_normalise_and_stand_under_the_matrix(golden):
    series = method(golden).series[0]
    assert series.normalised[1] == pytest.approx([0.7 / 0.8, 0.2 / 0.8, 0.1 / 0.8])
    assert series.ranges["forward"] == pytest.approx((0.1, 0.9, 0.8))
    page = markdown(study(golden))
    assert "| chance | 10.0 | 10.0 | 10.0 |\n| ceiling | 90.0 | 90.0 | 90.0 |\n| one policy | 80.0" in page


def test_unknown_bounds_leave_out_what_needs_them(tmp_path):
    folder = fake.write(tmp_path / "r", SPLITS, rows(GOLDEN), bounds=(None, None, None))
    page = markdown(study(folder))
    assert "chance" not in page
    assert '"chance": null' in text.as_json(study(folder))


def test_rates_costs_and_budget(tmp_path):
    folder = fake.write(tmp_path / "r", ["a"], rows([[4], [10]]), [[1.0, 1.0, 0.0, 0.0]], invalid=4, cut=2, no_action=8)
    by_title = {table.title: table for table in tables.tables(study(folder).sections[0])}
    assert by_title["Form of the replies, in %"].rows == [
        ["icl", "training", "4", "0.0", "0.0", "0.0", "0.0", "5"],
        ["", "measured", "40", "10.0", "20.0", "5.0", "0.0", "5"],
    ]
    assert by_title["Tokens and seconds of one trial by phase"].rows[0] == ["icl", "play", "400", "200", "40", "8"]
    assert by_title["Tokens and seconds of one trial by phase"].rows[2] == ["", "measure", "4000", "2000", "400", "8"]
    # 40 reply tokens and 8 + 2 seconds of training for 2 successes and 50 points
    assert method(folder).budget == {
        "reply_tokens_per_success": 20, "seconds_per_success": 5,
        "reply_tokens_per_final_point": 0.8, "seconds_per_final_point": 0.2,
    }  # fmt: skip


def test_copied_rows_are_noted_and_cost_nothing(tmp_path):
    folder = fake.write(tmp_path / "r", ["a"], rows([[4], [4]]))
    fake.edit(folder, lambda done: done.update(copied="init"), "00-a")
    assert "copied rows, for the learner's state was the same: 00-a from init" in said(folder)
    assert numbers.counted(method(folder).runs, measured=True)["episodes"] == 20


def test_attempts_give_a_cross_fitted_best(tmp_path):
    attempts = [[1.0, 1.0] * 10, [1.0, 0.0] * 10]
    folder = fake.write(tmp_path / "r", ["a", "b"], [attempts, attempts, attempts[::-1]], attempts=2)
    found = method(folder).series[0].numbers
    assert found["forgetting_cross_fitted"].interval.mean == pytest.approx(0.5)
    assert found["final"].interval.n == 10  # tasks, each with the mean of its attempts
    assert "as G2, with the best row" in markdown(study(folder))


def test_noise_floors_are_positive_for_a_flat_policy(golden):
    found = method(golden).series[0].numbers
    floors = {name for name, number in found.items() if not math.isnan(number.floor)}
    assert floors == {"forgetting_best", "forgetting_clipped", "forgetting_rwalk"}
    assert 0 < found["forgetting_best"].floor < found["forgetting_rwalk"].floor < 0.2


def test_methods_are_told_apart_by_the_settings_that_differ(tmp_path):
    for k, learner in enumerate(({"lr": 0.1}, {"lr": 0.2}, {"lr": 0.2, "name": "sdpo"})):
        for seed in range(2):
            config = fake.config(model="small" if k < 2 else "large", seed=seed, learner=learner)
            fake.write(tmp_path / f"{k}-{seed}", ["a"], rows([[4], [10 + k]]), (), config)
    (section,) = study(tmp_path).sections
    assert [found.label for found in section.methods] == [
        "icl · small · lr=0.1",
        "icl · small · lr=0.2",
        "sdpo · large",
    ]
    assert [len(found.runs) for found in section.methods] == [2, 2, 2]


def test_many_methods_stand_a_few_at_a_time_with_one_list_of_formulas(tmp_path):
    for k in range(6):
        fake.write(tmp_path / str(k), ["a", "b"], rows([[4, 4], [10, 4], [10, k]]), (), fake.config(f"m{k}"))
    page = markdown(study(tmp_path))
    assert page.count("every definition") == 2
    assert page.count("`mean_j M[K-1][j]`") == 1
    assert "| Number | m4 | m5 |" in page


def test_streams_of_another_length_are_other_sections(tmp_path):
    for k, splits in enumerate((["a"], ["a", "b"])):
        successes = [[4] * len(splits)] * (len(splits) + 1)
        fake.write(tmp_path / str(k), splits, rows(successes), (), fake.config(seed=k))
    assert len(study(tmp_path).sections) == 2


def test_scenarios_are_sections(tmp_path):
    for size in (4, 5):
        config = fake.config(scenario={"size": size})
        fake.write(tmp_path / str(size), ["a"], rows([[4], [10]]), (), config)
    titles = [section.title for section in study(tmp_path).sections]
    assert titles == ["frozen-lake · shift · size=4", "frozen-lake · shift · size=5"]
    assert study(tmp_path).sections[0].methods[0].short == "icl"


def test_cautions(tmp_path):
    first, second = tmp_path / "first", tmp_path / "second"
    fake.write(first, ["a", "b"], rows([[0, 0], [18, 0], [2, 18]]), [[1.0], [1.0]], cut=3, no_action=9)
    fake.write(second, ["a", "b"], rows([[0, 0], [10, 0], [0, 10]]), (), fake.config("sdpo"))
    fake.edit(first, lambda done: done["resolved"].update(toy=True, model="hash"))
    fake.edit(second, lambda done: done["resolved"].update(stream="other"))
    fake.edit(second, lambda done: done["splits"][0].update(train=8))
    for folder in (first, second):
        fake.edit(folder, lambda done: done["config"]["policy"].update(engine="vllm"))
    found = said(tmp_path)
    for line in (
        "toy model smollm2 (hash): this checks the machine, not the science",
        "not the same tasks: runs of order 0 have different streams",
        "unequal budgets: the number of training tasks is 8 for icl; 12 for sdpo",
        "icl: 8% of replies cut off where measured at init, and more than 5% in 3 of 3 rows",
        "icl: 22% of turns without an action where measured at init",
        "icl: 3 of 6 cells are exactly 0 or 100 % with n >= 20 (o0-s0 init on a: 0%, o0-s0 init on b: 0%",
        "sdpo: engine vllm draws its own tokens",
    ):
        assert line in found


def test_the_ranking_may_depend_on_the_definition(tmp_path):
    fake.write(tmp_path / "x", SPLITS, rows([[0] * 3, [10, 0, 0], [18, 10, 0], [10, 10, 10]]))
    fake.write(tmp_path / "y", SPLITS, rows([[0] * 3, [12, 0, 0], [12, 12, 0], [10, 10, 10]]), (), fake.config("sdpo"))
    assert "icl forgets less than sdpo by Forgetting (G1)" in said(tmp_path)
    assert "more by Forgetting from the best (G2)" in said(tmp_path)


def test_a_method_is_untuned_or_names_its_dev_study(tmp_path):
    for name, sees, own in (("none", "nothing", {}), ("icl", "text", {}), ("sft", "reward", {"tuned": "dev-sft"})):
        folder = fake.write(tmp_path / name, ["a"], rows([[4], [10]]), (), fake.config(name, learner=own))
        fake.edit(folder, lambda done, sees=sees: done["resolved"].update(sees=sees))
    lines = [line for line in said(tmp_path).splitlines() if "untuned" in line]
    assert lines == ["icl: untuned: its settings were not chosen on a dev stream"]
    (section,) = study(tmp_path).sections
    table = tables.trials(section.methods)
    assert [row[table.header.index("Tuned by")] for row in table.rows] == ["untuned", "-", "dev-sft"]


def test_replay_shows_what_learners_that_replay_did_on_average_over_trials(tmp_path):
    for seed, done in ((0, 20), (1, 30)):
        folder = fake.write(tmp_path / f"sdpo{seed}", ["a"], rows([[4], [10]]), (), fake.config("sdpo", seed=seed))
        last = {"owed": 32, "done": done, "dropped": 32 - done, "ess": 0.5, "capped": None}
        fake.edit(folder, lambda table, last=last: table["updates"].update(last=last))
    fake.write(tmp_path / "icl", ["a"], rows([[4], [10]]))
    (section,) = study(tmp_path).sections
    (table,) = (table for table in tables.tables(section) if table.title == "Replay")
    (row,) = (dict(zip(table.header, row, strict=True)) for row in table.rows)
    assert (row["Method"], row["Owed"], row["Done"], row["Dropped"]) == ("sdpo", "32", "25", "7")
    assert (row["ESS"], row["Cap"], row["Held"]) == ("50.0", "\N{EN DASH}", "\N{EN DASH}")


def test_versions_that_differ_within_a_method_are_told(tmp_path):
    for seed in range(2):
        fake.write(tmp_path / str(seed), ["a"], rows([[4], [10]]), (), fake.config(seed=seed))
    fake.edit(tmp_path / "1", lambda done: done["resolved"]["facts"].update(textarena="0.7.5"))
    fake.edit(tmp_path / "1", lambda done: done.update(metric_version=0))
    assert "its trials differ in textarena: 0.7.4, 0.7.5" in said(tmp_path)
    assert "written under another version of the metrics" in said(tmp_path)


def test_names_cannot_break_out_of_markdown_or_terminal(tmp_path):
    config = fake.config(HOSTILE, HOSTILE, scenario={"name": HOSTILE})
    folder = fake.write(tmp_path / "r", [HOSTILE, "ok"], rows([[0, 0], [20, 0], [20, 20]]), [[1.0], [0.0]], config)
    page = markdown(study(folder))
    widths = [line.replace("\\|", "").count("|") for line in page.splitlines() if line.startswith("|")]
    table_widths = [line.count("|") for line in page.splitlines() if line.startswith("| ---")]
    assert set(widths) == set(table_widths)
    assert "\x1b" not in page
    assert "a\\|b \\[bold\\]c\\[/bold\\] \\<b\\> \\$x\\_1\\$ \\`d\\`" in page
    screen = shown(study(folder), 400)
    assert "\x1b" not in screen
    assert "a|b [bold]c[/bold] <b> $x_1$ `d`" in screen


def test_json_is_strict_and_holds_the_numbers(golden):
    tree = json.loads(text.as_json(study(golden)), parse_constant=pytest.fail)
    (found,) = tree["scenarios"][0]["methods"]
    (measure,) = found["measures"]
    assert [[cell["mean"] for cell in row] for row in measure["cells"]] == [[k / 20 for k in row] for row in GOLDEN]
    assert measure["metrics"]["forgetting"]["mean"] == pytest.approx(0.15)
    assert found["live"][2] == pytest.approx({**found["live"][2], "mean": 1 / 3, "episodes": 3, "failed": 1})
    assert tree["metrics"]["final"]["formula"] == "mean_j M[K-1][j]"


def test_csv_reads_back_the_same_numbers(golden):
    cells = list(csv.DictReader(io.StringIO(text.csv(study(golden)))))
    assert [float(row["success"]) for row in cells] == [k / 20 for row in GOLDEN for k in row]
    assert cells[4] == {
        **cells[4], "run": "icl/o0-s0", "method": "icl · smollm2", "order": "0", "seed": "0", "measure": "held-out",
        "variant": "learner", "trained_through": "00-4x4", "evaluated_on": "01-5x5", "n": "20", "n_failed": "0",
        "chance": "0.1", "ceiling": "0.9",
    }  # fmt: skip
    found = list(csv.DictReader(io.StringIO(text.csv_metrics(study(golden)))))
    expected = method(golden).series[0].numbers
    assert {row["metric"]: float(row["mean"]) for row in found} == {k: v.interval.mean for k, v in expected.items()}
    assert next(row for row in found if row["metric"] == "forgetting_best")["low"] == ""


@pytest.mark.parametrize("width", [80, 120])
def test_the_terminal_shows_headline_matrix_and_formulas(golden, width):
    screen = shown(study(golden), width)
    assert max(map(len, screen.splitlines())) <= width
    assert screen.index("Final ↑") < screen.index("Forward by row") < screen.index("Gain ↑")
    assert any(line.split()[:4] == ["01-5x5", "70.0", "90.0", "40.0"] for line in screen.splitlines())
    assert "Forgetting (G1) = mean_{j<K-1} (M[j][j] - M[K-1][j])" in screen


def test_figures_are_drawn_the_same_twice(tmp_path):
    successes = [GOLDEN[0], None, *GOLDEN[2:]]
    folder = fake.write(tmp_path / HOSTILE.replace("\n", ""), [HOSTILE, *SPLITS[1:]], rows(successes), LIVE)
    fake.edit(folder, lambda done: done["resolved"].update(toy=True))
    first = figures.draw(study(folder), tmp_path / "one")
    again = figures.draw(study(folder), tmp_path / "two")
    assert {path.suffix for path in first} == {".png", ".svg", ".pdf"}
    assert len(first) == 9  # heat maps, checkpoint curves and the live curve
    assert all(path.stat().st_size > 5000 for path in first)
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in again]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda done: done.update(schema=2), "its schema is 2"),
        (lambda done: done.pop("splits"), "'splits' is missing"),
        (lambda done: done.update(splits=[]), "it has no splits"),
        (lambda done: done.update(row=7), "row 7 of 3 splits"),
        (lambda done: done.update(returns="no"), "'returns' is 'no', not bool"),
        (lambda done: done["config"]["trial"].update(seed=True), "'seed' is 'True', not int"),
        (lambda done: done["resolved"].pop("toy"), "'toy' is missing"),
        (lambda done: done["live"].update(split="5x5"), "a cell of split '5x5' stands where '4x4' belongs"),
        (lambda done: done["live"]["scores"].pop(), "lists of different lengths"),
        (lambda done: done["live"]["statuses"].__setitem__(0, "infra_error"), "status 'infra_error' with 1.0"),
        (lambda done: done["measures"][0]["variants"]["learner"].pop(), "measure 'held-out' has 2 cells for 3"),
        (lambda done: done["live"].update(tasks=["a"] * 4, attempts=[0] * 4), "twice"),
        (lambda done: done["live"]["counts"].pop("cut"), "'cut' is missing"),
        (lambda done: done["seconds"].update(play=None), "'play' is 'None', not int or float"),
    ],
)
def test_a_file_of_another_shape_is_refused_in_one_line(golden, change, reason):
    fake.edit(golden, change, "00-4x4")
    with pytest.raises(ClaasbenchError) as caught:
        load.load([golden])
    assert reason in str(caught.value)
    assert "00-4x4" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("data", [b"", b'{"schema": 1, "row"', b"\xff\xfe", b"[]", b'{"schema": NaN}'])
def test_a_torn_file_is_refused_by_name(golden, data):
    path = golden / "splits" / "00-4x4" / "done.json"
    path.write_bytes(data)
    with pytest.raises(ClaasbenchError, match="00-4x4"):
        load.load([golden])


def test_rows_of_two_runs_and_one_trial_twice_are_refused(tmp_path):
    fake.write(tmp_path / "a", ["a"], rows([[4], [10]]))
    fake.write(tmp_path / "b", ["a"], rows([[4], [10]]))
    with pytest.raises(ClaasbenchError, match="are the same trial"):
        study(tmp_path)
    fake.edit(tmp_path / "a", lambda done: done.update(digest="other"), "init")
    with pytest.raises(ClaasbenchError, match="belongs to another run"):
        load.load([tmp_path])


def test_runs_are_found_once_and_missing_folders_told(tmp_path, golden):
    assert len(load.load([tmp_path, golden])) == 1
    with pytest.raises(ClaasbenchError, match="does not exist"):
        load.load([tmp_path / "nothing"])
    (tmp_path / "empty").mkdir()
    with pytest.raises(ClaasbenchError, match="no run to report"):
        load.load([tmp_path / "empty"])


def test_engines_that_count_no_tokens_have_no_reply_length(tmp_path):
    folder = fake.write(tmp_path / "r", ["a"], rows([[4], [10]]), [[1.0]], reply_tokens=0)
    assert math.isnan(numbers.rates(numbers.counted(method(folder).runs, measured=True))["reply_tokens"])


def test_import_is_light():
    names = sorted(path.stem for path in Path(load.__file__).parent.glob("[a-z]*.py"))
    code = f"import sys, {', '.join(f'claasbench.report.{name}' for name in names)}; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {"matplotlib", "pandas", "torch", "scipy", "numpy"} & set(loaded)


def test_tasks_that_all_agree_claim_no_certainty():
    from claasbench.report.estimates import over_tasks

    interval = over_tasks(0.0, [0.0] * 24)
    assert interval.mean == 0.0
    assert math.isnan(interval.low)
    assert math.isnan(interval.high)
