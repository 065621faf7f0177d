"""Runs on this machine: a study's runs in a few slots side by side, what stands where, and how to stop them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from claasbench import store
from claasbench.errors import ClaasbenchError, invalid
from claasbench.launch import study


def sweep(file: Path, out: Path, slots: int, say: Callable[[str], None], flags: Sequence[str]) -> list[str]:
    """Run every run of a study file, `slots` at a time; return the names of those that did not finish.

    The cores are shared out: each run gets its part of the threads, which is part of its digest.
    """
    if slots < 1:
        raise invalid("--slots", slots, "at least 1")
    waiting = _commands(file, out, flags)
    env = os.environ | {"OMP_NUM_THREADS": str(max(1, (os.cpu_count() or 1) // slots))}
    running: dict[str, subprocess.Popen[bytes]] = {}
    failed: list[str] = []
    try:
        while waiting or running:
            while waiting and len(running) < slots:
                name, command = waiting.pop(0)
                log = (out / name).with_suffix(".log")
                say(f"start {name}   log: {log}")
                running[name] = _start(command, log, env)
            time.sleep(0.1)
            for name in [name for name, process in running.items() if process.poll() is not None]:
                code = running.pop(name).returncode
                say(f"{'done' if code == 0 else f'exit {code}'} {name}")
                failed += [name] if code else []
    finally:
        for process in running.values():  # interrupted: the runs stop at their next unit and can be resumed
            process.terminate()
        for process in running.values():
            process.wait()
    return failed


def _commands(file: Path, out: Path, flags: Sequence[str]) -> list[tuple[str, list[str]]]:
    """Return each run's folder name and command; two runs in one folder are refused."""
    commands: dict[str, list[str]] = {}
    for planned in study.runs(file):
        name = str(study.folder(planned.tables, planned.values))
        if name in commands:
            raise ClaasbenchError(f"{str(file)!r}: two runs share the folder {name!r}; name what differs in [axes]")
        sets = [word for key, value in planned.values.items() for word in ("--set", f"{key}={json.dumps(value)}")]
        program = [sys.executable, "-m", "claasbench.cli", "run", str(file)]
        commands[name] = [*program, *sets, *flags, "--resume", "--out", str(out / name)]
    return list(commands.items())


def _start(command: list[str], log: Path, env: dict[str, str]) -> subprocess.Popen[bytes]:
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as file:
        return subprocess.Popen(command, stdout=file, stderr=file, env=env)


class Standing(NamedTuple):
    """Where one run stands."""

    run: str
    at: str
    rows_done: int
    committed: str
    running: str


def _folders(folder: Path) -> Iterator[Path]:
    yield from sorted(path.parent for path in folder.rglob("digest.txt"))


def status(folder: Path) -> list[Standing]:
    """Return where each run in or below `folder` stands."""
    return [_standing(run) for run in _folders(folder)]


def _standing(run: Path) -> Standing:
    rows = len(list(run.glob("splits/*/done.json")))
    commit = run / "commit.json"
    if not commit.exists():
        return Standing(str(run), "not begun", rows, "never", store.holder(run))
    cursor = json.loads(commit.read_text())["cursor"]
    at = "done" if cursor["phase"] == "done" else f"row {cursor['row']}, {cursor['phase']}, batch {cursor['batch']}"
    committed = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(commit.stat().st_mtime))
    return Standing(str(run), at, rows, committed, store.holder(run) or "no")


def ask_to_stop(folder: Path) -> list[Path]:
    """Leave word for every running run in or below `folder` to stop between two units."""
    asked = [run for run in _folders(folder) if store.holder(run)]
    for run in asked:
        (run / "stop").touch()
    return asked
