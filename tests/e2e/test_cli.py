"""The command line as people use it: mistakes cost one line and exit code 2, and nothing is written."""

import json
import math
import os
import signal
import subprocess
import sys
import time

import pytest

from claasbench import registry
from claasbench.stats import detectable
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
    # 3 rooms of 10 calls and one of 15: 32 x 45 in training, 64 x 45 in each of 5 rows
    assert "prompts: at most 1440 in training, 2880 a row, 15840 in all" in out
    assert list(here.iterdir()) == []


def test_dry_run_tells_which_difference_a_study_can_find(here):
    trials = '"trial.order" = [0, 1, 2]\n"trial.seed" = [0, 1, 2]\nzip = ["trial.order", "trial.seed"]'
    axes = f'[axes]\n"learner.name" = ["none", "icl"]\n{trials}\n'
    (here / "s.toml").write_text(f'[scenario]\nname = "frozen-lake"\n[policy]\nmodel = "scripted:random"\n{axes}')
    _, out, _ = command("run", "s.toml", "--dry-run")
    # 256 episodes a row: each method's final has a variance of 1/1024 at most
    few = 100 * detectable(math.sqrt(2 / 1024), 3)
    many = 100 * detectable(math.sqrt(2 / 1024 + 0.02), 3)
    assert f"power: 3 trials of 256 episodes in a row find a difference in final of {few:.1f} points" in out
    assert f"of {many:.1f} if trainings differ by 10 points" in out


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


SLOW = """
[scenario]
name = "frozen-lake"
[policy]
model = "scripted:random"
[learner]
name = "icl"
[stream]
batch = 1
[axes]
"trial.seed" = [0, 1]
"""


def begun(folder):
    while not (folder / "splits/00-4x4/turns.jsonl").exists():
        time.sleep(0.02)


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_sweep_stops_its_runs_between_units(how, here):
    (here / "s.toml").write_text(SLOW)
    words = [sys.executable, "-m", "claasbench.cli", "sweep", "s.toml", "--out", "study"]
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True, start_new_session=True) as process:
        begun(here / "study/icl-scripted-random/o0-s0")
        os.killpg(process.pid, how)
        said = process.communicate()[1]
    assert process.returncode == 130, said
    log = (here / "study/icl-scripted-random/o0-s0.log").read_text()
    assert "stopping after this unit" in log
    assert "Go on with" in log
    assert "lost" not in log
    assert not (here / "study/icl-scripted-random/o0-s1").exists()


def test_stopping_a_run_of_a_sweep_starts_no_other(here):
    (here / "s.toml").write_text(SLOW)
    words = [sys.executable, "-m", "claasbench.cli", "sweep", "s.toml", "--out", "study"]
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as process:
        begun(here / "study/icl-scripted-random/o0-s0")
        assert command("stop", "study")[0] == 0
        said = process.communicate()[1]
    assert process.returncode == 1
    assert "2 runs did not finish" in said
    assert not (here / "study/icl-scripted-random/o0-s1").exists()


def test_a_sweep_checks_every_run_before_it_starts_one(here):
    (here / "s.toml").write_text(STUDY.format(scenario=password(here / "plugin")).replace('"scripted"]', '"scriptd"]'))
    code, _, err = command("sweep", "s.toml", "--out", "study")
    assert (code, "did you mean 'scripted'?" in err) == (2, True)
    assert not (here / "study").exists()


def test_a_sweep_leaves_pruned_results_alone_and_refuses_other_settings(here):
    (here / "s.toml").write_text(STUDY.format(scenario=password(here / "plugin")))
    assert command("sweep", "s.toml", "--out", "study")[0] == 0
    for path in sorted((here / "study").rglob("*"), reverse=True):
        if path.is_file() and path.name != "done.json":
            path.unlink()
    code, _, err = command("sweep", "s.toml", "--out", "study")
    assert (code, "start" in err) == (0, False)
    with (here / "s.toml").open("a") as file:
        file.write("[stream]\nbatch = 3\n")
    code, _, err = command("sweep", "s.toml", "--out", "study")
    assert (code, "stream.batch: 16 -> 3" in err) == (2, True)


def test_axes_may_be_tables_and_any_text(here):
    text = STUDY.format(scenario=password(here / "plugin")).split("[axes]")[0]
    text += '[axes]\nlearner = [{name = "icl", items = 2}, {name = "none"}]\n'
    (here / "s.toml").write_text(text)
    code, _, err = command("sweep", "s.toml", "--out", "study")
    assert code == 0, err
    items = [json.loads(path.read_text())["learner"] for path in sorted(here.glob("study/*/*/config.json"))]
    assert [learner.get("items") for learner in items] == [2, None]


@pytest.mark.parametrize(
    ("axes", "said"),
    [
        ("axes = 3", "axes = 3"),
        ("[axes]\nzip = 3", "axes.zip = 3"),
        ('[axes]\n"trial.seed" = 3', "a list of values"),
        ('[axes]\n"trial.seed" = [0, 1]\n"trial.order" = [0]\nzip = ["trial.seed", "trial.order"]', "of one length"),
        (
            '[axes]\n"a.a" = [0]\n"a.b" = [0]\n"a.c" = [0]\nzip = [["a.a", "a.b"], ["a.a", "a.c"]]',
            "each axis once",
        ),
    ],
)
def test_ill_formed_axes_are_one_line(axes, said, here):
    (here / "s.toml").write_text(axes + '\n[scenario]\nname = "frozen-lake"\n')
    code, _, err = command("run", "s.toml", "--model", "scripted:random")
    assert (code, said in err.splitlines()[-1]) == (2, True), err


def test_a_trial_that_no_run_of_the_study_has_is_refused(here):
    (here / "s.toml").write_text(STUDY.format(scenario=password(here / "plugin")))
    code, _, err = command("run", "s.toml", "--seed", "7")
    assert (code, "trial.seed=7" in err, "trial.seed=1" in err) == (2, True, True)


def test_a_folder_of_other_settings_points_to_out_not_to_clean(here):
    command("run", "frozen-lake", *RANDOM, *SMALL)
    code, _, err = command("run", "frozen-lake", *RANDOM, *SMALL, "--set", "scenario.protocol=drift")
    assert (code, "scenario.protocol: 'shift' -> 'drift'" in err, "--clean" in err) == (2, True, False)


def test_places_that_cannot_take_a_run_are_one_line(here):
    (here / "file").write_text("")
    for out in ("file", "file/x"):
        code, _, err = command("run", "frozen-lake", *RANDOM, "--out", out)
        assert (code, "is not a folder" in err) == (2, True)


def test_show_keeps_attempts_apart(here):
    command("run", "frozen-lake", *RANDOM, *SMALL, "--out", "r", "--set", "measure.attempts=2")
    episodes = [json.loads(line) for line in (here / "r/splits/init/episodes.jsonl").read_text().splitlines()]
    assert command("show", "r")[1].count("[learner 0] sees:") == 1
    out = command("show", "r", "--task", episodes[0]["task"])[1]
    assert [out.count(text) for text in ("attempt 0", "attempt 1", "[learner 0] sees:")] == [1, 1, 2]


def test_show_reads_a_plug_in_file(here):
    command("init", "learner", "my-counter")
    assert "threshold = 1.0" in command("show", "./my_counter.py")[1]
    (here / "icl").mkdir()
    assert "memory_tokens" in command("show", "icl")[1]


def test_the_version_is_printed():
    from claasbench import __version__

    assert command("--version") == (0, f"{__version__}\n", "")
