"""A run killed anywhere and resumed leaves the bytes of one that was never killed."""

import json
import os
import random
import resource
import signal
import subprocess
import sys
import time

import pytest

from claasbench import config, store
from claasbench.launch._parts import assemble, configure
from claasbench.runner import Runner
from toys import command as toys_command
from toys import fingerprint, killed_everywhere, password, play, tables


@pytest.mark.parametrize("learner", ["scripted", "icl"])
@pytest.mark.parametrize(("every", "step"), [(1, 4), pytest.param(1, 1, marks=pytest.mark.slow), (3, 7)])
def test_killed_at_every_write(learner, every, step, tmp_path):
    made = tables(password(tmp_path), learner, stream__batch=3, checkpoint__every=every)
    made["scenario"] |= {"tasks_per_split": 6, "measured_per_split": 2}
    assert killed_everywhere(made, tmp_path, step) > 70


def test_a_stop_between_units_is_taken_up(tmp_path):
    made = tables(password(tmp_path), "icl", stream__batch=3, checkpoint__every=2)
    play(made, tmp_path / "whole")
    parts = assemble(configure(made))
    written = {**parts.config.tables(), "resolved": parts.resolved}
    digest = config.digest(parts.config.tables(), parts.resolved)
    stops = 0
    for _ in range(40):
        parts = assemble(configure(made))
        held = store.resume(tmp_path / "run", written, digest, config.differing)
        runner = Runner(parts.config, parts.resolved, parts.scenario, parts.learner, parts.seats, held)
        last = ""
        for event in runner.events():
            runner.stop |= event.kind == "episode"  # asked for in the middle of every unit
            last = event.kind
        held.close()
        if last == "end":
            break
        assert last == "stop"
        stops += 1
    assert stops > 10
    # a stop commits before the usual unit, so only the number of commits may differ
    whole, stopped = fingerprint(tmp_path / "whole"), fingerprint(tmp_path / "run")
    strip = {name: value for name, value in whole.items() if name.startswith(("splits", "updates"))}
    assert strip == {name: value for name, value in stopped.items() if name.startswith(("splits", "updates"))}


def run_command(folder, *words):
    return [sys.executable, "-m", "claasbench.cli", "run", *words, "--out", str(folder), "--resume", "--quiet"]


def written(folder):
    """Return how many bytes of episodes and updates a run has written, committed or not."""
    files = [*folder.glob("splits/*/*.jsonl"), folder / "updates.jsonl"]
    return sum(path.stat().st_size for path in files if path.exists())


def commits(folder):
    """Return the number of the last commit."""
    commit = folder / "commit.json"
    return json.loads(commit.read_text())["commits"] if commit.exists() else 0


def chain_of_kills(words, tmp_path, kills):
    """Kill a run `kills` times, spread over all its commits, and compare with one that was left alone.

    Each kill falls a random number of written bytes after its commit. Returns how many different commits they found.
    """
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    whole, run = tmp_path / "whole", tmp_path / "run"
    subprocess.run(run_command(whole, *words), check=True, capture_output=True, env=environment)
    stretch = written(whole) / 200
    chance = random.Random(0)
    found = set()
    for number in range(kills):
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        with subprocess.Popen(run_command(run, *words), **quiet, env=environment) as process:
            while process.poll() is None and not store.holder(run):
                time.sleep(0.005)
            while process.poll() is None and commits(run) < commits(whole) * number // kills:
                time.sleep(0.001)
            aim = written(run) + chance.uniform(0, stretch)
            while process.poll() is None and written(run) < aim:
                time.sleep(0.001)
            process.send_signal(signal.SIGKILL)
        assert process.returncode == -signal.SIGKILL, "the run ended before it was killed"
        found.add(commits(run))
    subprocess.run(run_command(run, *words), check=True, capture_output=True, env=environment)
    assert fingerprint(run) == fingerprint(whole)
    return len(found)


SCRIPTED = ["frozen-lake", "--method", "icl", "--model", "scripted:random", "--set", "stream.batch=1"]


def test_killed_processes_leave_the_same_bytes(tmp_path):
    small = ["--set", "scenario.tasks_per_split=8", "--set", "scenario.measured_per_split=8"]
    assert chain_of_kills([*SCRIPTED, *small], tmp_path, 4) == 4


