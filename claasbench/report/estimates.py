"""Intervals of cells and metrics: over trials, over order means, or over the tasks of a single trial."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from claasbench import metrics
from claasbench.report.results import Cell, Run, Trial, mean
from claasbench.stats import Interval, t_interval

Grid = list[list[Cell | None]]
Values = list[list[float]]
Outcomes = list[list[dict[tuple[str, int], float]]]

BIASED = ("forgetting_best", "forgetting_clipped", "forgetting_rwalk")
"""Metrics with a maximum: no mean of single tasks, and above 0 where nothing was forgotten."""
OF_SHARED = ("final", "prequential", "gain")
"""Metrics that a measure without columns has."""
CROSS_FITTED = metrics.Metric(
    "forgetting_cross_fitted",
    "Forgetting, cross-fitted (G2)",
    "as G2, with the best row chosen on one half of the attempts and scored on the other",
    "down",
)
_AT = [metric.name for metric in metrics.METRICS].index("forgetting_rwalk") + 1
METRICS = (*metrics.METRICS[:_AT], CROSS_FITTED, *metrics.METRICS[_AT:])
"""All metrics in the order of reports."""


@dataclass(frozen=True, slots=True)
class Point:
    """A mean success with its interval, and the episodes behind it."""

    interval: Interval
    n: int
    n_failed: int


@dataclass(frozen=True, slots=True)
class Number:
    """A metric over the trials that have it; `naive` ignores that orders repeat, `floor` is what noise alone shows."""

    metric: metrics.Metric
    trials: Mapping[Trial, float]
    interval: Interval
    naive: Interval | None
    floor: float


def spread(values: Mapping[Trial, float]) -> Interval:
    """Return the t interval over the trials that have a value, over order means where orders repeat."""
    found, over = units(values)
    return t_interval(found, over=over)


def units(values: Mapping[Trial, float]) -> tuple[list[float], str]:
    """Return the values that are independent of each other, and what they are: trials, seeds of one order, orders."""
    there = {trial: value for trial, value in values.items() if not math.isnan(value)}
    orders: dict[int, list[float]] = {}
    for trial, value in there.items():
        orders.setdefault(trial.order, []).append(value)
    if 1 < len(orders) < len(there):
        return [mean(group) for group in orders.values()], "orders"
    return list(there.values()), "seeds" if len(orders) < len(there) else "trials"


def over_tasks(value: float, tasks: Sequence[float]) -> Interval:
    """Return the interval of one trial's `value` as wide as that of its single tasks: for this checkpoint only.

    Tasks that all agree give no interval: its width of 0 would claim that 0 wins of 24 leave no doubt.
    """
    width = t_interval([task for task in tasks if not math.isnan(task)], over="tasks")
    half = (width.high - width.low) / 2 or math.nan
    return Interval(value, value - half, value + half, width.n, width.level, width.over)


def point(cells: Mapping[Trial, Cell | None]) -> Point:
    """Return the mean success of one cell over its trials, or over its tasks where there is one trial."""
    there = [cell for cell in cells.values() if cell]
    values = {trial: cell.success if cell else math.nan for trial, cell in cells.items()}
    if len(cells) == 1 and there:
        interval = over_tasks(there[0].success, list(there[0].by_task.values()))
    else:
        interval = spread(values)
    return Point(interval, sum(len(cell.scored) for cell in there), sum(cell.n_failed for cell in there))


def average(rows: Mapping[Trial, Sequence[Cell | None]]) -> Interval:
    """Return the mean of one row over its columns."""
    means = {trial: mean([_success(cell) for cell in row]) for trial, row in rows.items()}
    if len(rows) > 1:
        return spread(means)
    ((trial, row),) = rows.items()
    return over_tasks(means[trial], [mean(values) for (values,) in _slices([list(row)])])


def numbers(runs: Sequence[Run], grids: Mapping[Trial, Grid], shared: bool, draws: int) -> dict[str, Number]:
    """Return every metric of one measure by name, with noise floors of `draws` permutations shared among the trials."""
    values = {run.trial: of_trial(run, grids[run.trial], shared) for run in runs}
    tasks = of_tasks(runs[0], grids[runs[0].trial], shared) if len(runs) == 1 else None
    floors = {} if shared else _floors(runs, grids, math.ceil(draws / len(runs)))
    found = {}
    for metric in METRICS:
        trials = {trial: value[metric.name] for trial, value in values.items() if metric.name in value}
        if not trials:
            continue
        interval, naive = spread(trials), None
        if interval.over == "orders":
            naive = t_interval([value for value in trials.values() if not math.isnan(value)])
        if tasks is not None:
            interval = over_tasks(interval.mean, tasks.get(metric.name, []))
        found[metric.name] = Number(metric, trials, interval, naive, floors.get(metric.name, math.nan))
    return found


def _success(cell: Cell | None) -> float:
    return cell.success if cell else math.nan


def _summary(run: Run, values: Values, shared: bool) -> dict[str, float]:
    """Metrics of values by row and column, the untrained row first; a shared measure has its last value for M."""
    cells = [cell for cell in run.live if cell]
    # a mean over a part of the stream would be another number
    live = [cell.scored for cell in cells] if len(cells) == len(run.parts) else None
    if not shared:
        return metrics.summary(values[1:], values[0], live, run.returns)
    every = metrics.summary([values[-1]], values[0], live)
    return {name: every[name] for name in OF_SHARED}


def of_trial(run: Run, grid: Grid, shared: bool) -> dict[str, float]:
    """Return every metric of one run by name, from its cells by row and column."""
    found = _summary(run, [[_success(cell) for cell in row] for row in grid], shared)
    attempts = {attempt for row in grid for cell in row if cell for _, attempt in cell.units}
    if len(attempts) > 1 and not shared:
        found[CROSS_FITTED.name] = _cross_fitted(_outcomes(run, grid))
    return found


def of_tasks(run: Run, grid: Grid, shared: bool) -> dict[str, list[float]]:
    """Return the values of each metric that is a mean over tasks, from one task of each column at a time."""
    slices = [_summary(run, values, shared) for values in _slices(grid)]
    found = {name: [values[name] for values in slices] for name in (slices[0] if slices else ()) if name not in BIASED}
    return found | {"prequential": [score for cell in run.live if cell for score in cell.scored]}


def _slices(grid: Grid) -> list[Values]:
    """The t-th value takes the t-th task of every column: columns weigh the same, as in the metrics."""
    means = [[cell.by_task if cell else {} for cell in row] for row in grid]
    tasks = [next((list(row[j]) for row in means if row[j]), []) for j in range(len(grid[0]))]
    return [
        [[cell.get(tasks[j][t], math.nan) for j, cell in enumerate(row)] for row in means]
        for t in range(min(map(len, tasks)))
    ]


def _outcomes(run: Run, grid: Grid) -> Outcomes:
    """Scores by trained row, column and unit, of the units that have one in every row."""
    cells = metrics.before_return(grid[1:]) if run.returns else grid[1:]
    scores = [[dict(zip(cell.units, cell.scores, strict=True)) if cell else {} for cell in row] for row in cells]
    kept = [
        [unit for unit in column[0] if not any(math.isnan(row.get(unit, math.nan)) for row in column)]
        for column in zip(*scores, strict=True)
    ]
    return [[{unit: cell[unit] for unit in units} for cell, units in zip(row, kept, strict=True)] for row in scores]


def _floors(runs: Sequence[Run], grids: Mapping[Trial, Grid], draws: int) -> dict[str, float]:
    """Noise floor of each biased metric: the mean over the trials that have all their rows."""
    found: dict[str, list[float]] = {name: [] for name in BIASED}
    for run in runs:
        outcomes = [[list(cell.values()) for cell in row] for row in _outcomes(run, grids[run.trial])]
        if all(cell for row in outcomes for cell in row):
            for name, floors in found.items():
                floors.append(metrics.noise_floor(outcomes, name, draws, seed=run.trial.seed))
    return {name: mean([floor for floor in floors if not math.isnan(floor)]) for name, floors in found.items()}


def _cross_fitted(outcomes: Outcomes) -> float:
    """The cross-fitted best over the tasks whose attempts all have scores; NaN where a column has none."""
    by_task = [[_attempts(cell) for cell in row] for row in outcomes]
    return metrics.cross_fitted_best(by_task) if all(cell for row in by_task for cell in row) else math.nan


def _attempts(scores: Mapping[tuple[str, int], float]) -> list[list[float]]:
    tasks: dict[str, list[float]] = {}
    for (task, _), score in scores.items():
        tasks.setdefault(task, []).append(score)
    most = max(map(len, tasks.values()), default=0)
    return [attempts for attempts in tasks.values() if len(attempts) == most and most > 1]
