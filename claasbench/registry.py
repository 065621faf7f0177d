"""How a plug-in's name becomes its class: a file of ours, `./file.py`, or an installed entry point."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import is_dataclass
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import ModuleType
from typing import Any

from claasbench.errors import ClaasbenchError, unknown

BASES = {"scenarios": "Scenario", "learners": "Learner", "policies": "Policy", "attackers": "Attacker"}
"""The kinds of plug-in: the folder and the base class in its base.py."""

_SIBLINGS = (
    "needs several answers to the same prompt, and a stream plays each task once; "
    "nearest learner for one answer: 'reinforce++'"
)
GROUPS = {
    "grpo": f"{_SIBLINGS} (a group of one has advantage 0)",
    "rloo": f"{_SIBLINGS} (the other answers' mean is its baseline)",
    "reinforce++-baseline": f"{_SIBLINGS} (the group's mean is its baseline)",
}
"""Learners that a single-use stream refuses, and why."""

SETTINGS = {
    "scenarios": "scenario.name",
    "learners": "learner.name",
    "policies": "policy.engine",
    "attackers": "attacker.name",
}


def names(kind: str) -> list[str]:
    """Return the names of one kind: our files, then installed entry points."""
    return sorted({*_files(kind), *(point.name for point in _points(kind))})


def find(kind: str, name: str) -> type[Any]:
    """Return the class of plug-in `name`; an unknown name is refused with the nearest one."""
    if name.endswith(".py"):
        return _only(kind, _from_file(kind, name))
    if kind == "learners" and name in GROUPS:
        raise ClaasbenchError(f"{SETTINGS[kind]} = {name!r} {GROUPS[name]}")
    module = _module(name)
    if module in _files(kind).values():
        return _only(kind, importlib.import_module(f"claasbench.{kind}.{module}"))
    for point in _points(kind):
        if point.name == name:
            with _one_line(kind, name):
                return _only(kind, importlib.import_module(point.module))
    raise unknown(SETTINGS[kind], name, names(kind))


def canonical(kind: str, name: str) -> str:
    """Return the one spelling of a plug-in's name that results go by: a file's is its last part."""
    if name.endswith(".py"):
        return Path(name).name
    return next((known for known, module in _files(kind).items() if module == _module(name)), name)


def source(cls: type[Any]) -> str | None:
    """Return the SHA-256 of the file that defines a plug-in of others; ours go by the version of claasbench."""
    module = sys.modules[cls.__module__]
    if module.__name__.startswith("claasbench.") or not module.__file__:
        return None
    return hashlib.sha256(Path(module.__file__).read_bytes()).hexdigest()


def _module(name: str) -> str:
    return name.replace("-", "_").replace("+", "p")


@contextmanager
def _one_line(kind: str, name: str) -> Iterator[None]:
    """Turn whatever a plug-in's code raises while it is imported into one line with its place."""
    try:
        yield
    except ClaasbenchError:
        raise
    except Exception as error:  # noqa: BLE001 (a plug-in may raise anything)
        frames = traceback.extract_tb(error.__traceback__)
        place = f"{error.filename}:{error.lineno}" if isinstance(error, SyntaxError) else frames[-1]
        where = place if isinstance(place, str) else f"{place.filename}:{place.lineno}"
        what = f"{type(error).__name__}: {error}".splitlines()[0]
        raise ClaasbenchError(f"{SETTINGS[kind]} = {name!r} cannot be imported: {what} ({where})") from None


def base(kind: str) -> type[Any]:
    """Return the base class of one kind."""
    found: type[Any] = getattr(importlib.import_module(f"claasbench.{kind}.base"), BASES[kind])
    return found


def _files(kind: str) -> dict[str, str]:
    folder = Path(__file__).parent / kind
    stems = [path.stem for path in folder.glob("*.py") if not path.name.startswith("_") and path.stem != "base"]
    return {_spelled(stem): stem for stem in stems}


def _spelled(stem: str) -> str:
    """Return a file's name as people type it: `_` reads as `-`, and a last `pp` as `++`."""
    plain = stem.replace("_", "-")
    return f"{plain[:-2]}++" if plain.endswith("pp") else plain


def _points(kind: str) -> Iterator[EntryPoint]:
    yield from entry_points(group=f"claasbench.{kind}")


def _from_file(kind: str, name: str) -> ModuleType:
    path = Path(name)
    if not path.is_file():
        raise ClaasbenchError(f"{SETTINGS[kind]} = {name!r}: that file does not exist")
    spec = importlib.util.spec_from_file_location(f"claasbench_plugin_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise ClaasbenchError(f"{SETTINGS[kind]} = {name!r}: that file is no Python module")
    module = importlib.util.module_from_spec(spec)
    sys.modules[module.__name__] = module  # dataclasses look their module up there
    with _one_line(kind, name):
        spec.loader.exec_module(module)
    return module


def _only(kind: str, module: ModuleType) -> type[Any]:
    parent = base(kind)
    own = [
        value
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, parent) and value.__module__ == module.__name__
    ]
    public = [value for value in own if not value.__name__.startswith("_")]
    if len(public) != 1:
        raise ClaasbenchError(f"{module.__name__} must define exactly one public {parent.__name__}, not {len(public)}")
    missing = sorted(getattr(public[0], "__abstractmethods__", ()))
    if missing or not is_dataclass(public[0]):
        why = f"lacks {', '.join(missing)}" if missing else "is no dataclass"
        raise ClaasbenchError(f"{module.__name__}: {public[0].__name__} {why}")
    return public[0]
