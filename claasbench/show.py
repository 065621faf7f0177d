"""What `claasbench show` tells: a plug-in's settings with their help, or an episode of a run turn by turn."""

from __future__ import annotations

import ast
import inspect
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

from claasbench import registry
from claasbench.errors import ClaasbenchError, unknown
from claasbench.store import read_lines

OF_ALL_LEARNERS = {
    "placebo": (False, "The control of this method: each episode carries the outcome of the one before it."),
    "tuned": ("", "The study on the dev stream that chose these settings; a report names it."),
}


def settings(name: str) -> str:
    """Return the docstring and the settings of plug-in `name`, of whichever kind; a file is tried as each."""
    if name.endswith(".py"):
        return "\n\n".join(_describe(kind, name, cls) for kind, cls in _in_file(name))
    found = [(kind, registry.find(kind, name)) for kind in registry.BASES if name in registry.names(kind)]
    if not found:
        raise unknown("NAME", name, [known for kind in registry.BASES for known in registry.names(kind)])
    return "\n\n".join(_describe(kind, name, cls) for kind, cls in found)


def _in_file(name: str) -> list[tuple[str, type[Any]]]:
    found, refusal = [], ClaasbenchError("")
    for kind in registry.BASES:
        try:
            found.append((kind, registry.find(kind, name)))
        except ClaasbenchError as error:
            refusal = error
    if not found:
        raise refusal
    return found


def _describe(kind: str, name: str, cls: type[Any]) -> str:
    singular = "policy" if kind == "policies" else kind.removesuffix("s")
    lines = [f"{singular} {name}: {inspect.getdoc(cls)}"]
    help_ = _field_docs(cls)
    for entry in fields(cls):
        if entry.init:
            default = entry.default if entry.default_factory is MISSING else entry.default_factory()
            shown = "(required)" if default is MISSING else f"= {default!r}"
            lines.append(f"  {entry.name} {shown}\n      {help_.get(entry.name, '')}".rstrip())
    if kind == "learners":
        lines += [f"  {name} = {default!r}\n      {what}" for name, (default, what) in OF_ALL_LEARNERS.items()]
        for preset, values in cls.presets.items():
            own = ", ".join(f"{key} = {value!r}" for key, value in values.items())
            lines.append(f"preset {preset}: {own or 'as above'}")
    return "\n".join(lines)


def _field_docs(cls: type[Any]) -> dict[str, str]:
    """Return the string written below each field in the class's source."""
    docs: dict[str, str] = {}
    for ancestor in reversed(cls.__mro__[:-1]):
        body = ast.parse(inspect.getsource(inspect.getmodule(ancestor) or ancestor)).body
        nodes = [node for node in body if isinstance(node, ast.ClassDef) and node.name == ancestor.__name__]
        for before, after in [pair for node in nodes for pair in zip(node.body, node.body[1:], strict=False)]:
            is_text = isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
            if isinstance(before, ast.AnnAssign) and isinstance(before.target, ast.Name) and is_text:
                docs[before.target.id] = str(ast.literal_eval(after.value))  # type: ignore[attr-defined]
    return docs


def transcript(folder: Path, row: str, task: str | None) -> str:
    """Return the episodes of one task in a row, attempt by attempt; by default the row's first episode."""
    rows = sorted(path.name for path in (folder / "splits").glob("*") if path.is_dir())
    if not rows:
        raise ClaasbenchError(f"folder {str(folder)!r} holds no measured row of a run")
    if row not in rows:
        raise unknown("--row", row, rows)
    place = folder / "splits" / row
    episodes = list(read_lines(place / "episodes.jsonl", torn=True))
    if not episodes:
        why = "it was copied, or only its done.json was kept"
        raise ClaasbenchError(f"row {row!r} of {str(folder)!r} has no episodes: {why}")
    if task is not None and task not in {episode["task"] for episode in episodes}:
        raise unknown("--task", task, dict.fromkeys(episode["task"] for episode in episodes))
    wanted = [episode for episode in episodes if task is None or episode["task"] == task]
    shown = wanted if task else wanted[:1]
    turns = list(read_lines(place / "turns.jsonl", torn=True))
    return "\n\n".join(_episode(episode, [turn for turn in turns if _key(turn) == _key(episode)]) for episode in shown)


def _key(row: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(row.get(name) for name in ("task", "attempt", "measure", "variant"))


def _episode(episode: dict[str, Any], turns: list[dict[str, Any]]) -> str:
    where = " ".join(str(episode[name]) for name in ("split", "measure", "variant") if name in episode)
    lines = [f"task {episode['task']}  {where}  attempt {episode['attempt']}"]
    lines[0] += f"  score {episode['score']}  {episode['status']}"
    for turn in turns:
        lines.append(f"\n[{turn['seat']} {turn['turn']}] sees:\n{turn['news']}")
        lines.append(f"answers ({turn['finish']}):\n{turn['text']}")
        lines.append(f"earns: reward {turn['reward']}, feedback {turn['feedback']!r}")
    return "\n".join(lines)
