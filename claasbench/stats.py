"""Student t intervals over trials, and differences of two methods paired by their shared draws."""

import math
import statistics
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

Key = TypeVar("Key", bound=tuple[Hashable, ...])


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean with its two-sided confidence bounds over `n` units, in the units of the values."""

    mean: float
    low: float
    high: float
    n: int
    level: float
    over: str


@dataclass(frozen=True, slots=True)
class Paired:
    """Mean difference a - b, and the correlation of the `n` pairs behind it."""

    difference: Interval
    correlation: float
    n: int


def t_interval(values: Sequence[float], level: float = 0.95, over: str = "trials") -> Interval:
    """Student t interval of the mean; NaN bounds for one value, NaN throughout if any value is."""
    n = len(values)
    if n == 0 or any(map(math.isnan, values)):
        return Interval(math.nan, math.nan, math.nan, n, level, over)
    mean = statistics.mean(values)
    if n == 1:
        return Interval(mean, math.nan, math.nan, n, level, over)
    from scipy.stats import t

    half = float(t.ppf((1 + level) / 2, n - 1)) * statistics.stdev(values) / math.sqrt(n)
    return Interval(mean, mean - half, mean + half, n, level, over)


def paired(a: Mapping[Key, float], b: Mapping[Key, float], level: float = 0.95) -> Paired:
    """Mean of a - b over pairs with equal keys: (trial,), (trial, task) or (trial, task, attempt).

    Pairs of one trial share its training, so they are averaged first and the t interval is taken
    over trials. With a single trial it is taken over its tasks: this checkpoint, not the method.
    """
    for here, there, where in ((a, b, "second"), (b, a, "first")):
        for key in here:
            if key not in there:
                raise ValueError(f"pair {key!r} is missing from the {where} mapping")
    one_trial = len({key[0] for key in a}) == 1 and all(len(key) > 1 for key in a)
    units: dict[tuple[Hashable, ...], list[float]] = {}
    for key in a:
        units.setdefault(key[: 2 if one_trial else 1], []).append(a[key] - b[key])
    differences = [statistics.mean(unit) for unit in units.values()]
    return Paired(
        t_interval(differences, level, "tasks" if one_trial else "trials"),
        _correlation([a[key] for key in a], [b[key] for key in a]),
        len(a),
    )


def _correlation(xs: Sequence[float], ys: Sequence[float]) -> float:
    """Pearson correlation, NaN where a side is constant, shorter than two or holds NaN."""
    if any(map(math.isnan, (*xs, *ys))) or len(set(xs)) < 2 or len(set(ys)) < 2:
        return math.nan
    return statistics.correlation(xs, ys)
