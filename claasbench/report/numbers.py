"""From runs to what a report shows: scenarios, their methods, and every method's cells and metrics."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from claasbench import metrics
from claasbench.report import estimates, grouping
from claasbench.report.estimates import Number, Point
from claasbench.report.results import COUNTS, Cell, Measured, Run, mean
from claasbench.stats import Interval
from claasbench.types import Bounds

PHASES = ("play", "learn", "measure", "save")
DRAWS = 1000
"""Permutations behind the noise floors of a method."""
MOST = 50_000
"""Permutations of a study: with more than fifty methods each gets fewer."""
TOKENS = ("prompt_tokens", "prefilled", "reply_tokens")


@dataclass(frozen=True, slots=True)
class Series:
    """One measure of one method with one variant of its learner; row 0 is the untrained policy."""

    measured: Measured
    returns: bool  # the last split trains the first kind again
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    bounds: tuple[Bounds, ...]  # of each column
    points: tuple[tuple[Point, ...], ...]
    averages: tuple[Interval, ...]  # of each row over its columns
    numbers: Mapping[str, Number]

    @property
    def success(self) -> list[list[float]]:
        """The means of all cells."""
        return [[point.interval.mean for point in row] for row in self.points]

    @property
    def normalised(self) -> list[list[float]]:
        """The means of all cells on a scale from chance (0) to ceiling (1)."""
        chance, ceiling = [bound.chance for bound in self.bounds], [bound.ceiling for bound in self.bounds]
        return [metrics.normalised_row(row, chance, ceiling) for row in self.success]

    @property
    def ranges(self) -> dict[str, Bounds]:
        """Chance and ceilings of final and forward: their values for a matrix of chances or ceilings."""
        width = len(self.bounds)
        summaries = [
            metrics.summary([values] * width, values, returns=self.returns and not self.measured.shared)
            for values in zip(*self.bounds, strict=True)
        ]
        return {name: Bounds(*(summary[name] for summary in summaries)) for name in ("final", "forward")}


@dataclass(frozen=True, slots=True)
class Method:
    """Runs that differ in nothing but their trial."""

    label: str
    short: str  # the label without a model that the section's heading names
    runs: tuple[Run, ...]
    splits: tuple[str, ...]
    series: tuple[Series, ...]  # the headline first
    live: tuple[Point, ...]  # training success on each split

    @property
    def whole(self) -> list[Run]:
        """The runs with all their rows: only these tell what a trial costs."""
        return [run for run in self.runs if None not in run.rows]

    @property
    def seconds(self) -> dict[str, float]:
        """Mean seconds of a whole run in each phase, NaN without one."""
        runs, found = self.whole, dict.fromkeys(PHASES, 0.0)
        for row in (row for run in runs for row in run.rows if row):
            for phase, value in row.seconds.items():
                found[phase] = found.get(phase, 0.0) + value
        return {phase: value / len(runs) if runs else math.nan for phase, value in found.items()}

    def tokens(self, measured: bool) -> dict[str, float]:
        """Return the mean tokens of a whole run, where it was measured or else trained; NaN without one."""
        runs = self.whole
        counts = counted(runs, measured)
        return {key: _known(counts[key]) / len(runs) if runs else math.nan for key in TOKENS}

    @property
    def budget(self) -> dict[str, float]:
        """What a live success and a point of `final` cost in training, measuring and saving apart."""
        runs = self.whole
        scores = [score for run in runs for cell in run.live if cell for score in cell.scored]
        finals = [self.series[0].numbers["final"].trials[run.trial] for run in runs] if self.series else []
        sizes = {"success": math.fsum(scores) / (len(runs) or 1), "final_point": 100 * mean(finals)}
        seconds = math.fsum(value for phase, value in self.seconds.items() if phase not in ("measure", "save"))
        costs = {"reply_tokens": self.tokens(measured=False)["reply_tokens"], "seconds": seconds}
        return {
            f"{cost}_per_{unit}": value / size if size > 0 else math.nan
            for unit, size in sizes.items()
            for cost, value in costs.items()
        }


@dataclass(frozen=True, slots=True)
class Section:
    """The methods that met one scenario with the same settings; only these can be compared."""

    title: str
    heading: str  # the title, and the model where there is only one
    methods: tuple[Method, ...]


@dataclass(frozen=True, slots=True)
class Study:
    """All that a report shows."""

    sections: tuple[Section, ...]


def study(runs: Sequence[Run]) -> Study:
    """Return the runs by scenario and method, with all their numbers."""
    found = grouping.groups(runs)
    titles = grouping.titles([methods[0][0] for methods in found])
    draws = min(DRAWS, MOST // (sum(map(len, found)) or 1))
    return Study(tuple(_section(title, methods, draws) for title, methods in zip(titles, found, strict=True)))


def played(run: Run, measured: bool) -> Iterator[tuple[str, Cell]]:
    """Yield the cells that cost something, with their row's name; a copied row repeats another's results."""
    for row in run.rows:
        if row and measured and row.copied is None:
            yield from ((row.name, cell) for cells in row.cells.values() for cell in cells if cell)
        if row and row.live and not measured:
            yield row.name, row.live


def rates(counts: Mapping[str, int]) -> dict[str, float]:
    """Return shares of all turns (overflow: of all episodes) and the tokens of a mean reply; NaN where unknown."""
    turns, episodes = counts["turns"] or math.nan, counts["episodes"] or math.nan
    found = {key: counts[key] / turns for key in ("invalid", "no_action", "cut")}
    return found | {"overflow": counts["overflow"] / episodes, "reply_tokens": _known(counts["reply_tokens"]) / turns}


def counted(runs: Iterable[Run], measured: bool) -> dict[str, int]:
    """Return the summed counts of all episodes played, where measured or else in training."""
    return total(cell for run in runs for _, cell in played(run, measured))


def total(cells: Iterable[Cell]) -> dict[str, int]:
    """Return the summed counts of cells."""
    there = list(cells)
    return {key: sum(cell.counts[key] for cell in there) for key in COUNTS}


def _known(tokens: int) -> float:
    """No token at all means that the engine counts none."""
    return tokens or math.nan


def _section(title: str, methods: Sequence[Sequence[Run]], draws: int) -> Section:
    firsts = [runs[0] for runs in methods]
    models = {run.model for run in firsts}
    labels, short = grouping.labels(firsts), grouping.labels(firsts, models=len(models) > 1)
    found = [_method(label, brief, runs, draws) for label, brief, runs in zip(labels, short, methods, strict=True)]
    return Section(title, " · ".join([title, *(models if len(models) == 1 else [])]), tuple(found))


def _method(label: str, short: str, runs: Sequence[Run], draws: int) -> Method:
    measured = dict.fromkeys(key for run in runs for key in run.measured)
    live = {run.trial: run.live for run in runs}
    return Method(
        label=label,
        short=short,
        runs=tuple(runs),
        splits=_names(runs)[1],
        series=tuple(_series(key, runs, draws) for key in measured),
        live=tuple(
            estimates.point({trial: cells[k] for trial, cells in live.items()}) for k in range(len(runs[0].parts))
        ),
    )


def _series(measured: Measured, runs: Sequence[Run], draws: int) -> Series:
    grids = {run.trial: run.grid(measured) for run in runs}
    rows, columns = _names(runs)
    columns = ("all",) if measured.shared else columns
    return Series(
        measured=measured,
        returns=runs[0].returns,
        rows=rows,
        columns=columns,
        bounds=tuple(_bounds([[row[j] for row in grid] for grid in grids.values()]) for j in range(len(columns))),
        points=tuple(
            tuple(estimates.point({trial: grid[k][j] for trial, grid in grids.items()}) for j in range(len(columns)))
            for k in range(len(rows))
        ),
        averages=tuple(estimates.average({trial: grid[k] for trial, grid in grids.items()}) for k in range(len(rows))),
        numbers=estimates.numbers(runs, grids, measured.shared, draws),
    )


def _names(runs: Sequence[Run]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Names of rows and columns, or positions where orders put different splits there."""
    first = runs[0]
    if any(run.parts != first.parts for run in runs):
        positions = [f"split {k + 1}" for k in range(len(first.parts))]
        return ("init", *positions), tuple(positions)
    names = [part.name for part in first.parts]
    return tuple(first.row_names), tuple(names if len(set(names)) == len(names) else first.row_names[1:])


def _bounds(columns: Sequence[Sequence[Cell | None]]) -> Bounds:
    """Bounds of one column, averaged over trials, for another order puts other tasks there."""
    firsts = [next((cell.bounds for cell in column if cell), None) for column in columns]
    there = [bounds for bounds in firsts if bounds]
    return Bounds(*(mean(values) for values in zip(*there, strict=True))) if there else Bounds(*[math.nan] * 3)
