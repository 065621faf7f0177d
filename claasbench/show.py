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


def settings(name: str) -> str:
    """Return the docstring and the settings of plug-in `name`, of whichever kind."""
    found = [(kind, registry.find(kind, name)) for kind in registry.BASES if name in registry.names(kind)]
    if not found:
        raise unknown("NAME", name, [known for kind in registry.BASES for known in registry.names(kind)])
    return "\n\n".join(_describe(kind, name, cls) for kind, cls in found)


def _describe(kind: str, name: str, cls: type[Any]) -> str:
    lines = [f"{kind.removesuffix('s')} {name}: {inspect.getdoc(cls)}"]
    help_ = _field_docs(cls)
    for entry in fields(cls):
        if entry.init:
            default = entry.default if entry.default_factory is MISSING else entry.default_factory()
            shown = "(required)" if default is MISSING else f"= {default!r}"
            lines.append(f"  {entry.name} {shown}\n      {help_.get(entry.name, '')}".rstrip())
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
    """Return one episode of a run: by default the first of the row."""
    rows = sorted(path.name for path in (folder / "splits").glob("*") if path.is_dir())
    if not rows:
        raise ClaasbenchError(f"folder {str(folder)!r} holds no measured row of a run")
    if row not in rows:
        raise unknown("--row", row, rows)
    place = folder / "splits" / row
    episodes = {episode["task"]: episode for episode in read_lines(place / "episodes.jsonl")}
    if not episodes:
        why = "it was copied, or only its done.json was kept"
        raise ClaasbenchError(f"row {row!r} of {str(folder)!r} has no episodes: {why}")
    task = task or next(iter(episodes))
    if task not in episodes:
        raise unknown("--task", task, episodes)
    lines = [f"run {folder}   row {row}   task {task}   score {episodes[task]['score']}   {episodes[task]['status']}"]
    for turn in read_lines(place / "turns.jsonl"):
        if turn["task"] == task:
            lines.append(f"\n[{turn['seat']} {turn['turn']}] sees:\n{turn['news']}")
            lines.append(f"answers ({turn['finish']}):\n{turn['text']}")
            lines.append(f"earns: reward {turn['reward']}, feedback {turn['feedback']!r}")
    return "\n".join(lines)
