"""The run folder: what is written when, what a commit promises, and how an interrupted run is taken up again."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from claasbench.errors import ClaasbenchError, Halted
from claasbench.types import canonical

SCHEMA = 1
UNCOMMITTED = ("config.json", "digest.txt", "env.json", "commit.json", "lock", "stop")
"""Files that no commit covers: written once at the start, or about this process."""
COMMITTED = ("updates.jsonl", "timing.jsonl", "splits", "live")
"""Files and folders that a commit covers; whatever else lies in a run folder is not ours and is never touched."""
REPORT = "report"
"""The folder that `claasbench report` writes; derived, so --clean may take it."""
GLANCES = 10
"""How often the lock is tried for: `claasbench status` holds it for an instant while it looks."""


def line(row: Mapping[str, Any]) -> str:
    """Return one JSON line; NaN and infinities are refused."""
    return json.dumps(row, separators=(",", ":"), allow_nan=False) + "\n"


def read_lines(path: Path, torn: bool = False) -> Iterator[dict[str, Any]]:
    """Yield the rows of a JSON-lines file, one at a time; no file, no rows; `torn`: its last line may be half there."""
    if not path.exists():
        return
    with path.open(encoding="utf-8") as file:
        for number, text in enumerate(file, 1):
            if torn and not text.endswith("\n"):
                return
            try:
                yield json.loads(text)
            except ValueError:
                raise ClaasbenchError(f"{str(path)!r} is damaged: line {number} is no JSON") from None


@contextmanager
def _guard(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise Halted(
                f"no room to write {str(path)!r}: {os.strerror(error.errno)}; "
                "what was committed is safe, free some space and go on with --resume"
            ) from None
        raise


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def replace_file(path: Path, data: bytes) -> None:
    """Put `data` at `path` at once or not at all, and on the disk."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(path.name + ".tmp")
    with _guard(path):
        with temporary.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.rename(path)
        _sync(path.parent)


