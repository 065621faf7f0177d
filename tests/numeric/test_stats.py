"""Intervals, tests and power against known values, and their coverage and level in simulated studies."""

import math

import numpy as np
import pytest

from claasbench.stats import Gap, Interval, detectable, gap, holm, paired, prediction, sign_flip, smallest_p, t_interval

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


def test_sign_flips_are_counted() -> None:
    assert sign_flip([1.0, 2.0, 3.0]) == 2 / 8  # only all signs equal reach a sum of 6
    assert sign_flip([3.0, 1.0, -1.0]) == 6 / 8  # of all signs two give a sum of size 5, four of 3, two of 1
    assert sign_flip([0.0, 0.0, 0.0]) == 1.0
    assert sign_flip([0.1 + 0.2, -0.3, 0.5]) == sign_flip([0.5, 0.3, -0.3])  # equal but for rounding
    assert all(map(math.isnan, (sign_flip([]), sign_flip([1.0]), sign_flip([1.0, NAN]))))


@pytest.mark.parametrize("n", range(2, 10))
def test_the_smallest_p_is_reached_by_one_direction(n: int) -> None:
    assert sign_flip([1.0 + k for k in range(n)]) == smallest_p(n) == 2 / 2**n
    assert smallest_p(n, 3) == min(1, 3 * 2 / 2**n)


def test_how_many_contrasts_trials_carry() -> None:
    carried = {n: max(m for m in range(1, 20) if smallest_p(n, m) <= 0.05) for n in (6, 7, 8, 9)}
    assert carried == {6: 1, 7: 3, 8: 6, 9: 12}


def test_many_values_take_random_signs() -> None:
    values = np.random.default_rng(1).normal(0.3, 1, 17).tolist()
    exact = sign_flip(values[:16])
    assert 0 < exact < 1
    assert sign_flip(values) == sign_flip(values)
    assert sign_flip([1.0] * 20) <= 3 / 2**16  # at least the observed signs


def test_holm_against_the_closed_form() -> None:
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.04, 0.5, 0.9]) == pytest.approx([0.12, 1.0, 1.0])
    assert holm([0.02]) == [0.02]
    assert holm([]) == []
    adjusted = holm([0.01, NAN])
    assert adjusted[0] == pytest.approx(0.02)
    assert math.isnan(adjusted[1])


def test_detectable_against_a_published_table() -> None:
    # two-sided paired t test, level .05, power .80: 34 pairs for an effect of .5, 15 for .8 (Cohen 1988)
    assert detectable(1.0, 34) <= 0.5 < detectable(1.0, 33)
    assert detectable(1.0, 15) <= 0.8 < detectable(1.0, 14)
    assert detectable(20.0, 9) == pytest.approx(20 * detectable(1.0, 9))
    assert math.isnan(detectable(1.0, 1))


def test_the_power_is_the_one_claimed() -> None:
    random = np.random.default_rng(5)
    studies = detectable(0.1, 9) + 0.1 * random.standard_normal((4000, 9))
    found = np.mean([t_interval(study).low > 0 for study in studies.tolist()])
    assert found == pytest.approx(0.8, abs=0.02)


@pytest.mark.parametrize(("trials", "contrasts"), [(6, 1), (8, 6), (9, 12)])
def test_level_over_all_contrasts(trials: int, contrasts: int) -> None:
    """2 000 studies without any effect: at most 5 % call one of their contrasts significant."""
    random = np.random.default_rng([trials, contrasts])
    called = 0
    for _ in range(2000):
        reference = random.standard_normal(trials)
        differences = 0.1 * (random.standard_normal((contrasts, trials)) - reference)
        called += min(holm([sign_flip(values) for values in differences.tolist()])) <= 0.05
    assert called / 2000 <= 0.06  # 5 % and three standard errors of a share of 2 000


def test_a_gap_against_the_closed_form() -> None:
    # two values 1 apart: variance .5, standard error .5, t(.95, 1) = 6.3138 and t(.90, 1) = 3.0777
    found = gap([10.0, 11.0], 10.0, 0.0)
    assert (found.interval.mean, found.interval.n) == (0.5, 2)
    assert found.interval.low == pytest.approx(0.5 - 6.3138 * 0.5, abs=1e-4)
    assert found.reachable == pytest.approx((6.3138 + 3.0777) * 0.5, abs=1e-4)
    # equal errors over equal numbers of trials: Welch's degrees of freedom are those of both samples together
    values = [-1.0, 0.0, 1.0]
    error = 1 / math.sqrt(3)
    half = 2.1318 * math.sqrt(2 / 3)  # t(.95, 4)
    assert gap(values, 0.0, error, 3).interval.high == pytest.approx(half, abs=1e-4)
    # values that all agree and a reference whose number of trials is not known: the normal interval of the reference
    assert gap([1.0, 1.0], 1.0, 2.0).interval.high == pytest.approx(1.6449 * 2, abs=1e-3)
    assert gap([1.0, 1.0], 1.0, 0.0).interval.high == 0.0


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [(-5, 5, "met"), (-5.1, 0, "undecided"), (5, 6, "undecided"), (5.1, 9, "missed"), (-9, -5.1, "missed")],
)
def test_verdicts_at_the_edges_of_the_margin(low: float, high: float, verdict: str) -> None:
    assert Gap(Interval(0.0, low, high, 9, 0.9, "trials"), 1.0).verdict(5.0) == verdict


@pytest.mark.parametrize("trials", [3, 9])
def test_a_wrong_met_or_missed_is_as_rare_as_claimed_and_the_margin_in_reach_is_met(trials: int) -> None:
    """At a true difference of just the margin each wrong verdict has chance .05; with none the reach is met 8 in 10."""
    random = np.random.default_rng(trials)
    verdicts, reached = [], 0
    for _ in range(3000):
        ours = random.normal(60.0, 4.0, trials).tolist()
        theirs = random.normal(60.0, 4.0, trials)
        error = float(theirs.std(ddof=1)) / math.sqrt(trials)
        verdicts.append(gap(ours, float(theirs.mean()) - 30.0, error, trials).verdict(30.0))
        same = gap(ours, float(theirs.mean()), error, trials)
        reached += same.verdict(same.reachable) == "met"
    assert verdicts.count("met") / 3000 <= 0.05 + 0.012
    assert verdicts.count("missed") / 3000 <= 0.05 + 0.012
    assert reached / 3000 == pytest.approx(0.8, abs=0.03)


def test_a_prediction_holds_one_further_value_as_often_as_claimed() -> None:
    random = np.random.default_rng(8)
    inside = 0
    for values in random.standard_normal((4000, 7)).tolist():
        found = prediction(values[:6])
        inside += found.low <= values[6] <= found.high
    assert inside / 4000 == pytest.approx(0.95, abs=0.012)
    assert math.isnan(prediction([1.0]).low)
