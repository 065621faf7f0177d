"""The command line as people use it: mistakes cost one line and exit code 2, and nothing is written."""

import json
import subprocess
import sys

import pytest

from claasbench import registry
from toys import command, password

RANDOM = ["--method", "none", "--model", "scripted:random"]
SMALL = ["--set", "scenario.tasks_per_split=2", "--set", "scenario.measured_per_split=2"]


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["frozen-lak", *RANDOM], ["scenario.name = 'frozen-lak'", "did you mean 'frozen-lake'?", "sokoban"]),
        (["frozen-lake", "--method", "icll"], ["learner.name = 'icll'", "did you mean 'icl'?"]),
        (["frozen-lake", "--model", "scripted:randm"], ["'scripted:randm'", "did you mean 'scripted:random'?"]),
        (["frozen-lake", "--model", "smolm2", "--offline"], ["policy.model = 'smolm2'", "did you mean 'smollm2'?"]),
        (["frozen-lake", *RANDOM, "--set", "scenario.protocl=x"], ["scenario.protocl", "did you mean 'protocol'?"]),
        (["frozen-lake", *RANDOM, "--set", "scenario.protocol=shfit"], ["'shfit'", "did you mean 'shift'?"]),
        (["frozen-lake", *RANDOM, "--set", "scenario.data=deb"], ["scenario.data = 'deb'", "did you mean 'dev'?"]),
        (["frozen-lake", *RANDOM, "--set", "scenario.tasks_per_split=999"], ["scenario.tasks_per_split = 999", "32"]),
        (["frozen-lake", *RANDOM, "--set", "steam.batch=1"], ["table = 'steam'", "did you mean 'stream'?"]),
        (["frozen-lake", *RANDOM, "--set", "stream.batch=-1"], ["stream.batch = -1", "at least 1"]),
        (["frozen-lake", *RANDOM, "--set", "trial.seed=x"], ["trial.seed = 'x'", "a whole number"]),
        (["frozen-lake", *RANDOM, "--set", "sampling.test.top_p=1"], ["sampling = 'test'", "train"]),
        (["frozen-lake", *RANDOM, "--set", "sampling.train.top_p=0"], ["sampling.train.top_p = 0", "above 0"]),
        (["frozen-lake", *RANDOM, "--set", "measure.names=held"], ["measure.names = 'held'", "held-out"]),
        (["frozen-lake", *RANDOM, "--set", "measure.rows=some"], ["measure.rows = 'some'", "all, last"]),
        (["frozen-lake", *RANDOM, "--set", "seats.attacker.model=x"], ["seats = 'attacker'", "nothing"]),
        (["frozen-lake", *RANDOM, "--set", "oops"], ["--set = 'oops'", "KEY=VALUE"]),
        (["./mine.py", *RANDOM], ["'./mine.py'", "does not exist"]),
        (["mine.toml"], ["'mine.toml'", "does not exist"]),
        (["frozen-lake", *RANDOM, "--resume", "--clean"], ["--resume"]),
    ],
)
def test_a_mistake_is_one_line_and_writes_nothing(words, said, here):
    code, out, err = command("run", *words)
    lines = [line for line in err.splitlines() if line.startswith("claasbench:")]
    assert code == 2, err
    assert len(lines) == 1
    assert "Traceback" not in out + err
    for word in said:
        assert word in lines[0]
    assert list(here.iterdir()) == []


@pytest.mark.parametrize(
    "words", [["show", "frozn-lake"], ["list", "scenario"], ["status", "nothing"], ["init", "x", "y"]]
)
def test_other_commands_refuse_in_one_line_too(words, here):
    code, _, err = command(*words)
    assert code == 2
    assert len(err.splitlines()) == 1


def test_a_study_with_a_typo_is_refused_with_its_name(here):
    (here / "s.toml").write_text('[scenario]\nname = "frozen-lake"\nprotcol = "oel"\n[learner]\nname = "none"\n')
    code, _, err = command("run", "s.toml", "--model", "scripted:random")
    assert code == 2
    assert "scenario.protcol" in err
    assert "did you mean 'protocol'?" in err
    assert [path.name for path in here.iterdir()] == ["s.toml"]


