"""Credit: returns and advantages as plain numbers, from what an episode earned to what each action token is told."""

from __future__ import annotations

import math
from collections.abc import Sequence

from claasbench.errors import ClaasbenchError
from claasbench.types import Experience

FLOOR = 0.1
"""The smallest standard deviation that advantages are divided by: near-equal returns must not become noise."""


def returns(experience: Experience) -> list[float]:
    """Return one return per turn: its own reward ("turn"), or all that was earned from it to the end ("episode").

    A turn without a reward earned nothing; a reward that is no finite number is a ClaasbenchError. Undiscounted: the
    episodes have a fixed horizon.
    """
    rewards = [turn.reward or 0.0 for turn in experience.turns]
    if not all(map(math.isfinite, rewards)):
        raise ClaasbenchError(f"task {experience.task} was rewarded with {rewards}: a reward must be a finite number")
    if experience.credit == "turn":
        return rewards
    return [sum(rewards[at:]) for at in range(len(rewards))]


def to_go(rewards: Sequence[float], mask: Sequence[bool] | None = None) -> list[float]:
    """Return the sum of rewards from each action token on; tokens of the environment (mask False) are passed over.

    Their own entry is 0. (Resetting the sum there credits the last turn alone: verl issue 7278.)
    """
    total = 0.0
    found = []
    for at in range(len(rewards) - 1, -1, -1):
        acted = mask is None or mask[at]
        total += rewards[at] if acted else 0.0
        found.append(total if acted else 0.0)
    return found[::-1]


def gae(
    rewards: Sequence[float],
    values: Sequence[float],
    gamma: float = 1.0,
    lam: float = 1.0,
    mask: Sequence[bool] | None = None,
) -> list[float]:
    """Return generalised advantages (arXiv 1506.02438) over steps: turns, or tokens with the environment's passed over.

    d = r + gamma V' - V; A = d + gamma lambda A', where ' is the next *action* step and what follows the last is 0.
    """
    after, running = 0.0, 0.0
    found = []
    for at in range(len(rewards) - 1, -1, -1):
        if mask is not None and not mask[at]:
            found.append(0.0)
            continue
        running = rewards[at] + gamma * after - values[at] + gamma * lam * running
        after = values[at]
        found.append(running)
    return found[::-1]


def normalised(values: Sequence[Sequence[float]], floor: float = FLOOR) -> list[list[float]]:
    """Return (x - mean) / max(std, floor), with mean and population std over all action tokens of the whole batch.

    `values` has one list per row; equal values give zeros. REINFORCE++ (arXiv 2501.03262), token-weighted as there.
    """
    flat = [value for row in values for value in row]
    if not flat or min(flat) == max(flat):
        return [[0.0 for _ in row] for row in values]
    mean = sum(flat) / len(flat)
    spread = (sum((value - mean) ** 2 for value in flat) / len(flat)) ** 0.5
    return [[(value - mean) / max(spread, floor) for value in row] for row in values]


def effective(mean: float, mean_square: float) -> float:
    """Return the effective sample size (sum w)^2 / sum w^2 of importance weights as a share of their number."""
    return mean * mean / mean_square if mean_square else 1.0


def explained(values: Sequence[float], targets: Sequence[float]) -> float:
    """Return the explained variance 1 - Var(target - value) / Var(target); 0 where all targets are equal."""
    errors = [target - value for value, target in zip(values, targets, strict=True)]
    whole = _variance(targets)
    return 1 - _variance(errors) / whole if whole else 0.0


def _variance(values: Sequence[float]) -> float:
    mean = sum(values) / max(1, len(values))
    return sum((value - mean) ** 2 for value in values) / max(1, len(values))
