"""PPO: policy gradient with a learned value of each prompt as its baseline.

Paper: arXiv 1707.06347; one value per turn at the last prompt token and generalised advantages over the turns of an
episode (arXiv 1506.02438). Departures: single use and replay as in CLaaS (arXiv 2606.05559), so a truncated weight
corrects for the policy that sampled; the critic is a linear layer on the policy's own hidden state, from which no
gradient reaches the policy; values and advantages are taken once, when the episode ends; KL as in REINFORCE++.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar

from claasbench.learners._gradient import Gradient
from claasbench.learners._replay import NANO, NANO_IH
from claasbench.learners.base import nano, nano_ih
from claasbench.training import credit
from claasbench.training.buffer import Entry
from claasbench.types import Experience, Row

if TYPE_CHECKING:
    from claasbench.training.trainer import Loss


@dataclass
class Ppo(Gradient):
    """Adds a critic, whose explained variance on episodes it has not been trained on is shown."""

    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "paper": {},
        "nano": nano("ppo", **{**NANO, "lr": 1e-4, "kl": 0.1}),
        "nano-ih": nano_ih("ppo", **{**NANO_IH, "lr": 1e-4, "kl": 0.1}),
    }

    head_lr: float = 1e-3
    """Learning rate of the critic."""
    lam: float = 1.0
    """Lambda of the generalised advantage; 1 is the return less the value."""
    value_clip: float = 0.2
    """How far a value may move from the one before the update without being held back."""
    warmup: int = 20
    """Steps at the start in which only the critic learns."""
    expected: list[tuple[float, float]] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        """Refuse weights out of range."""
        super().__post_init__()
        self.above_zero("head_lr", "value_clip")
        self.share("lam")
        self.at_least(0, "warmup")

    def entries(self, experience: Experience, version: int) -> list[Entry]:
        """Return the answers with the critic's value of their prompts and what it makes of their returns."""
        kept = super().entries(experience, version)
        values = self.trainer.values([Row(e.prompt_ids, e.token_ids) for e in kept]) if kept else []
        if experience.credit == "turn":  # each turn is an episode of its own
            advantages = [entry.ret - value for entry, value in zip(kept, values, strict=True)]
        else:
            rets = [*(entry.ret for entry in kept), 0.0]
            earned = [now - later for now, later in pairwise(rets)]
            advantages = credit.gae(earned, values, lam=self.lam)
        self.expected += [(value, entry.ret) for value, entry in zip(values, kept, strict=True)]
        told = zip(kept, values, advantages, strict=True)
        return [replace(entry, value=value, advantage=advantage) for entry, value, advantage in told]

    def rows(self, drawn: Sequence[Entry]) -> list[Row]:
        """Return the answers with advantages for the policy and targets for the critic."""
        rows = super().rows(drawn)
        told = zip(rows, drawn, strict=True)
        return [replace(row, value=entry.value, ret=entry.value + entry.advantage) for row, entry in told]

    def signal(self, entry: Entry) -> float:
        """Return the advantage."""
        return entry.advantage

    def losses(self) -> Sequence[Loss]:
        """Return the value loss, and after the warm-up the clipped policy gradient."""
        from claasbench.training.losses import Value

        policy = super().losses() if self.trainer.version >= self.warmup else []
        return [*policy, Value(self.value_clip)]

    def counts(self) -> dict[str, float]:
        """Add how much of the variance of returns the critic explained before it was trained on them."""
        values, rets = zip(*self.expected, strict=True) if self.expected else ((), ())
        self.expected = []
        return super().counts() | {"explained": credit.explained(values, rets)}