def test_run_report_status_show(here):
    assert command("run", "frozen-lake", *RANDOM, *SMALL)[0] == 0
    folder = "results/frozen-lake/none-scripted-random/o0-s0"
    code, _, err = command("run", "frozen-lake", *RANDOM, *SMALL)
    assert (code, "--resume, or start over with --clean" in err) == (2, True)
    code, _, err = command("run", "frozen-lake", *RANDOM, *SMALL, "--resume", "--seed", "3", "--out", folder)
    assert (code, "trial.seed: 0 -> 3" in err) == (2, True)
    code, _, err = command("run", "frozen-lake", *RANDOM, *SMALL, "--resume")
    assert (code, "nothing to do" in err) == (0, True)
    assert command("run", "frozen-lake", *RANDOM, *SMALL, "--clean", "--seed", "3", "--out", folder)[0] == 0
    assert json.loads((here / folder / "config.json").read_text())["trial"]["seed"] == 3
    code, out, _ = command("status", "results")
    assert (code, "done" in out, folder in out) == (0, True, True)
    code, out, _ = command("show", folder)
    assert (code, "score" in out, "[learner 0] sees:" in out) == (0, True, True)
    code, out, _ = command("report", "results", "--json")
    assert code == 0
    json.loads(out)
    code, out, _ = command("report", "results")
    assert (code, (here / "results/report/report.md").exists()) == (0, True)


def test_a_failed_resume_leaves_the_folder_as_it_was(here):
    words = ["run", "frozen-lake", *RANDOM, *SMALL, "--out", "r"]
    command(*words)
    before = {path: path.read_bytes() for path in (here / "r").rglob("*") if path.is_file()}
    command(*words, "--resume", "--set", "stream.batch=3")
    assert {path: path.read_bytes() for path in (here / "r").rglob("*") if path.is_file()} == before


def test_dry_run_shows_the_plan_and_the_prompt_and_writes_nothing(here):
    code, out, _ = command("run", "frozen-lake", *RANDOM, "--dry-run")
    assert code == 0
    for words in ('"protocol": "shift"', "4 splits, 128 episodes", "5 rows x 4 cells", "1280 in all", "control panel"):
        assert words in out
    assert list(here.iterdir()) == []


@pytest.mark.parametrize("kind", ["learners", "scenarios", "policies"])
def test_every_listed_name_can_be_shown(kind):
    for name in registry.names(kind):
        code, out, _ = command("show", name)
        assert code == 0
        assert name in out


def test_init_writes_plug_ins_that_work_and_pass_their_own_tests(here):
    assert command("init", "scenario", "pass-word")[0] == 0
    assert command("init", "learner", "my-counter")[0] == 0
    assert command("init", "learner", "my-counter")[0] == 2
    assert command("run", "./pass_word.py", "--method", "./my_counter.py", "--model", "scripted:random")[0] == 0
    tests = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_pass_word.py", "test_my_counter.py"]
    assert subprocess.run(tests, cwd=here, capture_output=True).returncode == 0


STUDY = """
[scenario]
name = "{scenario}"
[policy]
model = "scripted:oracle"
[axes]
"learner.name" = ["none", "scripted"]
"trial.order" = [0, 1]
"trial.seed" = [0, 1]
zip = ["trial.order", "trial.seed"]
"""


def test_a_sweep_plays_every_run_and_leaves_done_ones_alone(here):
    (here / "s.toml").write_text(STUDY.format(scenario=password(here / "plugin")))
    code, _, err = command("sweep", "s.toml", "--out", "study", "--slots", "2")
    assert code == 0, err
    runs = sorted(str(path.parent.relative_to(here)) for path in here.rglob("digest.txt"))
    assert runs == [f"study/{m}-scripted-oracle/o{n}-s{n}" for m in ("none", "scripted") for n in (0, 1)]
    before = {run: (here / run / "commit.json").stat().st_mtime_ns for run in runs}
    assert command("sweep", "s.toml", "--out", "study")[0] == 0
    assert {run: (here / run / "commit.json").stat().st_mtime_ns for run in runs} == before
    code, out, _ = command("report", "study", "--md")
    assert code == 0
    assert "scripted" in out


def test_run_picks_a_trial_of_a_study(here):
    (here / "s.toml").write_text(STUDY.format(scenario=password(here / "plugin")))
    assert command("run", "s.toml", "--seed", "1")[0] == 0
    assert (here / "results/s/none-scripted-oracle/o1-s1/digest.txt").exists()


def test_stop_asks_only_running_runs(here):
    command("run", "frozen-lake", *RANDOM, *SMALL, "--out", "r")
    code, _, err = command("stop", "r")
    assert (code, "0 running runs" in err) == (0, True)
    assert not (here / "r/stop").exists()
