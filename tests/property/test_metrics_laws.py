"""Laws that hold for the metrics of every matrix."""

import copy
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from claasbench import metrics
from claasbench.metrics import OF_MATRIX

FORGETTING = [name for name in OF_MATRIX if name.startswith("forgetting")]
CELL = st.floats(-1, 1)
Cells = list[list[float]]


def square(low: int = 2, cell: st.SearchStrategy[float] = CELL) -> st.SearchStrategy[Cells]:
    def of(size: int) -> st.SearchStrategy[Cells]:
        return st.lists(st.lists(cell, min_size=size, max_size=size), min_size=size, max_size=size)

    return st.integers(low, 6).flatmap(of)


@given(st.integers(2, 8), CELL)
def test_a_constant_matrix_forgets_exactly_nothing(size: int, cell: float) -> None:
    matrix = [[cell] * size for _ in range(size)]
    assert [OF_MATRIX[name](matrix) for name in (*FORGETTING, "bwt")] == [0.0] * 6


@given(st.lists(CELL, min_size=2, max_size=6))
def test_an_unchanged_learner_forgets_exactly_nothing(row: list[float]) -> None:
    matrix = [row for _ in row]
    assert [OF_MATRIX[name](matrix) for name in (*FORGETTING, "bwt")] == [0.0] * 6
    outcomes = [[[[cell, -cell, 0.5]] for cell in row] for _ in row]
    assert metrics.cross_fitted_best(outcomes) == 0.0


@given(square())
def test_order_of_the_definitions(matrix: Cells) -> None:
    signed, best = metrics.forgetting(matrix), metrics.forgetting_best(matrix)
    assert best >= signed
    assert metrics.forgetting_rwalk(matrix) >= best
    assert metrics.forgetting_clipped(matrix) >= max(0.0, signed)
    assert metrics.bwt(matrix) == -signed


@given(square(), st.data())
def test_forgetting_never_reads_the_untrained_row(matrix: Cells, data: st.DataObject) -> None:
    row = st.lists(st.floats(-1, 1) | st.just(math.nan), min_size=len(matrix), max_size=len(matrix))
    one, other = (metrics.summary(matrix, data.draw(row)) for _ in range(2))
    without = metrics.summary(matrix, None)
    for name in FORGETTING:
        assert one[name] == other[name] == without[name]


@given(square(1), CELL, st.booleans())
def test_no_argument_changes(matrix: Cells, cell: float, returns: bool) -> None:
    init, live = [cell] * len(matrix), [[cell, 1.0] for _ in matrix]
    chance, ceiling = [0.0] * len(matrix), [cell] * len(matrix)
    outcomes = [[[cell, value] for value in row] for row in matrix]
    attempts = [[[[cell, value]] for value in row] for row in matrix]
    arguments = (matrix, init, live, chance, ceiling, outcomes, attempts)
    before = copy.deepcopy(arguments)
    metrics.summary(matrix, init, live, returns)
    metrics.normalised(matrix, chance, ceiling)
    metrics.noise_floor(outcomes, "forgetting_rwalk", draws=2)
    metrics.cross_fitted_best(attempts)
    metrics.before_return(matrix).append([])
    assert arguments == before


@pytest.mark.parametrize("name", [name for name in OF_MATRIX if name not in ("final", "average_incremental")])
@given(cell=CELL)
def test_one_split_is_nan(name: str, cell: float) -> None:
    assert math.isnan(OF_MATRIX[name]([[cell]]))


@given(square(3))
def test_a_return_never_reaches_the_numbers_of_m(matrix: Cells) -> None:
    inner = metrics.summary(metrics.before_return(matrix), None)
    returned = metrics.summary(matrix, None, returns=True)
    assert returned["relearn"] == matrix[-1][0] - matrix[-2][0]
    assert {name: returned[name] for name in OF_MATRIX} == {name: inner[name] for name in OF_MATRIX}


@given(square(), st.floats(0, 0.4), st.floats(0.6, 1))
def test_normalising_keeps_the_sign_of_forgetting(matrix: Cells, chance: float, ceiling: float) -> None:
    size = len(matrix)
    scaled = metrics.normalised(matrix, [chance] * size, [ceiling] * size)
    expected = metrics.forgetting(matrix) / (ceiling - chance)
    assert metrics.forgetting(scaled) == pytest.approx(expected, abs=1e-9)
