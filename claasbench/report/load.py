"""Finds run folders and reads their done.json files; a damaged file is refused by name, never skipped."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Sequence
from functools import reduce
from pathlib import Path
from typing import Any

from claasbench.errors import ClaasbenchError
from claasbench.report.results import COUNTS, Cell, Measured, Part, Row, Run
from claasbench.store import SCHEMA
from claasbench.types import SCORED, Bounds, Json

HEAD: dict[str, type] = {
    "digest": str, "claasbench": str, "metric_version": int, "splits": list, "returns": bool,
    "config.scenario.name": str, "config.learner.name": str, "config.policy.model": str,
    "config.trial.order": int, "config.trial.seed": int,
    "resolved.stream": str, "resolved.model": str, "resolved.prompts": str, "resolved.toy": bool, "resolved.sees": str,
    "resolved.facts": dict,
}  # fmt: skip
"""What every row of a run repeats."""


def load(paths: Sequence[Path]) -> list[Run]:
    """Return the runs in and under `paths`; a missing path, no run at all or a damaged file is the user's error."""
    folders = {folder.resolve(): folder for path in paths for folder in _folders(path)}
    if not folders:
        raise ClaasbenchError(f"no splits/*/done.json under {', '.join(map(repr, map(str, paths)))}: no run to report")
    return [_run(folder) for folder in folders]


def _folders(path: Path) -> Iterator[Path]:
    if not path.is_dir():
        raise ClaasbenchError(f"folder {str(path)!r} does not exist")
    for folder, names, _ in os.walk(path):
        names.sort()
        if any(Path(folder).glob("splits/*/done.json")):
            names.clear()  # a run holds no other run
            yield Path(folder)


def _run(folder: Path) -> Run:
    files = sorted(folder.glob("splits/*/done.json"))
    tables = [_read(path) for path in files]
    first = tables[0]
    rows: list[Row | None] = [None] * (len(first["splits"]) + 1)
    for path, table in zip(files, tables, strict=True):
        if table["digest"] != first["digest"]:
            raise ClaasbenchError(f"{str(path)!r} belongs to another run than {str(files[0])!r}: their digests differ")
        row = _checked(path, _row, table)
        if rows[row.index + 1] is not None:
            raise ClaasbenchError(f"{str(path)!r} is a second row {row.index} of its run")
        rows[row.index + 1] = row
    return Run(
        folder=folder,
        digest=first["digest"],
        config=first["config"],
        resolved=first["resolved"],
        versions={
            **{key: fact for key, fact in first["resolved"]["facts"].items() if isinstance(fact, str)},
            "claasbench": first["claasbench"],
            "metrics": first["metric_version"],
        },
        parts=tuple(Part(part["name"], part["kind"], part["train"]) for part in first["splits"]),
        returns=first["returns"],
        rows=tuple(rows),
        opponent=first.get("attacker", {}).get("state", ""),
    )


def _checked(path: Path, parse: Any, value: object) -> Any:  # noqa: ANN401 (parse decides)
    try:
        return parse(value)
    except (OSError, ValueError, TypeError) as error:  # damaged JSON and bad UTF-8 are ValueErrors
        reason = error.strerror if isinstance(error, OSError) else error
        raise ClaasbenchError(f"{str(path)!r} is no done.json of schema {SCHEMA}: {reason}") from None


def _read(path: Path) -> dict[str, Any]:
    table: dict[str, Any] = _checked(path, _parse, path)
    return table


def _parse(file: Path) -> dict[str, Any]:
    table = json.loads(file.read_bytes().decode(), parse_constant=_no_constant)
    if not isinstance(table, dict):
        raise ValueError("it is no table")
    if table.get("schema") != SCHEMA:
        raise ValueError(f"its schema is {table.get('schema')!r}")
    for path, kind in HEAD.items():
        *tables, key = path.split(".")
        _take(reduce(lambda inner, name: _take(inner, name, dict), tables, table), key, kind)
    if not table["splits"]:
        raise ValueError("it has no splits")
    for part in table["splits"]:
        for key, kind in {"name": str, "kind": str, "train": int}.items():
            _take(part, key, kind)
    return table


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is no JSON")


