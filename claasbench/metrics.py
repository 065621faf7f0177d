"""Pure functions of the success matrix M: M[k][j] is the success on split j after split k.

NaN marks a cell that was not measured; it turns every number that reads it into NaN. The untrained
row (k = -1) is never part of M and is passed as `init`. A number without any cell to read is NaN.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

T = TypeVar("T")
Matrix = Sequence[Sequence[float]]

METRIC_VERSION = 1


@dataclass(frozen=True, slots=True)
class Metric:
    """How a number is called, defined and read; reports print it under the numbers."""

    name: str
    title: str
    formula: str
    direction: Literal["up", "down"]
    headline: bool = False


METRICS: tuple[Metric, ...] = (
    Metric("final", "Final", "mean_j M[K-1][j]", "up", headline=True),
    Metric("forward", "Forward (F1)", "mean over all pairs j > k >= 0 of M[k][j]", "up",
           headline=True),
    Metric("forward_by_row", "Forward by row (F2)", "mean_{k<K-1} mean_{j>k} M[k][j]", "up"),
    Metric("forward_next", "Forward, next split (F3)", "mean_{k<K-1} M[k][k+1]", "up"),
    Metric("forgetting", "Forgetting (G1)", "mean_{j<K-1} (M[j][j] - M[K-1][j])", "down",
           headline=True),
    Metric("forgetting_best", "Forgetting from the best (G2)",
           "mean_{j<K-1} (max_{j<=k<K-1} M[k][j] - M[K-1][j])", "down"),
    Metric("forgetting_pairs", "Forgetting over pairs (G3)",
           "mean over all pairs k > j of (M[j][j] - M[k][j])", "down"),
    Metric("forgetting_clipped", "Forgetting, clipped (G4)",
           "mean_{j<K-1} max(0, M[j][j] - M[K-1][j])", "down"),
    Metric("forgetting_rwalk", "Forgetting (RWalk)",
           "mean_{j<K-1} (max_{k<K-1} M[k][j] - M[K-1][j])", "down"),
    Metric("bwt", "Backward transfer", "mean_{j<K-1} (M[K-1][j] - M[j][j])", "up"),
    Metric("fwt", "Forward transfer", "mean_{j>=1} (M[j-1][j] - M[-1][j])", "up"),
    Metric("average_incremental", "Average incremental", "mean_k mean_{j<=k} M[k][j]", "up"),
    Metric("prequential", "Prequential", "mean success of the live rollout of every training task",
           "up"),
    Metric("gain", "Gain", "mean_j (M[K-1][j] - M[-1][j])", "up"),
    Metric("relearn", "Relearning", "M[K-1][0] - M[K-2][0], where split K-1 returns to kind 0",
           "up"),
)  # fmt: skip


def final(matrix: Matrix) -> float:
    """Mean of the last row (ACC of Lopez-Paz & Ranzato, GEM, 2017)."""
    size = _size(matrix)
    return _mean(matrix[size - 1][j] for j in range(size))


def forward(matrix: Matrix) -> float:
    """F1: mean success over all pairs of a row and a later, still unseen split."""
    size = _size(matrix)
    return _mean(matrix[k][j] for k in range(size) for j in range(k + 1, size))


def forward_by_row(matrix: Matrix) -> float:
    """F2: mean over rows of the mean success on unseen splits; every row weighs the same."""
    size = _size(matrix)
    return _mean(_mean(matrix[k][j] for j in range(k + 1, size)) for k in range(size - 1))


def forward_next(matrix: Matrix) -> float:
    """F3: mean success on the split that comes next."""
    return _mean(matrix[k][k + 1] for k in range(_size(matrix) - 1))


def forgetting(matrix: Matrix) -> float:
    """G1: mean signed loss since each split was learned (-BWT of GEM)."""
    last = _size(matrix) - 1
    return _mean(matrix[j][j] - matrix[last][j] for j in range(last))


def forgetting_best(matrix: Matrix) -> float:
    """G2: mean loss since the best row from the split's own on; its noise floor is positive."""
    last = _size(matrix) - 1
    return _mean(_max(matrix[k][j] for k in range(j, last)) - matrix[last][j] for j in range(last))


