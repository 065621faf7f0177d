"""The numbers of a comparison: paired differences of a method and its reference, their tests, and where they arise."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from claasbench.errors import ClaasbenchError
from claasbench.report import estimates, pairing
from claasbench.report.estimates import Grid
from claasbench.report.pairing import Side
from claasbench.report.results import Cell, Measured, Run, Trial, mean
from claasbench.stats import Interval, detectable, holm, paired, sign_flip, smallest_p

PRIMARY = "final"
"""The one endpoint that is tested."""
NUMBERS = (PRIMARY, "forward", "forgetting", "prequential")
LIVE = "prequential"

Scores = dict[tuple[Trial, str, int], float]
"""By trial, task and attempt."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A number of both methods over the trials where both have it, and what the other has more in each."""

    reference: float
    other: float
    interval: Interval
    units: tuple[float, ...]  # of trials, or of orders where they repeat


class Example(NamedTuple):
    """A task with both methods' mean scores over trials and attempts, and the runs in which they differ most."""

    task: str
    reference: float
    other: float
    runs: tuple[Run, Run]


@dataclass(frozen=True, slots=True)
class Contrast:
    """A method less its reference on the headline measure; `splits`, `kinds` and `examples` are of the last row."""

    side: Side
    trials: tuple[Trial, ...]
    lone: tuple[Trial, ...]
    """Trials that only one of both has; they count nowhere."""
    numbers: Mapping[str, Difference]
    pairs: int
    dropped: int
    """Pairs, in all rows, of which an episode failed; they count nowhere."""
    correlation: float
    splits: Mapping[str, Interval]
    kinds: Mapping[str, Interval]
    examples: tuple[Example, ...]
    """From the greatest gain to the greatest loss."""

    @property
    def p(self) -> float:
        """The two-sided sign-flip p of the primary endpoint; NaN for a single trial."""
        return sign_flip(self.numbers[PRIMARY].units)

    @property
    def detectable(self) -> float:
        """The difference that as many trials with this spread find with 80 % chance."""
        units = self.numbers[PRIMARY].units
        return detectable(statistics.stdev(units) if len(units) > 1 else math.nan, len(units))


@dataclass(frozen=True, slots=True)
class Comparison:
    """All contrasts with one reference."""

    reference: Side
    measure: str
    live: bool
    """Whether training scores can be compared: not where an attacker adapted to each method."""
    allowed: tuple[str, ...]
    contrasts: tuple[Contrast, ...]

    @property
    def adjusted(self) -> list[float]:
        """The p of each contrast, adjusted for all of them by Holm's method."""
        return holm([contrast.p for contrast in self.contrasts])

    def smallest(self, contrast: Contrast) -> float:
        """Return the least adjusted p that the trials of a contrast can reach."""
        return smallest_p(len(contrast.numbers[PRIMARY].units), len(self.contrasts))


def compare(paths: Sequence[Path], allowed: Sequence[str] = ()) -> Comparison:
    """Return every method of the later folders less the only one of the first; `pairing.sides` says what is refused."""
    reference, others = pairing.sides(paths, allowed)
    measured = next((run.measured[0] for run in reference.runs.values() if run.measured), None)
    if measured is None:
        raise ClaasbenchError(f"{reference.label} has no measured row yet: nothing to compare")
    live = not any(run.opponent for side in (reference, *others) for run in side.runs.values())
    contrasts = tuple(_contrast(reference, side, measured, live) for side in others)
    return Comparison(reference, measured.measure, live, tuple(allowed), contrasts)


@dataclass(frozen=True, slots=True)
class _Pair:
    """Both runs of one trial with their cells cut to the episodes that have a score in both."""

    runs: tuple[Run, Run]
    grids: tuple[Grid, Grid]
    shared: bool

    @property
    def last(self) -> list[tuple[str, str, Cell, Cell]]:
        """The columns of the last row that are there: name, kind and both cells."""
        parts = [("all", "all")] if self.shared else [(part.name, part.kind) for part in self.runs[0].parts]
        columns = zip(parts, self.grids[0][-1], self.grids[1][-1], strict=True)
        return [(*part, a, b) for part, a, b in columns if a and b]


def _contrast(reference: Side, side: Side, measured: Measured, live: bool) -> Contrast:
    pairs: dict[Trial, _Pair] = {}
    dropped = 0
    for trial in pairing.shared(reference, side):
        a, b = reference.runs[trial], side.runs[trial]
        left, right, lost = _matched(a, b, measured)
        pairs[trial] = _Pair((a, b), (left, right), measured.shared)
        dropped += lost
    scores = _scores(pairs)
    found = paired(scores[1], scores[0])
    return Contrast(
        side=side,
        trials=tuple(pairs),
        lone=tuple(pairing.lone(reference, side)),
        numbers=dict(_differences(pairs, live)),
        pairs=found.n,
        dropped=dropped,
        correlation=found.correlation,
        splits=_by(pairs, 0),
        kinds=_by(pairs, 1),
        examples=tuple(_examples(pairs, scores)),
    )