def _take(table: Any, key: str, *kinds: type) -> Any:  # noqa: ANN401 (JSON)
    """Return `table[key]` if it is there and of one of the kinds."""
    if not isinstance(table, dict) or key not in table:
        raise ValueError(f"{key!r} is missing")
    value = table[key]
    if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
        raise ValueError(f"{key!r} is {str(value)[:40]!r}, not {' or '.join(kind.__name__ for kind in kinds)}")
    return value


def _row(table: Json) -> Row:
    names = [part["name"] for part in table["splits"]]
    index = _take(table, "row", int)
    if not -1 <= index < len(names):
        raise ValueError(f"row {index} of {len(names)} splits")
    live = _take(table, "live", dict, type(None))
    cells: dict[Measured, tuple[Cell | None, ...]] = {}
    for measure in _take(table, "measures", list):
        name, shared = _take(measure, "name", str), _take(measure, "shared", bool)
        for variant, values in _take(measure, "variants", dict).items():
            splits = [""] if shared else names
            if len(values) != len(splits):
                raise ValueError(f"measure {name!r} has {len(values)} cells for {len(splits)} task lists")
            found = [_cell(value, split) for value, split in zip(values, splits, strict=True)]
            if any(cell.units for cell in found):
                cells[Measured(name, variant, shared)] = tuple(cell if cell.units else None for cell in found)
    seconds = _take(table, "seconds", dict)
    return Row(
        index=index,
        name=_take(table, "name", str),
        copied=_take(table, "copied", str, type(None)),
        live=None if live is None else _cell(live, names[index]),
        cells=cells,
        updates=_take(_take(table, "updates", dict), "count", int),
        learned=_take(_take(table, "updates", dict), "last", dict),
        seconds={phase: float(_take(seconds, phase, int, float)) for phase in seconds},
    )


def _cell(table: Json, split: str) -> Cell:
    if _take(table, "split", str) != split:
        raise ValueError(f"a cell of split {table['split']!r} stands where {split!r} belongs")
    tasks, attempts, scores, statuses = (_take(table, key, list) for key in ("tasks", "attempts", "scores", "statuses"))
    if len({len(tasks), len(attempts), len(scores), len(statuses)}) > 1:
        raise ValueError(f"split {split!r} has lists of different lengths")
    units = tuple(zip(tasks, attempts, strict=True))
    if len(set(units)) != len(units):
        raise ValueError(f"split {split!r} holds a (task, attempt) twice")
    for score, status in zip(scores, statuses, strict=True):
        if (score is not None) != (status in SCORED):
            raise ValueError(f"split {split!r} scores an episode of status {status!r} with {score!r}")
    counts = _take(table, "counts", dict)
    bounds = (_take(table, key, int, float, type(None)) for key in Bounds._fields)
    return Cell(
        split=split,
        units=units,
        scores=tuple(math.nan if score is None else float(score) for score in scores),
        counts={key: _take(counts, key, int) for key in COUNTS},
        bounds=Bounds(*(math.nan if bound is None else float(bound) for bound in bounds)),
        marks={name: _marks(values, len(units)) for name, values in table.get("marks", {}).items()},
        attacks={name: _pair(tries) for name, tries in table.get("attacks", {}).items()},
        others={seat: _pair(tokens) for seat, tokens in table.get("others", {}).items()},
    )


def _marks(values: Any, length: int) -> tuple[int | None, ...]:  # noqa: ANN401 (JSON)
    if not isinstance(values, list) or len(values) != length:
        raise ValueError("its marks are not one per episode")
    return tuple(_take({"mark": value}, "mark", int, type(None)) for value in values)


def _pair(values: Any) -> tuple[int, int]:  # noqa: ANN401 (JSON)
    if not isinstance(values, list) or len(values) != 2 or not all(type(value) is int for value in values):
        raise ValueError("attacks and tokens of a seat are counted by two whole numbers")
    return values[0], values[1]
