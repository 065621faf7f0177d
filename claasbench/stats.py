"""Student t intervals, paired differences of two methods, sign-flip tests with Holm's correction, and power."""

import math
import statistics
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

Key = TypeVar("Key", bound=tuple[Hashable, ...])

EXACT = 16
"""Up to so many values all their signs are tried; above it, FLIPS random ones."""
FLIPS = 2**EXACT


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


def sign_flip(differences: Sequence[float]) -> float:
    """Two-sided p of the mean under random signs (Fisher 1935): the share of all 2^n signs with a mean as far from 0.

    Exact up to EXACT values, else over seeded random signs, the observed ones among them. NaN for fewer than two
    values or if one is NaN.
    """
    import numpy as np

    n = len(differences)
    if n < 2 or any(map(math.isnan, differences)):
        return math.nan
    if n <= EXACT:
        signs = 1 - 2 * ((np.arange(2**n)[:, None] >> np.arange(n)) & 1)
    else:
        signs = np.random.default_rng(0).choice([-1, 1], (FLIPS, n))
        signs[0] = 1
    sums = np.abs(signs @ np.array(differences))
    # sums that are equal but for rounding count as equal: it would make the p depend on the order of the trials
    return int((sums >= abs(math.fsum(differences)) - 1e-9).sum()) / len(signs)


def smallest_p(n: int, contrasts: int = 1) -> float:
    """Return the least p that Holm's correction over `contrasts` sign-flip tests of n values can give: m * 2 / 2^n."""
    return min(1.0, contrasts * 2 / 2.0**n)


def holm(ps: Sequence[float]) -> list[float]:
    """Return p values adjusted for all of them (Holm 1979); a NaN stays one and still counts as a test."""
    order = sorted(range(len(ps)), key=lambda k: (math.isnan(ps[k]), ps[k]))
    adjusted, least = [math.nan] * len(ps), 0.0
    for rank, k in enumerate(order):
        if not math.isnan(ps[k]):
            least = max(least, min(1.0, (len(ps) - rank) * ps[k]))
            adjusted[k] = least
    return adjusted


def detectable(deviation: float, n: int, power: float = 0.8, level: float = 0.95) -> float:
    """Return the mean difference that a two-sided paired t test of n differences finds with chance `power`.

    `deviation` is the standard deviation of the differences, in their units; from the noncentral t distribution.
    NaN for fewer than two.
    """
    if n < 2 or math.isnan(deviation):
        return math.nan
    from scipy.optimize import brentq
    from scipy.stats import nct, t

    edge = t.ppf((1 + level) / 2, n - 1)
    shift = brentq(lambda shift: nct.sf(edge, n - 1, shift) - power, 0, 30)  # the wrong direction adds nothing visible
    return float(shift) * deviation / math.sqrt(n)


@dataclass(frozen=True, slots=True)
class Gap:
    """How far the mean of some values lies from a published number, and what can be said of it."""

    interval: Interval
    """Of the difference; at level .90 a verdict is that of two one-sided tests at .05 (Schuirmann 1987)."""
    reachable: float
    """The margin that would be met with 80 % chance if both agreed."""

    def verdict(self, margin: float) -> str:
        """Say whether the difference is within `margin`: met, missed (wholly outside) or undecided."""
        if -margin <= self.interval.low and self.interval.high <= margin:
            return "met"
        return "missed" if self.interval.low > margin or self.interval.high < -margin else "undecided"


def gap(values: Sequence[float], reference: float, error: float, n: int = 0, level: float = 0.90) -> Gap:
    """Return how far the mean of two values or more lies from `reference`, with standard error `error`.

    Welch's interval (1947); `n` is how many values are behind the reference, 0 if not known: its error is then exact.
    """
    from scipy.stats import t

    mine = statistics.variance(values) / len(values)
    theirs = error**2
    spread = mine + theirs
    parts = mine**2 / (len(values) - 1) + (theirs**2 / (n - 1) if n > 1 else 0.0)
    freedom = spread**2 / parts if parts else math.inf
    difference = statistics.mean(values) - reference
    edge = float(t.ppf((1 + level) / 2, freedom))
    half = edge * math.sqrt(spread)
    interval = Interval(difference, difference - half, difference + half, len(values), level, "trials")
    return Gap(interval, half + float(t.ppf(0.9, freedom)) * math.sqrt(spread))


def prediction(values: Sequence[float], level: float = 0.95) -> Interval:
    """Return where one further value would fall (normal theory); NaN bounds for fewer than two values."""
    interval = t_interval(values, level)
    stretch = math.sqrt(len(values) + 1)  # its error is s * sqrt(1 + 1/n), that of the mean s / sqrt(n)
    half = (interval.high - interval.low) / 2 * stretch
    return Interval(interval.mean, interval.mean - half, interval.mean + half, len(values), level, interval.over)


def _correlation(xs: Sequence[float], ys: Sequence[float]) -> float:
    """Pearson correlation, NaN where a side is constant, shorter than two or holds NaN."""
    if any(map(math.isnan, (*xs, *ys))) or len(set(xs)) < 2 or len(set(ys)) < 2:
        return math.nan
    return statistics.correlation(xs, ys)