@dataclass
class Store:
    """One run's folder, held by one process; made by `new` or `resume`."""

    folder: Path
    cursor: dict[str, Any] = field(default_factory=dict)
    """Where the run stands as of the last commit."""
    commits: int = 0
    files: dict[str, int] = field(default_factory=dict)
    """Committed and pending length in bytes of every file that a commit covers."""
    repaired: list[str] = field(default_factory=list)
    """What resume cut off or removed, for people."""
    _dirty: set[str] = field(default_factory=set)
    _lock: int = -1

    @property
    def live(self) -> Path:
        """The folder with the live state of the last commit."""
        return self.folder / "live" / f"{self.commits:06d}"

    def append(self, name: str, rows: Iterable[Mapping[str, Any]]) -> None:
        """Append JSON lines to file `name` of the run folder."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        data = "".join(map(line, rows)).encode()
        with _guard(path), path.open("ab") as file:
            file.write(data)
        self.files[name] = self.files.get(name, 0) + len(data)
        self._dirty.add(name)

    def write(self, name: str, data: bytes) -> None:
        """Write the whole file `name` of the run folder; a report that reads along never sees half of it."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(path.name + ".tmp")
        with _guard(path):
            temporary.write_bytes(data)
            temporary.rename(path)
        self.files[name] = len(data)
        self._dirty.add(name)

    def adopt(self, name: str, source: Path) -> None:
        """Copy the folder `source` to `name` inside the run folder."""
        for path in sorted(p for p in source.rglob("*") if p.is_file()):
            self.write(f"{name}/{path.relative_to(source).as_posix()}", path.read_bytes())

    @contextmanager
    def scratch(self) -> Iterator[Path]:
        """Lend an empty folder that no commit knows."""
        folder = self.folder / "live" / "scratch"
        shutil.rmtree(folder, ignore_errors=True)
        with _guard(folder):
            folder.mkdir(parents=True)
            yield folder
        shutil.rmtree(folder)

    def commit(self, cursor: dict[str, Any], save: Callable[[Path], None]) -> None:
        """Make everything written so far, and the live state that `save` writes, the state to resume from."""
        old, number = self.live, self.commits + 1
        fresh = old.with_name(f"{number:06d}")
        shutil.rmtree(fresh, ignore_errors=True)
        with _guard(fresh):
            fresh.mkdir(parents=True)
            save(fresh)
            for path in sorted(fresh.rglob("*")):
                _sync(path)
            for name in sorted(self._dirty):
                _sync(self.folder / name)
            for parent in self._parents(fresh):
                _sync(parent)
        record = {"schema": SCHEMA, "commits": number, "cursor": cursor, "files": self.files}
        replace_file(self.folder / "commit.json", canonical(record) + b"\n")
        self.cursor, self.commits = cursor, number
        self._dirty.clear()
        shutil.rmtree(old, ignore_errors=True)

    def _parents(self, fresh: Path) -> list[Path]:
        """Return every folder that new files or folders were entered into."""
        paths = [fresh / "x", *(self.folder / name for name in self._dirty)]
        return sorted({parent for path in paths for parent in path.parents if parent.is_relative_to(self.folder)})

    def close(self) -> None:
        """Let go of the folder."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def stop_asked(self) -> bool:
        """Tell whether `claasbench stop` was called on this folder."""
        return (self.folder / "stop").exists()


def used(folder: Path) -> bool:
    """Tell whether there is anything in `folder` but a lock."""
    return folder.exists() and any(entry.name != "lock" for entry in folder.iterdir())


def clean(folder: Path) -> None:
    """Remove a run from `folder`; anything that is not a run is refused."""
    if not used(folder):
        return
    if not (folder / "digest.txt").exists():
        raise ClaasbenchError(f"--clean: {str(folder)!r} holds no run of claasbench; remove it yourself")
    ours = {*UNCOMMITTED, *COMMITTED, REPORT}
    if foreign := sorted(entry.name for entry in folder.iterdir() if entry.name not in ours):
        raise ClaasbenchError(f"--clean: {foreign[0]!r} in {str(folder)!r} is not of this run; move it away first")
    with _locked(folder) as held:
        for entry in folder.iterdir():
            if entry.is_dir():
                shutil.rmtree(entry)
            elif entry.name not in ("lock", "digest.txt"):
                entry.unlink()
        (folder / "digest.txt").unlink()  # last: what marks a run, so that a clean that was killed can be repeated
        held.close()


def new(folder: Path, config: Mapping[str, Any], digest: str) -> Store:
    """Start a run in an unused folder: the configuration is written first and never edited."""
    if used(folder):
        raise ClaasbenchError(f"folder {str(folder)!r} is used: go on with --resume, or start over with --clean")
    folder.mkdir(parents=True, exist_ok=True)
    with _locked(folder) as store:
        replace_file(folder / "config.json", json.dumps(config, indent=1, sort_keys=True).encode() + b"\n")
        replace_file(folder / "digest.txt", digest.encode() + b"\n")
    return store


def resume(folder: Path, config: Mapping[str, Any], digest: str, differing: Callable[[Any, Any], list[str]]) -> Store:
    """Take up the run of `folder` at its last commit; another configuration is refused, its keys named."""
    if not (folder / "digest.txt").exists():
        begun = {"config.json", "config.json.tmp", "digest.txt.tmp"}
        found = {entry.name for entry in folder.iterdir()} - {"lock"} if folder.exists() else set()
        if found - begun:
            raise ClaasbenchError(f"--resume: {str(folder)!r} holds no run of claasbench")
        for name in found:  # a start that was killed before it had written anything else
            (folder / name).unlink()
        return new(folder, config, digest)
    if (folder / "digest.txt").read_text().strip() != digest:
        keys = differing(json.loads((folder / "config.json").read_text()), config)
        raise ClaasbenchError(f"--resume: {str(folder)!r} was started with other settings: {'; '.join(keys)}")
    with _locked(folder) as store:
        if (folder / "commit.json").exists():
            record = json.loads((folder / "commit.json").read_text())
            store.cursor, store.commits, store.files = record["cursor"], record["commits"], record["files"]
        if store.cursor.get("phase") != "done":
            store.repaired = _rewind(store)
        (folder / "stop").unlink(missing_ok=True)
    return store


def _rewind(store: Store) -> list[str]:
    """Bring every file back to its length at the last commit and remove what that commit does not know."""
    said = []
    for path in sorted(p for p in store.folder.rglob("*") if p.is_file()):
        name = path.relative_to(store.folder).as_posix()
        if name.split("/")[0] not in COMMITTED or path.is_relative_to(store.live):
            continue
        if name not in store.files:
            path.unlink()
            said.append(f"removed {name}, which was not committed")
        elif (extra := path.stat().st_size - store.files[name]) > 0:
            os.truncate(path, store.files[name])
            said.append(f"cut {extra} uncommitted bytes off {name}")
    for name, length in store.files.items():
        path = store.folder / name
        if not path.exists() or path.stat().st_size != length:
            how = "shorter than its last commit says" if path.exists() else "missing"
            raise ClaasbenchError(f"{str(path)!r} is {how}: the run folder was damaged")
    if store.cursor and not store.live.is_dir():
        raise ClaasbenchError(f"{str(store.live)!r} is missing: the run folder was damaged")
    for folder in sorted((p for p in store.folder.rglob("*") if p.is_dir()), reverse=True):
        ours = folder.relative_to(store.folder).parts[0] in COMMITTED
        if ours and not any(folder.iterdir()) and not folder.is_relative_to(store.live):
            folder.rmdir()
    return said


@contextmanager
def _locked(folder: Path) -> Iterator[Store]:
    """Lend a store that holds the lock, and keep it held unless the start fails."""
    store = Store(folder, _lock=_take(folder))
    try:
        yield store
    except BaseException:
        store.close()
        raise


def _take(folder: Path) -> int:
    handle = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o644)
    for _ in range(GLANCES):
        if _flock(handle):
            os.truncate(handle, 0)
            os.write(handle, f"process {os.getpid()} on {os.uname().nodename}\n".encode())
            return handle
        time.sleep(0.02)
    owner = os.read(handle, 200).decode(errors="replace").strip() or "another process"
    os.close(handle)
    raise ClaasbenchError(f"folder {str(folder)!r} is in use by {owner}")


def _flock(handle: int) -> bool:
    with suppress(OSError):
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    return False


def holder(folder: Path) -> str:
    """Return who runs in `folder` right now, or nothing."""
    if not (folder / "lock").exists():
        return ""
    handle = os.open(folder / "lock", os.O_RDONLY)
    try:
        return "" if _flock(handle) else os.read(handle, 200).decode(errors="replace").strip()
    finally:
        os.close(handle)
