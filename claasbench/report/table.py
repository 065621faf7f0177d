"""What a table of a report is, before any output has formatted it, and how its numbers are written."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from claasbench.report.estimates import Point
from claasbench.stats import Interval

NONE = "\N{EN DASH}"
EPISODES = "n (failed)"


@dataclass(frozen=True, slots=True)
class Table:
    """One table: a rule stands before each row in `breaks`, `shades` (0 to 1, NaN: none) colour the first rows."""

    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    notes: Sequence[str] = ()
    formulas: Sequence[tuple[str, str]] = ()
    breaks: Sequence[int] = ()
    shades: Sequence[Sequence[float]] = ()
    texts: int = 1
    """How many columns hold text, before those with numbers."""
    beside: bool = False
    """It goes with the table before it."""


@dataclass(frozen=True, slots=True)
class Chapter:
    """Tables under one heading, with what a reader must know before believing them."""

    heading: str
    warnings: Sequence[str]
    tables: Sequence[Table]


def once(rows: Sequence[list[str]]) -> list[list[str]]:
    """Leave out a label that the row above has."""
    return [["" if k and rows[k - 1][0] == row[0] else row[0], *row[1:]] for k, row in enumerate(rows)]


def percent(value: float, digits: int = 1) -> str:
    """Return a share in points."""
    return NONE if math.isnan(value) else f"{round(100 * value, digits) + 0.0:.{digits}f}"


def amount(value: float) -> str:
    """Return a quantity in three digits or so."""
    if not math.isfinite(value):
        return NONE
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if abs(value) >= size:
            return f"{value / (1e3 if unit == 'k' else size):.1f}{unit}"
    return f"{value:.0f}" if abs(value) >= 100 or value == int(value) else f"{value:.2g}"


def with_interval(interval: Interval) -> str:
    """Return a mean in points with half the width of its interval."""
    half = (interval.high - interval.low) / 2
    return percent(interval.mean) + ("" if math.isnan(half) else f" ±{percent(half)}")


def episodes(means: Sequence[Sequence[Point]]) -> str:
    """Return how many episodes stand behind each mean (least and most), and how many failed in all."""
    there = [points for points in means if any(point.n + point.n_failed for point in points)]
    sizes = [sum(point.n for point in points) for points in there] or [0]
    failed = sum(point.n_failed for points in there for point in points)
    least, most = count(min(sizes), 0), count(max(sizes), failed)
    return most if min(sizes) == max(sizes) else f"{least}-{most}"


def count(n: int, failed: int) -> str:
    """Return a number of episodes and, in brackets, of failed ones."""
    return f"{n} ({failed})" if failed else str(n)


def plain(text: str) -> str:
    """Return text on one line and without control characters, whoever named things."""
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text)