@pytest.mark.slow
def test_25_kills_in_one_chain_scripted(tmp_path):
    assert chain_of_kills(SCRIPTED, tmp_path, 25) >= 15


@pytest.mark.slow
def test_25_kills_in_one_chain_hf(tmp_path):
    from tiny import tiny_model

    model = tiny_model(tmp_path / "model", seed=0, context=4096)
    words = ["frozen-lake", "--method", "icl", "--model", str(model), "--set", "stream.batch=2"]
    words += ["--set", "scenario.tasks_per_split=12", "--set", "scenario.measured_per_split=2"]
    words += ["--set", "sampling.train.max_tokens=6", "--set", "sampling.measure.max_tokens=6"]
    words += ["--set", "learner.memory_tokens=1200"]
    assert chain_of_kills(words, tmp_path, 25) >= 15


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "settings"),
    [
        ("sdpo", ["learner.b_min=4", "learner.batch=4"]),
        (
            "oel",
            ["learner.games=4", "learner.accumulations=2", "learner.steps=4", "learner.prefixes=4", "stream.batch=4"],
        ),
    ],
)
def test_25_kills_in_one_chain_of_learning_weights(method, settings, tmp_path):
    words = ["frozen-lake", "--method", method, "--model", "nano-grid"]
    for setting in ["scenario.tasks_per_split=8", "scenario.measured_per_split=2", "stream.batch=2", *settings]:
        words += ["--set", setting]
    assert chain_of_kills(words, tmp_path, 25) >= 8  # steps write few bytes, so several pass before a kill


def test_ctrl_c_stops_between_units_and_says_how_to_go_on(tmp_path):
    words = ["frozen-lake", "--method", "icl", "--model", "scripted:random", "--set", "stream.batch=2"]
    command = [sys.executable, "-m", "claasbench.cli", "run", *words, "--out", str(tmp_path / "run")]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        while process.poll() is None and not (tmp_path / "run/splits/00-4x4/turns.jsonl").exists():
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        said = process.communicate()[1]
    assert process.returncode == 130
    assert "stopping after this unit" in said
    assert f"Go on with: claasbench run {' '.join(words)} --out {tmp_path / 'run'} --resume" in said
    assert store.holder(tmp_path / "run") == ""
    subprocess.run(run_command(tmp_path / "run", *words), check=True, capture_output=True)
    subprocess.run(run_command(tmp_path / "whole", *words), check=True, capture_output=True)
    assert fingerprint(tmp_path / "run") == fingerprint(tmp_path / "whole")


def test_stop_reaches_a_running_run(tmp_path):
    words = ["frozen-lake", "--method", "icl", "--model", "scripted:random", "--set", "stream.batch=1"]
    with subprocess.Popen(run_command(tmp_path / "run", *words), stderr=subprocess.PIPE, text=True) as process:
        while process.poll() is None and not (tmp_path / "run/splits/00-4x4/turns.jsonl").exists():
            time.sleep(0.01)
        asked = subprocess.run(
            [sys.executable, "-m", "claasbench.cli", "stop", str(tmp_path)], capture_output=True, text=True
        )
        said = process.communicate()[1]
    assert "asked 1 running runs" in asked.stderr
    assert (process.returncode, "Go on with" in said) == (130, True)
    assert not (tmp_path / "run/stop").exists()


def test_a_full_disk_stops_the_run_and_loses_nothing_committed(tmp_path):
    def small_disk():
        resource.setrlimit(resource.RLIMIT_FSIZE, (150_000, 150_000))  # no file may grow beyond this

    words = ["frozen-lake", "--method", "icl", "--model", "scripted:random", "--set", "scenario.measured_per_split=8"]
    command = run_command(tmp_path / "run", *words)
    stopped = subprocess.run(command, preexec_fn=small_disk, capture_output=True, text=True)
    assert stopped.returncode == 1
    assert "Traceback" not in stopped.stderr
    assert stopped.stderr.splitlines()[-1].startswith("claasbench: no room to write")
    code, out, _ = toys_command("report", tmp_path / "run", "--md")
    assert (code, "icl" in out) == (0, True)
    subprocess.run(command, check=True, capture_output=True)
    subprocess.run(run_command(tmp_path / "whole", *words), check=True, capture_output=True)
    assert fingerprint(tmp_path / "run") == fingerprint(tmp_path / "whole")
