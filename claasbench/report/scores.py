"""The tables of scores: headline numbers, every definition, matrices and curves."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from claasbench.report.estimates import METRICS
from claasbench.report.numbers import Method, Series
from claasbench.report.table import EPISODES, NONE, Table, episodes, percent, with_interval
from claasbench.stats import Interval
from claasbench.types import LEARNER, Bounds

ARROWS = {"up": "↑", "down": "↓"}
HEADLINE = ("final", "forward", "forgetting")
CHUNK = 4
"""Methods side by side in one table: as many as 80 columns hold."""
LEVEL = "± is half the width of the 95 % interval (Student t); none where all values of one trial agree."
COUNTED = "n: scored episodes behind the mean of one row; in brackets those that failed in all rows and count nowhere."
SEEDS = "Seeds of one order: other orders may give other numbers."
SINGLE = "* over the tasks (of each column) of one trial: this checkpoint, not the method."
FLOOR = "Noise floor: the mean where the outcomes of each task are permuted over the rows."
MAPPING = "Published numbers without a formula: reading them as F1 and G1 is unconfirmed."


@dataclass(frozen=True, slots=True)
class Named:
    """A series with the label that tells it from all others on its measure."""

    label: str
    method: Method
    series: Series


def named(methods: Sequence[Method]) -> dict[tuple[str, bool], list[Named]]:
    """Return the series of all methods by measure and whether it is shared."""
    found: dict[tuple[str, bool], list[Named]] = {}
    for method in methods:
        for series in method.series:
            measure, variant, shared = series.measured
            label = method.short if variant == LEARNER else f"{method.short} · {variant}"
            found.setdefault((measure, shared), []).append(Named(label, method, series))
    return found


def headline(measure: str, group: Sequence[Named]) -> Table:
    """Return final, forward and forgetting of every method, with the range that they stand in."""
    rows = []
    for one in group:
        intervals = [one.series.numbers[name].interval for name in HEADLINE]
        rows.append(
            [one.label, *(_mean(one, interval) for interval in intervals), episodes(one.series.points), _over(one)]
        )
    bounds = [[*row, "", "", ""] for row in _range(group)]
    titles = [f"{metric.title} {ARROWS[metric.direction]}" for metric in METRICS if metric.name in HEADLINE]
    return Table(
        title=f"{measure}: headline, in points",
        header=["Method", *titles, EPISODES, "± over"],
        rows=[*rows, *bounds],
        notes=[LEVEL, COUNTED, *_asides(group)],
        breaks=[len(rows)],
    )


def matrix(measure: str, one: Named) -> Table:
    """Return the success of every row on every column, with chance, ceilings and episodes under it."""
    series = one.series
    rows = [[name, *map(percent, row)] for name, row in zip(series.rows, series.success, strict=True)]
    under = bounds_rows(series.bounds)
    columns = [episodes([[point] for point in column]) for column in zip(*series.points, strict=True)]
    return Table(
        title=f"{measure}: {one.label}, success in %",
        header=["trained through", *series.columns],
        rows=[*rows, *under, [EPISODES, *columns]],
        breaks=[1, len(rows)],
        shades=series.success,
    )


def normalised(measure: str, one: Named) -> Table:
    """Return how far every row is on every column on its way from chance to ceiling."""
    series = one.series
    return Table(
        title=f"{measure}: {one.label}, from chance (0) to ceiling (100)",
        header=["trained through", *series.columns],
        rows=[[name, *map(percent, row)] for name, row in zip(series.rows, series.normalised, strict=True)],
        breaks=[1],
        shades=series.normalised,
        beside=True,
    )


def curves(measure: str, group: Sequence[Named]) -> Iterator[Table]:
    """Yield the curves of a measure without columns, a few methods at a time."""
    for some in _chunks(group):
        yield curve(f"{measure}: one list of tasks after every split, success in %", some)


def details(measure: str, group: Sequence[Named]) -> Iterator[Table]:
    """Yield every definition, a few methods at a time, and the matrices of every method."""
    *before, last = _chunks(group)
    for some in (*before, last):
        yield definitions(f"{measure}: every definition, in points", some, formulas=some is last)
    for one in group:
        yield matrix(measure, one)
        if any(not math.isnan(cell) for row in one.series.normalised for cell in row):
            yield normalised(measure, one)


def _chunks(group: Sequence[Named]) -> list[Sequence[Named]]:
    return [group[start : start + CHUNK] for start in range(0, len(group), CHUNK)]


def definitions(title: str, group: Sequence[Named], formulas: bool = True) -> Table:
    """Return every metric of some methods, the headline first, with the formulas under it."""
    known = [metric for metric in METRICS if any(metric.name in one.series.numbers for one in group)]
    known.sort(key=lambda metric: metric.name not in HEADLINE)
    rows = []
    for metric in known:
        numbers = [one.series.numbers.get(metric.name) for one in group]
        means = [_mean(one, number.interval) if number else NONE for one, number in zip(group, numbers, strict=True)]
        rows.append([f"{metric.title} {ARROWS[metric.direction]}", *means])
        floors = [number.floor if number else math.nan for number in numbers]
        if not all(map(math.isnan, floors)):
            rows.append(["  noise floor", *map(percent, floors)])
    return Table(
        title=title,
        header=["Number", *(one.label for one in group)],
        rows=[*rows, ["± over", *map(_over, group)]],
        notes=[*([LEVEL, FLOOR, MAPPING] if formulas else []), *_asides(group)],
        formulas=[(metric.title, metric.formula) for metric in known if formulas],
        breaks=[len(HEADLINE), len(rows)],
    )


def curve(title: str, group: Sequence[Named]) -> Table:
    """Return the success after every split: a measure without columns has neither forward nor forgetting."""
    points = list(zip(*(tuple(row[0] for row in one.series.points) for one in group), strict=True))
    rows = [
        [name, *(with_interval(point.interval) for point in row)]
        for name, row in zip(group[0].series.rows, points, strict=True)
    ]
    gains = [_mean(one, one.series.numbers["gain"].interval) for one in group]
    under = [["gain ↑", *gains], *bounds_rows([one.series.bounds[0] for one in group])]
    shown = [episodes(one.series.points) for one in group]
    return Table(
        title=title,
        header=["trained through", *(one.label for one in group)],
        rows=[*rows, *under, [EPISODES, *shown], ["± over", *map(_over, group)]],
        notes=[LEVEL, COUNTED, *_asides(group)],
        breaks=[1, len(rows)],
    )


def _mean(one: Named, interval: Interval) -> str:
    """A mean with its interval, and with its trials where they are not those of `final`."""
    others = interval.over != "tasks" and interval.n != one.series.numbers["final"].interval.n
    return with_interval(interval) + (f" (n={interval.n})" if others else "")


def _over(one: Named) -> str:
    interval, trials = one.series.numbers["final"].interval, len(one.method.runs)
    if interval.over == "tasks":
        return f"{interval.n} tasks*"
    lacking = interval.over == "trials" and interval.n < trials
    return f"{interval.n}{f' of {trials}' if lacking else ''} {interval.over}"


def _range(group: Sequence[Named]) -> list[list[str]]:
    """Chance and ceilings of final and forward, once where all methods share them."""
    by_range: dict[str, list[str]] = {}
    tables = {one.label: bounds_rows([one.series.ranges["final"], one.series.ranges["forward"]]) for one in group}
    for label, rows in tables.items():
        by_range.setdefault(str(rows), []).append(label)
    firsts = [labels[0] for labels in by_range.values()]
    return [
        [f"{name} of {label}" if len(firsts) > 1 else name, *cells]
        for label in firsts
        for name, *cells in tables[label]
    ]


def bounds_rows(columns: Sequence[Bounds], digits: int = 1) -> list[list[str]]:
    """Return chance, ceiling and the ceiling of one policy where known; the last only where it is another number."""
    chance, ceiling, one_policy = (
        [percent(value, digits) for value in values] for values in zip(*columns, strict=True)
    )
    rows = [
        ["chance", *chance],
        ["ceiling", *ceiling],
        *([["one policy", *one_policy]] if one_policy != ceiling else []),
    ]
    return [row for row in rows if set(row[1:]) != {NONE}]


def _asides(group: Sequence[Named]) -> list[str]:
    found = []
    over = {one.series.numbers["final"].interval.over for one in group}
    found += [note for unit, note in (("tasks", SINGLE), ("seeds", SEEDS)) if unit in over]
    for one in group:
        naive = [number for name in HEADLINE if (number := one.series.numbers.get(name)) and number.naive]
        if naive:
            values = ", ".join(
                f"{number.metric.title} {with_interval(number.naive)}" for number in naive if number.naive
            )
            found.append(f"{one.label}, taking all {len(one.method.runs)} trials as independent: {values}")
    if any(one.series.returns and not one.series.measured.shared for one in group):
        found.append("The last split returns to the first kind: all but relearning is taken before it.")
    return found
