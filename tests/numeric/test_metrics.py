"""Golden matrices, hand numbers and noise floors of the metrics."""

import math
import subprocess
import sys
from collections.abc import Callable

import numpy as np
import pytest

from claasbench import metrics
from claasbench.metrics import METRICS, OF_MATRIX, Matrix

NAN = math.nan
COLUMNS = (
    "final",
    "forward",
    "forward_by_row",
    "forward_next",
    "forgetting",
    "forgetting_best",
    "forgetting_pairs",
    "forgetting_clipped",
    "forgetting_rwalk",
    "bwt",
    "average_incremental",
)
GOLDEN: list[tuple[Matrix, tuple[float, ...]]] = [
    (
        [[0.80, 0.30, 0.20], [0.60, 0.75, 0.25], [0.70, 0.78, 0.85]],
        (0.776667, 0.25, 0.25, 0.275, 0.035, 0.035, 0.09, 0.05, 0.035, -0.035, 0.750556),
    ),
    (
        [[-0.20, -0.90, -0.80], [-0.50, -0.10, -0.70], [-0.60, -0.30, -0.05]],
        (-0.316667, -0.8, -0.775, -0.8, 0.30, 0.30, 0.30, 0.30, 0.30, -0.30, -0.272222),
    ),
    (
        [[0.50, 0.30, 0.20], [0.60, 0.55, 0.25], [0.70, 0.65, 0.85]],
        (0.733333, 0.25, 0.25, 0.275, -0.15, -0.10, -0.133333, 0, -0.10, 0.15, 0.602778),
    ),
    (
        [[0.8, 0.3, 0.2], [0.7, 0.9, 0.4], [0.6, 0.8, 0.85]],
        (0.75, 0.3, 0.325, 0.35, 0.15, 0.15, 0.133333, 0.15, 0.15, -0.15, 0.783333),
    ),
    (
        [[0.5, 0.65, 0.2], [0.7, 0.6, 0.4], [0.4, 0.8, 0.85]],
        (0.683333, 0.416667, 0.4125, 0.525, -0.05, 0.05, -0.1, 0.05, 0.075, 0.05, 0.611111),
    ),
]
# The cells (row k, column j) of a K x K matrix that a metric reads.
READS: dict[str, Callable[[int, int, int], bool]] = {
    "final": lambda k, j, size: k == size - 1,
    "forward": lambda k, j, size: j > k,
    "forward_by_row": lambda k, j, size: j > k,
    "forward_next": lambda k, j, size: j == k + 1,
    "forgetting": lambda k, j, size: j < size - 1 and k in (j, size - 1),
    "forgetting_best": lambda k, j, size: j < size - 1 and k >= j,
    "forgetting_pairs": lambda k, j, size: j < size - 1 and k >= j,
    "forgetting_clipped": lambda k, j, size: j < size - 1 and k in (j, size - 1),
    "forgetting_rwalk": lambda k, j, size: j < size - 1,
    "bwt": lambda k, j, size: j < size - 1 and k in (j, size - 1),
    "average_incremental": lambda k, j, size: j <= k,
}


def forgetter(kinds: str) -> list[list[float]]:
    """A learner that knows the kind it trained last (.9) and nothing else (.1)."""
    return [[0.9 if trained == measured else 0.1 for measured in kinds] for trained in kinds]


@pytest.mark.parametrize(("matrix", "expected"), GOLDEN)
@pytest.mark.parametrize("name", COLUMNS)
def test_golden(matrix: Matrix, expected: tuple[float, ...], name: str) -> None:
    assert OF_MATRIX[name](matrix) == pytest.approx(expected[COLUMNS.index(name)], abs=1e-6)


def test_numbers_against_the_untrained_row() -> None:
    matrix, untrained = GOLDEN[3][0], [0.2, 0.25, 0.1]
    assert metrics.fwt(matrix, untrained) == pytest.approx(0.175, abs=1e-6)
    assert metrics.gain(matrix, untrained) == pytest.approx(0.75 - 0.55 / 3, abs=1e-6)
    assert math.isnan(metrics.fwt(matrix, None))
    assert math.isnan(metrics.gain(matrix, None))
    # fwt never reads the untrained score of the first split, gain does
    assert metrics.fwt(matrix, [NAN, 0.25, 0.1]) == pytest.approx(0.175, abs=1e-6)
    assert math.isnan(metrics.gain(matrix, [NAN, 0.25, 0.1]))


