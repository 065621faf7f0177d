"""Published numbers as a file: what each is, how sure it is, and which runs it is to be compared with."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from claasbench.errors import ClaasbenchError, invalid, unknown, unknown_setting
from claasbench.report.estimates import METRICS
from claasbench.types import LEARNER

STATUSES = {
    "table": "printed in a table",
    "digitised": "read off a figure",
    "second-hand": "from someone who quotes the source",
    "contradictory": "the source says something else elsewhere; shown, never judged",
}
ROW, LENGTH, ELSEWHERE = "row", "length", "elsewhere"
EXTRA = {
    ROW: "mean of all columns after row `row`",
    LENGTH: "tokens of a measured reply after row `row`, as a share of the untrained policy's",
    ELSEWHERE: "no number of claasbench",
}
MARGIN = 5.0


@dataclass(frozen=True, slots=True)
class Published:
    """One number of a paper, in points."""

    method: str
    """The learner's name."""
    metric: str
    """A metric of reports, row, length or elsewhere."""
    value: float
    status: str
    scenario: str
    model: str
    measure: str = ""
    """Of the runs; the headline measure if empty."""
    variant: str = LEARNER
    row: int = -1
    """For row and length: after which split; -1 is the untrained policy."""
    error: float = math.nan
    """Standard error; without one the number is a single run."""
    trials: int = 0
    """How many trials the error is over, 0 if not known."""
    margin: float = MARGIN
    where: Mapping[str, Any] = field(default_factory=dict)
    """Settings that the runs have, by dotted name."""
    note: str = ""

    @property
    def label(self) -> str:
        """What its method is called in a table."""
        also = [f"{key.rpartition('.')[2]}={value}" for key, value in self.where.items()]
        return " · ".join([self.method, *([self.variant] if self.variant != LEARNER else []), *also])

    @property
    def title(self) -> str:
        """What it is called beside its method."""
        return f"{self.metric} {self.row}" if self.metric in (ROW, LENGTH) else self.metric


@dataclass(frozen=True, slots=True)
class Reference:
    """A file of published numbers."""

    source: str
    numbers: tuple[Published, ...]


def read(path: Path) -> Reference:
    """Return the numbers of a TOML file: `source`, defaults for all of them, and a table `[[number]]` for each.

    Whatever stands at the top of the file (scenario, model, margin, measure, status, ...) holds for numbers that do not
    say otherwise. A missing file, an unknown name or a value of the wrong kind is the user's error.
    """
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ClaasbenchError(f"--against {str(path)!r} cannot be read: {error}") from None
    source, rows = table.pop("source", ""), table.pop("number", [])
    if not isinstance(source, str) or not source:
        raise invalid("source", source, "where the numbers were published, in a sentence")
    if not isinstance(rows, list) or not rows or not all(isinstance(row, dict) for row in rows):
        raise invalid("number", rows, "a table [[number]] for each published number")
    return Reference(source, tuple(_number(f"number {k}", table | row) for k, row in enumerate(rows, 1)))


def _number(where: str, row: Mapping[str, Any]) -> Published:
    kinds = {entry.name: entry.type for entry in fields(Published)}
    for name, value in row.items():
        if name not in kinds:
            raise unknown_setting(where, name, value, kinds)
        if not _fits(str(kinds[name]), value):
            raise invalid(f"{where}: {name}", value, f"a {kinds[name]}")
    for name in ("method", "metric", "value", "status", "scenario", "model"):
        if name not in row:
            raise ClaasbenchError(f"{where}: {name} is missing")
    numbers = {name: float(row[name]) for name in ("value", "error", "margin") if name in row}
    found = Published(**{**row, **numbers})
    known = {metric.name for metric in METRICS} | EXTRA.keys()
    for name, value, allowed in (("metric", found.metric, known), ("status", found.status, STATUSES)):
        if value not in allowed:
            raise unknown(f"{where}: {name}", value, allowed)
    if found.margin <= 0 or found.error < 0:
        raise invalid(f"{where}: margin, error", (found.margin, found.error), "a margin above 0, an error of 0 or more")
    return found


def _fits(kind: str, value: object) -> bool:
    if kind.startswith("Mapping"):
        return isinstance(value, dict)
    if kind == "float":
        return isinstance(value, int | float) and not isinstance(value, bool)
    return type(value).__name__ == kind