def forgetting_pairs(matrix: Matrix) -> float:
    """G3: mean signed loss over all pairs of a split and a later row."""
    size = _size(matrix)
    return _mean(matrix[j][j] - matrix[k][j] for j in range(size) for k in range(j + 1, size))


def forgetting_clipped(matrix: Matrix) -> float:
    """G4: as G1 with gains counted as 0; its noise floor is positive."""
    last = _size(matrix) - 1
    return _mean(_max((0.0, matrix[j][j] - matrix[last][j])) for j in range(last))


def forgetting_rwalk(matrix: Matrix) -> float:
    """Mean loss since the best of all earlier trained rows (Chaudhry et al., RWalk, 2018)."""
    last = _size(matrix) - 1
    return _mean(_max(matrix[k][j] for k in range(last)) - matrix[last][j] for j in range(last))


def bwt(matrix: Matrix) -> float:
    """Backward transfer (GEM): mean signed change since each split was learned."""
    last = _size(matrix) - 1
    return _mean(matrix[last][j] - matrix[j][j] for j in range(last))


def fwt(matrix: Matrix, init: Sequence[float] | None) -> float:
    """Forward transfer (GEM): mean change over the untrained row just before a split is learned."""
    untrained = _init_row(matrix, init)
    return _mean(matrix[j - 1][j] - untrained[j] for j in range(1, len(untrained)))


def average_incremental(matrix: Matrix) -> float:
    """Mean over rows of the mean success on the splits seen so far."""
    return _mean(_mean(matrix[k][j] for j in range(k + 1)) for k in range(_size(matrix)))


def gain(matrix: Matrix, init: Sequence[float] | None) -> float:
    """Mean change of the last row over the untrained row."""
    untrained = _init_row(matrix, init)
    size = len(untrained)
    return _mean(matrix[size - 1][j] - untrained[j] for j in range(size))


def prequential(live: Sequence[Sequence[float]] | None) -> float:
    """Mean of all live training scores, one list per split; every task weighs the same."""
    return math.nan if live is None else _mean(score for split in live for score in split)


def relearn(matrix: Matrix) -> float:
    """Change on the first split's tasks over a last split that trains the first kind again."""
    size = _size(matrix)
    return matrix[size - 1][0] - matrix[size - 2][0] if size > 1 else math.nan


def before_return(cells: Sequence[Sequence[T]]) -> list[list[T]]:
    """Rows and columns before the last split, for a stream that returns to its first kind."""
    size = _size(cells)
    return [list(row[: size - 1]) for row in cells[: size - 1]]


OF_MATRIX: dict[str, Callable[[Matrix], float]] = {
    function.__name__: function
    for function in (
        final, forward, forward_by_row, forward_next, forgetting, forgetting_best,
        forgetting_pairs, forgetting_clipped, forgetting_rwalk, bwt, average_incremental,
    )
}  # fmt: skip


def summary(
    matrix: Matrix,
    init: Sequence[float] | None,
    live: Sequence[Sequence[float]] | None = None,
    returns: bool = False,
) -> dict[str, float]:
    """Every number of METRICS by name, NaN where its cells are missing; `relearn` only if returns.

    With `returns` the numbers of M stop before the return, so that they equal those of the same
    stream without it; `prequential` always covers every training task.
    """
    _init_row(matrix, init)
    numbers = {"prequential": prequential(live)}
    if returns:
        numbers["relearn"] = relearn(matrix)
        matrix = before_return(matrix)
        init = None if init is None else init[: len(matrix)]
    numbers |= {name: function(matrix) for name, function in OF_MATRIX.items()}
    numbers |= {"fwt": fwt(matrix, init), "gain": gain(matrix, init)}
    return {metric.name: numbers[metric.name] for metric in METRICS if metric.name in numbers}


