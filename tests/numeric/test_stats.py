"""Intervals against known values, and their coverage in simulated studies."""

import math

import numpy as np
import pytest

from claasbench.stats import Interval, paired, t_interval

NAN = math.nan


def test_against_the_closed_form() -> None:
    # one degree of freedom is the Cauchy distribution: its .975 quantile is tan(.475 pi)
    interval = t_interval([1.0, 3.0])
    half = math.tan(0.475 * math.pi) * math.sqrt(2) / math.sqrt(2)
    assert (interval.mean, interval.low, interval.high) == pytest.approx((2, 2 - half, 2 + half))
    assert (interval.n, interval.level, interval.over) == (2, 0.95, "trials")
    # two degrees of freedom: t = (2p - 1) / sqrt(2p (1 - p))
    interval = t_interval([1.0, 2.0, 3.0], level=0.9, over="tasks")
    half = 0.9 / math.sqrt(2 * 0.95 * 0.05) / math.sqrt(3)
    assert (interval.mean, interval.low, interval.high) == pytest.approx((2, 2 - half, 2 + half))
    assert (interval.n, interval.level, interval.over) == (3, 0.9, "tasks")


@pytest.mark.parametrize(("n", "quantile"), [(6, 2.570582), (9, 2.306004), (20, 2.093024)])
def test_against_printed_quantiles(n: int, quantile: float) -> None:
    values = [float(i) for i in range(n)]
    interval = t_interval(values)
    error = math.sqrt(n * (n + 1) / 12) / math.sqrt(n)
    assert (interval.high - interval.mean) / error == pytest.approx(quantile, abs=1e-6)
    assert interval.mean - interval.low == pytest.approx(interval.high - interval.mean)


def test_edges() -> None:
    assert t_interval([0.1] * 3) == Interval(0.1, 0.1, 0.1, 3, 0.95, "trials")
    one = t_interval([0.5])
    assert (one.mean, one.n) == (0.5, 1)
    assert math.isnan(one.low)
    assert math.isnan(one.high)
    for values in ([], [NAN], [0.1, NAN, 0.3]):
        interval = t_interval(values)
        assert interval.n == len(values)
        assert all(map(math.isnan, (interval.mean, interval.low, interval.high)))


def test_paired_averages_within_a_trial_first() -> None:
    a = {(trial, task, attempt): 1.0 for trial in range(3) for task in "xy" for attempt in range(2)}
    b = {key: 0.5 * key[0] for key in a}
    result = paired(a, b)
    assert result.difference == t_interval([1.0, 0.5, 0.0])
    assert result.n == 12
    assert math.isnan(result.correlation)  # a is constant


def test_paired_at_trial_level() -> None:
    a, b = {(0,): 0.5, (1,): 0.9, (2,): 0.7}, {(2,): 0.6, (0,): 0.2, (1,): 0.4}
    result = paired(a, b, level=0.9)
    assert result.difference.mean == pytest.approx(0.3)
    assert result.difference == t_interval([0.5 - 0.2, 0.9 - 0.4, 0.7 - 0.6], level=0.9)
    assert result.correlation == pytest.approx(np.corrcoef([0.5, 0.9, 0.7], [0.2, 0.4, 0.6])[0, 1])


def test_one_trial_is_an_interval_over_its_tasks() -> None:
    a = {(7, "x", 0): 1.0, (7, "x", 1): 0.0, (7, "y", 0): 1.0, (7, "y", 1): 1.0}
    b = dict.fromkeys(a, 0.0)
    assert paired(a, b).difference == t_interval([0.5, 1.0], over="tasks")


def test_one_trial_without_tasks_has_no_bounds() -> None:
    difference = paired({(0,): 0.5}, {(0,): 0.25}).difference
    assert (difference.mean, difference.n, difference.over) == (0.25, 1, "trials")
    assert math.isnan(difference.low)


def test_paired_with_nothing_or_nan() -> None:
    assert math.isnan(paired({}, {}).difference.mean)
    result = paired({(0,): NAN, (1,): 1.0}, {(0,): 0.0, (1,): 1.0})
    assert math.isnan(result.difference.mean)
    assert math.isnan(result.correlation)


def test_the_first_missing_pair_is_named() -> None:
    with pytest.raises(ValueError, match=r"\(1, 'x', 0\) is missing from the second"):
        paired({(0, "x", 0): 1.0, (1, "x", 0): 1.0, (2, "x", 0): 1.0}, {(0, "x", 0): 1.0})
    with pytest.raises(ValueError, match=r"\(1, 'x', 0\) is missing from the first"):
        paired({(0, "x", 0): 1.0}, {(0, "x", 0): 1.0, (1, "x", 0): 1.0})


@pytest.mark.parametrize("trials", [6, 9, 20])
@pytest.mark.parametrize("sd", [0.0, 0.05, 0.15])
def test_coverage(trials: int, sd: float) -> None:
    """2 000 studies of 20 tasks; what is estimated is the mean over trials for these tasks."""
    difficulty = np.linspace(0.05, 0.8, 20)
    random = np.random.default_rng([trials, round(100 * sd)])

    def success(shift: np.ndarray) -> np.ndarray:
        return np.clip(difficulty + sd * shift[..., None], 0, 1)

    # clipping moves the mean, so the truth is the average over many trials, not mean(difficulty)
    truth = success(random.standard_normal(200_000)).mean()
    chances = success(random.standard_normal((2000, trials)))
    studies = (random.random(chances.shape) < chances).mean(axis=2)
    intervals = [t_interval(study) for study in studies.tolist()]
    assert 0.925 <= np.mean([i.low <= truth <= i.high for i in intervals]) <= 0.975


@pytest.mark.parametrize("trials", [6, 9, 20])
def test_coverage_of_paired_differences(trials: int) -> None:
    """500 studies of two methods on the same 20 tasks, each trained anew in every trial."""
    random = np.random.default_rng(trials)
    difficulty = np.linspace(0.3, 0.7, 20)
    shifts = np.clip(0.1 * random.standard_normal((500, 2, trials, 1)), -0.3, 0.3)
    scores = (random.random((500, 2, trials, 20)) < difficulty + shifts).astype(float)
    covered = []
    for study in scores:
        a, b = ({key: float(score) for key, score in np.ndenumerate(method)} for method in study)
        difference = paired(a, b).difference
        covered.append(difference.low <= 0 <= difference.high)
    assert 0.925 <= np.mean(covered) <= 0.975
