"""What every stream must be, what its rows and cells are called, and which measures a run asks for."""

from __future__ import annotations

import re
from collections.abc import Sequence

from claasbench.errors import ClaasbenchError, invalid, unknown
from claasbench.types import Measure, Stream, Task

NAME = re.compile(r"\w[\w.+-]*")
"""What splits and measures may be called: they become file names."""


def check_stream(stream: Stream) -> None:
    """Refuse a stream that could not be told apart on disk or would break single use (a fault of its scenario)."""
    splits, measures = stream.splits, stream.measures
    names = [split.name for split in splits], [measure.name for measure in measures]
    ids = [task.id for split in splits for task in split.train]
    ids += [task.id for measure in measures for cell in measure.cells for task in cell]
    faults = {
        "no split or no measure": not splits or not measures,
        "two splits or two measures of one name": any(len(set(group)) != len(group) for group in names),
        "a name that is no plain file name": not all(NAME.fullmatch(name) for group in names for name in group),
        "a task id that occurs twice": len(set(ids)) != len(ids),
        "a measure without exactly one cell per split (or one shared cell)": any(
            len(measure.cells) != (1 if measure.shared else len(splits)) for measure in measures
        ),
    }
    for fault, found in faults.items():
        if found:
            raise ClaasbenchError(f"the scenario's stream has {fault}")


def chosen(stream: Stream, names: Sequence[str]) -> list[Measure]:
    """Return the measures that the setting measure.names asks for, in the order of the stream."""
    if not names:
        raise invalid("measure.names", list(names), 'names of measures, "headline" or "all"')
    known = {measure.name: measure for measure in stream.measures}
    wanted: set[str] = set()
    for name in names:
        if name not in known and name not in ("headline", "all"):
            raise unknown("measure.names", name, [*known, "headline", "all"])
        wanted |= {stream.measures[0].name} if name == "headline" else set(known) if name == "all" else {name}
    return [measure for measure in stream.measures if measure.name in wanted]


def row_name(row: int, stream: Stream) -> str:
    """Return the folder name of a row: init (row -1), 00-<split>, 01-<split>, ..."""
    return "init" if row < 0 else f"{row:02d}-{stream.splits[row].name}"


def cells(measure: Measure, stream: Stream) -> list[tuple[str, tuple[Task, ...]]]:
    """Return a measure's task lists with the name of their split (empty where one list is shared)."""
    names = [""] if measure.shared else [split.name for split in stream.splits]
    return list(zip(names, measure.cells, strict=True))