def normalised(matrix: Matrix, chance: Sequence[float], ceiling: Sequence[float]) -> list[list[float]]:
    """Each column on a scale from chance (0) to ceiling (1); NaN where the two are equal."""
    _size(matrix)
    return [normalised_row(row, chance, ceiling) for row in matrix]


def normalised_row(row: Sequence[float], chance: Sequence[float], ceiling: Sequence[float]) -> list[float]:
    """As `normalised`, for one row such as the untrained one."""
    if not len(row) == len(chance) == len(ceiling):
        raise ValueError(
            f"a row of {len(row)} cells needs as many chances and ceilings, not {len(chance)} and {len(ceiling)}"
        )
    return [
        math.nan if low == high else (cell - low) / (high - low)
        for cell, low, high in zip(row, chance, ceiling, strict=True)
    ]


def noise_floor(outcomes: Sequence[Sequence[Sequence[float]]], name: str, draws: int = 1000, seed: int = 0) -> float:
    """What metric `name` shows where no row differs: outcomes[k][j][task] permuted over the rows.

    Tasks are permuted one by one, which keeps their difficulty and any draws that rows share.
    """
    import numpy as np

    if name not in OF_MATRIX:
        raise ValueError(f"no noise floor for {name!r}; choose from {', '.join(OF_MATRIX)}")
    size = _size(outcomes)
    random = np.random.default_rng(seed)
    cells = np.empty((draws, size, size))
    for j in range(size):
        column = np.array([row[j] for row in outcomes], dtype=float)
        copies = np.broadcast_to(column, (draws, *column.shape))
        cells[:, :, j] = random.permuted(copies, axis=1).mean(axis=2)
    return _mean(OF_MATRIX[name](draw) for draw in cells.tolist())


def cross_fitted_best(outcomes: Sequence[Sequence[Sequence[Sequence[float]]]]) -> float:
    """G2 without a noise floor, from outcomes[k][j][task][attempt] with two or more attempts.

    The best row is chosen on one half of the attempts; it and the last row are scored on the
    other half; both directions are averaged.
    """
    import numpy as np

    last = _size(outcomes) - 1
    losses = []
    for j in range(last):
        column = np.array([row[j] for row in outcomes[j:]], dtype=float)
        attempts = column.shape[-1] if column.ndim == 3 else 0
        if attempts < 2:
            raise ValueError(f"cross-fitting needs two attempts or more in column {j}")
        missing = bool(np.isnan(column).any())
        one = column[..., : attempts // 2].mean(axis=(1, 2))
        other = column[..., attempts // 2 :].mean(axis=(1, 2))
        for choose, score in ((one, other), (other, one)):
            # argmax would pick a NaN row whose other half may be a number
            losses.append(math.nan if missing else float(score[choose[:-1].argmax()] - score[-1]))
    return _mean(losses)


def _size(cells: Sequence[Sequence[object]]) -> int:
    """K of a K x K matrix."""
    widths = {len(row) for row in cells}
    if not widths <= {len(cells)}:
        shape = " or ".join(map(str, sorted(widths)))
        raise ValueError(f"M must be square, not {len(cells)} x {shape}")
    return len(cells)


def _init_row(matrix: Matrix, init: Sequence[float] | None) -> Sequence[float]:
    """The untrained row, all NaN where it was not measured."""
    size = _size(matrix)
    if init is None:
        return [math.nan] * size
    if len(init) != size:
        raise ValueError(f"the untrained row has {len(init)} cells, M is {size} x {size}")
    return init


def _mean(values: Iterable[float]) -> float:
    """Mean, NaN if there is none; fsum rounds once, so laws between metrics hold exactly."""
    numbers = list(values)
    return math.fsum(numbers) / len(numbers) if numbers else math.nan


def _max(values: Iterable[float]) -> float:
    """Maximum that keeps NaN, which the built-in loses depending on the order."""
    numbers = list(values)
    return math.nan if any(map(math.isnan, numbers)) else max(numbers)