def test_two_splits_by_hand() -> None:
    numbers = metrics.summary([[0.9, 0.2], [0.4, 0.8]], [0.1, 0.3], [[1.0, 0.0, 1.0], [0.0]])
    assert numbers == pytest.approx(
        {
            "final": 0.6,
            "forward": 0.2,
            "forward_by_row": 0.2,
            "forward_next": 0.2,
            "forgetting": 0.5,
            "forgetting_best": 0.5,
            "forgetting_pairs": 0.5,
            "forgetting_clipped": 0.5,
            "forgetting_rwalk": 0.5,
            "bwt": -0.5,
            "fwt": -0.1,
            "average_incremental": (0.9 + 0.6) / 2,
            "prequential": 0.5,
            "gain": (0.3 + 0.5) / 2,
        }
    )


def test_prequential_weighs_tasks_not_splits() -> None:
    assert metrics.prequential([[1.0, 1.0, 1.0], [0.0]]) == 0.75
    assert math.isnan(metrics.prequential([[1.0, NAN], [0.0]]))
    assert math.isnan(metrics.prequential([[], []]))
    assert math.isnan(metrics.prequential(None))


def test_a_return_leaves_the_headlines_alone() -> None:
    plain = metrics.summary(forgetter("ABC"), [0.1] * 3)
    returned = metrics.summary(forgetter("ABCA"), [0.1] * 4, returns=True)
    assert returned["final"] == pytest.approx(1.1 / 3)
    assert returned["forward"] == pytest.approx(0.10)
    assert returned["forgetting"] == pytest.approx(0.80)
    assert returned.pop("relearn") == pytest.approx(0.80)
    assert returned == pytest.approx(plain, nan_ok=True)


def test_a_return_ignored_would_move_the_headlines() -> None:
    naive = metrics.summary(forgetter("ABCA"), None)
    assert naive["final"] == pytest.approx(0.5)
    assert naive["forward"] == pytest.approx(1.4 / 6)
    assert naive["forgetting"] == pytest.approx(1.6 / 3)
    assert "relearn" not in naive


def test_prequential_keeps_the_return() -> None:
    live = [[1.0], [1.0], [1.0], [0.0]]
    assert metrics.summary(forgetter("ABCA"), None, live, returns=True)["prequential"] == 0.75


def test_one_split() -> None:
    numbers = metrics.summary([[0.7]], [0.2], [[1.0]])
    measured = {name: number for name, number in numbers.items() if not math.isnan(number)}
    assert measured == {
        "final": 0.7,
        "average_incremental": 0.7,
        "prequential": 1.0,
        "gain": pytest.approx(0.5),
    }


@pytest.mark.parametrize(("matrix", "returns"), [([], False), ([[0.7]], True)])
def test_without_cells_every_number_is_nan(matrix: Matrix, returns: bool) -> None:
    numbers = metrics.summary(matrix, None, returns=returns)
    assert all(map(math.isnan, numbers.values()))


@pytest.mark.parametrize("name", READS)
def test_nan_reaches_exactly_the_numbers_that_read_it(name: str) -> None:
    size = 4
    whole = np.random.default_rng(0).random((size, size)).tolist()
    expected = OF_MATRIX[name](whole)
    for k in range(size):
        for j in range(size):
            holed = [list(row) for row in whole]
            holed[k][j] = NAN
            value = OF_MATRIX[name](holed)
            assert math.isnan(value) if READS[name](k, j, size) else value == expected


def test_nan_is_not_clipped_away() -> None:
    assert math.isnan(metrics.forgetting_clipped([[NAN, 0.5], [0.5, 0.5]]))


@pytest.mark.parametrize(
    ("matrix", "shape"),
    [
        ([[0.1, 0.2], [0.3]], "2 x 1 or 2"),
        ([[0.1, 0.2]], "1 x 2"),
        ([[0.1], [0.2]], "2 x 1"),
    ],
)
@pytest.mark.parametrize("name", COLUMNS)
def test_shape_is_named(matrix: Matrix, shape: str, name: str) -> None:
    with pytest.raises(ValueError, match=f"not {shape}$"):
        OF_MATRIX[name](matrix)
    with pytest.raises(ValueError, match=f"not {shape}$"):
        metrics.normalised(matrix, [0.0] * 2, [1.0] * 2)


def test_untrained_row_must_fit() -> None:
    with pytest.raises(ValueError, match="1 cells, M is 2 x 2"):
        metrics.summary([[0.1, 0.2], [0.3, 0.4]], [0.1])


def test_table_and_summary_name_the_same_numbers() -> None:
    names = [metric.name for metric in METRICS]
    assert list(metrics.summary(forgetter("ABCA"), None, returns=True)) == names
    assert set(names) - set(OF_MATRIX) == {"fwt", "gain", "prequential", "relearn"}
    assert {m.name for m in METRICS if m.headline} == {"final", "forward", "forgetting"}
    assert {m.name for m in METRICS if m.direction == "down"} == {n for n in names if n.startswith("forgetting")}


