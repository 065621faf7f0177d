"""Runs on this machine: a study's runs in a few slots side by side, what stands where, and how to stop them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from claasbench import config, store
from claasbench.config import Table
from claasbench.errors import ClaasbenchError, invalid
from claasbench.launch import study
from claasbench.launch._parts import configure

INTERRUPTED = 130
"""The exit code of a run that was asked to stop."""


class Job(NamedTuple):
    """One run of a sweep: its folder below the study's, and its command."""

    name: str
    command: list[str]


def sweep(file: Path, out: Path, slots: int, say: Callable[[str], None], flags: Sequence[str]) -> list[str]:
    """Run every run of a study file, `slots` at a time; return the names of those that did not finish.

    All runs are checked before the first one starts. Runs that are done are left alone. Where the cores are shared
    out, each run gets its part of them as the setting policy.threads, which is part of its digest.
    """
    if slots < 1:
        raise invalid("--slots", slots, "at least 1")
    waiting = list(_jobs(file, out, slots, flags))
    running: dict[str, subprocess.Popen[bytes]] = {}
    failed: list[str] = []
    with _ended(running):
        while waiting or running:
            while waiting and len(running) < slots:
                job = waiting.pop(0)
                log = (out / job.name).with_suffix(".log")
                say(f"start {job.name}   log: {log}")
                running[job.name] = _start(job.command, log)
            time.sleep(0.1)
            ended = {name: process.returncode for name, process in running.items() if process.poll() is not None}
            for name, code in ended.items():
                del running[name]
                say(f"{'done' if code == 0 else f'exit {code}'} {name}")
            failed += [name for name, code in ended.items() if code]
            if INTERRUPTED in ended.values():  # somebody stopped a run of this sweep: start no other
                failed += [job.name for job in waiting]
                waiting = []
    return failed


def _jobs(file: Path, out: Path, slots: int, flags: Sequence[str]) -> Iterator[Job]:
    """Yield what is left to run; two runs in one folder, and a folder of other settings, are refused."""
    seen: set[str] = set()
    for planned in study.runs(file):
        name = str(study.folder(planned.tables, planned.values))
        if name in seen:
            raise ClaasbenchError(f"{str(file)!r}: two runs share the folder {name!r}; name what differs in [axes]")
        seen.add(name)
        wanted = configure(planned.tables).config.tables()
        if _is_done(out / name, wanted):
            continue
        sets = dict(planned.values)
        if slots > 1 and "threads" in wanted["policy"] and not wanted["policy"]["threads"]:
            sets["policy.threads"] = max(1, (os.cpu_count() or 1) // slots)
        words = [word for key, value in sets.items() for word in ("--set", f"{key}={config.literal(value)}")]
        program = [sys.executable, "-m", "claasbench.cli", "run", str(file)]
        yield Job(name, [*program, *words, *flags, "--resume", "--out", str(out / name)])


def _is_done(folder: Path, wanted: Table) -> bool:
    """Tell from a run's done.json files alone whether it is done; one of other settings is refused by key."""
    rows = [json.loads(path.read_text(encoding="utf-8")) for path in folder.glob("splits/*/done.json")]
    last = [row for row in rows if row["row"] == len(row["splits"]) - 1]
    if not last:
        return False
    if keys := config.differing(_without_threads(last[0]["config"]), _without_threads(wanted)):
        raise ClaasbenchError(f"folder {str(folder)!r} holds a run of other settings: {'; '.join(keys)}")
    return True


def _without_threads(tables: Table) -> Table:
    return tables | {"policy": {key: value for key, value in tables["policy"].items() if key != "threads"}}


def _start(command: list[str], log: Path) -> subprocess.Popen[bytes]:
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as file:
        # a session of its own: a Ctrl-C for the sweep reaches the run once, through us
        return subprocess.Popen(command, stdout=file, stderr=file, start_new_session=True)


@contextmanager
def _ended(running: dict[str, subprocess.Popen[bytes]]) -> Iterator[None]:
    """However the sweep ends, its runs stop between two units; a second Ctrl-C (or SIGTERM) stops them at once."""

    def interrupt(number: int, frame: Any) -> None:  # noqa: ANN401 (a frame)
        raise KeyboardInterrupt

    # SIGINT too: a shell that puts us into the background has it ignored
    before = {number: signal.signal(number, interrupt) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        while alive := [process for process in running.values() if process.poll() is None]:
            _terminate(alive)
        for number, old in before.items():
            signal.signal(number, old)


def _terminate(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    """Ask processes to stop and wait for them, or until somebody is impatient."""
    for process in processes:
        process.terminate()
    with suppress(KeyboardInterrupt):
        for process in processes:
            process.wait()


class Standing(NamedTuple):
    """Where one run stands."""

    run: str
    at: str
    rows_done: int
    committed: str
    running: str


def _folders(folder: Path) -> Iterator[Path]:
    """Yield the runs in or below `folder`, without looking into them: a running one makes and removes folders."""
    for place, below, files in os.walk(folder):
        below.sort()
        if "digest.txt" in files:
            below.clear()
            yield Path(place)


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
