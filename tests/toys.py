"""Small real runs in one process: the scaffolded scenario, scripted policies, real folders."""

import contextlib
import hashlib
import io
import json
import sys
from pathlib import Path

import pytest

from claasbench import config, scaffold, store
from claasbench.launch._parts import assemble, configure
from claasbench.runner import Runner
from claasbench.types import Sample

PLUGINS = Path(__file__).parent / "plugins"


def password(folder: Path) -> str:
    """Write the scaffolded scenario and return its name."""
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / "pass_word.py").exists():
        scaffold.write("scenario", "pass-word", folder)
    return str(folder / "pass_word.py")


def tables(scenario: str, learner: str = "scripted", model: str = "scripted:oracle", **more) -> dict:
    """Return the tables of a small run; `more` are dotted settings with __ for the dot."""
    made = {"scenario": {"name": scenario}, "learner": {"name": learner}, "policy": {"model": model}}
    for name, value in more.items():
        config.put(made, name.replace("__", "."), value)
    return made


def play(made: dict, folder: Path, resume: bool = False) -> list:
    """Run `made` in `folder` and return its events."""
    parts = assemble(configure(made))
    digest = config.digest(parts.config.tables(), parts.resolved)
    written = {**parts.config.tables(), "resolved": parts.resolved}
    held = store.resume(folder, written, digest, config.differing) if resume else store.new(folder, written, digest)
    try:
        runner = Runner(parts.config, parts.resolved, parts.scenario, parts.learner, parts.seats, held, parts.opponents)
        return [] if held.cursor.get("phase") == "done" else list(runner.events())
    finally:
        held.close()


def played(scenario, task, answers) -> tuple:
    """Return the prompts of one episode and its outcome (None where the answers end first)."""
    episode = scenario.play(task)
    seen = [next(episode)]
    for answer in answers:
        try:
            seen.append(episode.send(Sample(answer)))
        except StopIteration as stop:
            return seen, stop.value
    return seen, None


def done(folder: Path, row: str) -> dict:
    """Return one done.json."""
    return json.loads((folder / "splits" / row / "done.json").read_text())


def rows(folder: Path) -> list[dict]:
    """Return all done.json in the order of rows."""
    found = [json.loads(path.read_text()) for path in folder.glob("splits/*/done.json")]
    return sorted(found, key=lambda row: row["row"])


def fingerprint(folder: Path) -> dict[str, str]:
    """Return the hash of every file that a resumed run must reproduce: all but times and this machine's entries."""
    prints = {}
    for path in sorted(p for p in folder.rglob("*") if p.is_file()):
        name = path.relative_to(folder).as_posix()
        if name in ("lock", "env.json"):
            continue
        data = path.read_bytes()
        if path.name == "done.json":
            data = json.dumps(json.loads(data) | {"seconds": None}, sort_keys=True).encode()
        if name == "commit.json":  # lengths of files that hold times
            record = json.loads(data)
            lengths = {n: v for n, v in record["files"].items() if n != "timing.jsonl" and not n.endswith("done.json")}
            data = json.dumps(record | {"files": lengths}, sort_keys=True).encode()
        if name != "timing.jsonl":
            prints[name] = hashlib.sha256(data).hexdigest()
    return prints


class Killed(BaseException):
    """The process ends here, in the middle of whatever it was writing."""


def kill_at(monkeypatch, number):
    """Make the `number`-th write of the store stop half way."""
    left = [number]
    append, write, replace, commit = store.Store.append, store.Store.write, store.replace_file, store.Store.commit

    def last():
        left[0] -= 1
        return left[0] < 0

    def half_append(self, name, lines):
        lines = list(lines)
        if last():
            append(self, name, lines[: len(lines) // 2])
            with (self.folder / name).open("ab") as file:
                file.write(b'{"torn":')
            raise Killed
        append(self, name, lines)

    def half_write(self, name, data):
        if last():
            write(self, name, data[: len(data) // 2])
            raise Killed
        write(self, name, data)

    def before_replace(path, data):
        if last():
            path.with_name(path.name + ".tmp").write_bytes(data[: len(data) // 2])
            raise Killed
        replace(path, data)

    def around_commit(self, cursor, save):
        if last():
            raise Killed
        commit(self, cursor, save)
        if last():
            raise Killed

    monkeypatch.setattr(store.Store, "append", half_append)
    monkeypatch.setattr(store.Store, "write", half_write)
    monkeypatch.setattr(store, "replace_file", before_replace)
    monkeypatch.setattr(store.Store, "commit", around_commit)


def killed_everywhere(made: dict, folder: Path, step: int, before=lambda number: None) -> int:
    """Kill a run at every `step`-th write, each time resume it to the bytes of the whole run; return the writes.

    `before` is called with the number of the write before each run.
    """
    play(made, folder / "whole")
    whole = fingerprint(folder / "whole")
    number, killed = 0, True
    while killed:
        run = folder / f"k{number}"
        before(number)
        with pytest.MonkeyPatch.context() as patch:
            kill_at(patch, number)
            try:
                play(made, run)
                killed = False
            except Killed:
                pass
        play(made, run, resume=True)
        assert fingerprint(run) == whole, f"killed at write {number}"
        number += step
    return number


def command(*words: str) -> tuple[int, str, str]:
    """Run the command line in this process; return exit code, standard output and standard error."""
    from rich.console import Console

    from claasbench import cli

    out, err = io.StringIO(), io.StringIO()
    argv, sys.argv = sys.argv, ["claasbench", *map(str, words)]
    consoles = cli.out, cli.err
    code = 0
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            cli.out, cli.err = Console(file=out, width=120), Console(file=err, width=120)
            cli.main()
    except SystemExit as end:
        code = int(end.code or 0)
    finally:
        sys.argv = argv
        cli.out, cli.err = consoles
    return code, out.getvalue(), err.getvalue()