def _matched(a: Run, b: Run, measured: Measured) -> tuple[Grid, Grid, int]:
    """Return the cells of both runs, each with the scores that both have, and how many pairs lack one."""
    grids: tuple[Grid, Grid] = ([], [])
    dropped = 0
    for name, left, right in zip(a.row_names, a.grid(measured), b.grid(measured), strict=True):
        rows: tuple[list[Cell | None], list[Cell | None]] = ([], [])
        for one, other in zip(left, right, strict=True):
            if one is None or other is None:
                rows[0].append(None)
                rows[1].append(None)
                continue
            theirs = dict(zip(other.units, other.scores, strict=True))
            if theirs.keys() != set(one.units):
                raise ClaasbenchError(
                    f"{str(a.folder)!r} and {str(b.folder)!r} measured other tasks in row {name!r}, split {one.split!r}"
                )
            both = [(x, theirs[unit]) for unit, x in zip(one.units, one.scores, strict=True)]
            kept = [(math.nan, math.nan) if math.isnan(x + y) else (x, y) for x, y in both]
            dropped += sum(math.isnan(x) for x, _ in kept)
            rows[0].append(replace(one, scores=tuple(x for x, _ in kept)))
            rows[1].append(replace(one, scores=tuple(y for _, y in kept)))
        grids[0].append(rows[0])
        grids[1].append(rows[1])
    return *grids, dropped


def _scores(pairs: Mapping[Trial, _Pair]) -> tuple[Scores, Scores]:
    """Return the scores of the last row of both methods."""
    found: tuple[Scores, Scores] = ({}, {})
    for trial, pair in pairs.items():
        for _, _, *cells in pair.last:
            for scores, cell in zip(found, cells, strict=True):
                units = zip(cell.units, cell.scores, strict=True)
                scores.update({(trial, *unit): score for unit, score in units if not math.isnan(score)})
    return found


def _differences(pairs: Mapping[Trial, _Pair], live: bool) -> Iterator[tuple[str, Difference]]:
    values = {
        trial: [estimates.of_trial(run, grid, pair.shared) for run, grid in zip(pair.runs, pair.grids, strict=True)]
        for trial, pair in pairs.items()
    }
    for name in NUMBERS:
        if (name == LIVE and not live) or any(name not in each for both in values.values() for each in both):
            continue
        both = {trial: (a[name], b[name]) for trial, (a, b) in values.items() if not math.isnan(a[name] + b[name])}
        if not both and name != PRIMARY:
            continue
        less = {trial: b - a for trial, (a, b) in both.items()}
        if len(pairs) == 1:
            ((_, pair),) = pairs.items()
            a, b = (
                estimates.of_tasks(run, grid, pair.shared).get(name, [])
                for run, grid in zip(pair.runs, pair.grids, strict=True)
            )
            tasks = [y - x for x, y in zip(a, b, strict=False)]
            interval = estimates.over_tasks(mean(list(less.values())), tasks)
        else:
            interval = estimates.spread(less)
        means = (mean([a for a, _ in both.values()]), mean([b for _, b in both.values()]))
        yield name, Difference(*means, interval, tuple(estimates.units(less)[0]))


def _by(pairs: Mapping[Trial, _Pair], which: int) -> dict[str, Interval]:
    """Return the difference in the last row by the name (0) or the kind (1) of its columns."""
    found: dict[str, dict[Trial, list[float]]] = {}
    for trial, pair in pairs.items():
        for *names, a, b in pair.last:
            found.setdefault(names[which], {}).setdefault(trial, []).append(b.success - a.success)
    means = {name: {trial: mean(values) for trial, values in trials.items()} for name, trials in found.items()}
    return {name: estimates.spread(values) for name, values in means.items()}


def _examples(pairs: Mapping[Trial, _Pair], scores: tuple[Scores, Scores]) -> Iterator[Example]:
    """Yield the tasks of the last row, from the one that gains most to the one that loses most."""
    found: dict[str, list[tuple[Trial, float, float]]] = {}
    for (trial, task, attempt), score in scores[0].items():
        found.setdefault(task, []).append((trial, score, scores[1][trial, task, attempt]))
    examples = []
    for task, rows in found.items():
        a, b = mean([x for _, x, _ in rows]), mean([y for _, _, y in rows])
        sign = math.copysign(1, b - a)
        trial, *_ = max(rows, key=lambda row: sign * (row[2] - row[1]))
        examples.append(Example(task, a, b, pairs[trial].runs))
    yield from sorted(examples, key=lambda example: (example.reference - example.other, example.task))