def test_normalised() -> None:
    matrix = [[0.5, 0.3], [1.0, NAN]]
    scaled = metrics.normalised(matrix, [0.25, 0.3], [0.75, 0.3])
    assert scaled[0] == pytest.approx([0.5, NAN], nan_ok=True)
    assert scaled[1] == pytest.approx([1.5, NAN], nan_ok=True)
    assert metrics.normalised_row([0.0, 1.0], [0.0, 0.5], [0.5, 1.0]) == [0.0, 1.0]
    with pytest.raises(ValueError, match="2 cells"):
        metrics.normalised(matrix, [0.25], [0.75])


# In points: a flat 26 % policy, 20 independent episodes a cell, K = 5.
FLOORS = {"forgetting": 0.0, "forgetting_best": 6.0, "forgetting_clipped": 5.5, "forgetting_rwalk": 10.2}


@pytest.mark.parametrize(("name", "points"), FLOORS.items())
def test_floor_of_a_flat_policy(name: str, points: float) -> None:
    episodes = np.random.default_rng(1).random((4000, 5, 5, 20)) < 0.26
    values = [OF_MATRIX[name](cells) for cells in episodes.mean(axis=3).tolist()]
    assert 100 * np.mean(values) == pytest.approx(points, abs=0.2)


@pytest.mark.parametrize(("name", "points"), FLOORS.items())
def test_noise_floor_finds_it_in_the_runs_own_data(name: str, points: float) -> None:
    episodes = np.random.default_rng(2).random((40, 5, 5, 20)) < 0.26
    floors = [metrics.noise_floor(run.tolist(), name, draws=100) for run in episodes]
    assert 100 * np.mean(floors) == pytest.approx(points, abs=0.3)


def test_noise_floor_keeps_difficulty_and_shared_draws() -> None:
    # every row has the same outcomes, as an unchanged learner has: nothing is left to permute
    column = [1.0, 0.0, 0.0, 1.0]
    outcomes = [[column] * 3] * 3
    assert metrics.noise_floor(outcomes, "forgetting_best") == 0.0


def test_noise_floor_is_repeatable_and_takes_columns_of_unequal_length() -> None:
    random = np.random.default_rng(3)
    outcomes = [[random.random(n).tolist() for n in (3, 8, 5)] for _ in range(3)]
    first = metrics.noise_floor(outcomes, "forgetting_best", seed=1)
    assert first == metrics.noise_floor(outcomes, "forgetting_best", seed=1)
    assert first != metrics.noise_floor(outcomes, "forgetting_best", seed=2)
    outcomes[1][0][2] = NAN
    assert math.isnan(metrics.noise_floor(outcomes, "forgetting_best"))


def test_noise_floor_names_the_choices() -> None:
    with pytest.raises(ValueError, match=r"'fwt'; choose from .*forgetting_best"):
        metrics.noise_floor([[[1.0]]], "fwt")


def test_cross_fitting_has_no_floor() -> None:
    episodes = np.random.default_rng(4).random((1000, 5, 5, 20, 2)) < 0.26
    values = [metrics.cross_fitted_best(run) for run in episodes.astype(float).tolist()]
    assert 100 * np.mean(values) == pytest.approx(0.0, abs=0.6)


def test_cross_fitting_by_hand() -> None:
    # column 0: half one picks row 0 (scored .5 - 0), half two picks row 1 (scored 0 - 1)
    first = [[1.0, 0.5], [0.0, 1.0], [1.0, 0.0]]
    # column 1: only row 1 is a candidate
    second = [[0.0, 0.0], [1.0, 1.0], [0.0, 1.0]]
    outcomes = [[[first[k]], [second[k]], [[0.0, 0.0]]] for k in range(3)]
    assert metrics.cross_fitted_best(outcomes) == pytest.approx((0.5 - 1.0 + 0.0 + 1.0) / 4)


def test_cross_fitting_finds_real_forgetting() -> None:
    learned, lost = [[1.0, 1.0, 1.0]] * 2, [[0.0, 0.0, 0.0]] * 2
    assert metrics.cross_fitted_best([[learned, lost], [lost, learned]]) == 1.0


def test_cross_fitting_edges() -> None:
    assert math.isnan(metrics.cross_fitted_best([[[[1.0, 1.0]]]]))
    hole = [[[[1.0, NAN]], [[1.0, 1.0]]], [[[1.0, 1.0]], [[1.0, 1.0]]]]
    assert math.isnan(metrics.cross_fitted_best(hole))
    with pytest.raises(ValueError, match="two attempts or more in column 0"):
        metrics.cross_fitted_best([[[[1.0]], [[1.0]]], [[[1.0]], [[1.0]]]])


def test_import_is_cheap() -> None:
    code = "import sys, claasbench.metrics, claasbench.stats; print({'numpy', 'scipy'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
