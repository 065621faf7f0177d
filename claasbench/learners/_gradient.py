"""What the policy-gradient learners share: batch-normalised advantages, a KL in the reward, one clipped loss."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from claasbench.learners._replay import Replaying
from claasbench.training import credit
from claasbench.training.buffer import Entry
from claasbench.types import Experience, Row

if TYPE_CHECKING:
    from claasbench.training.trainer import Loss


@dataclass
class Gradient(Replaying):
    """Policy gradient on all answers; what an answer earned is its `signal`."""

    kl: float = 0.01
    """Weight of the log-ratio to the base model in the reward of every token; 0: the base is not asked."""
    cap: float = 2.0
    """Largest importance weight of a token."""
    passes: int = 1
    """Steps on each drawn batch; the clip acts from the second on."""
    ratio_clip: float = 0.2
    """How far a ratio may move from 1 before it gives no more gradient."""
    dual_clip: float = 3.0
    """The loss of a token with a negative advantage is at most this times the advantage; 0: no limit."""

    def __post_init__(self) -> None:
        """Refuse weights out of range."""
        super().__post_init__()
        self.at_least(0, "kl", "dual_clip")
        self.at_least(1, "passes")
        self.above_zero("cap", "ratio_clip")

    def entries(self, experience: Experience, version: int) -> list[Entry]:
        """Return the answers with their log-probs under the base model, which are the same at every draw."""
        kept = super().entries(experience, version)
        if not self.kl or not kept:
            return kept
        rows = [Row(entry.prompt_ids, entry.token_ids, temperature=entry.temperature) for entry in kept]
        bases = self.trainer.score(rows, "base")
        return [replace(entry, base_logprobs=tuple(base)) for entry, base in zip(kept, bases, strict=True)]

    def rows(self, drawn: Sequence[Entry]) -> list[Row]:
        """Return the answers with the advantage of each of their tokens."""
        rows = [Row(e.prompt_ids, e.token_ids, old_logprobs=e.logprobs, temperature=e.temperature) for e in drawn]
        told = credit.normalised([credit.to_go(self.rewards(entry)) for entry in drawn])
        return [replace(row, advantage=tuple(advantage)) for row, advantage in zip(rows, told, strict=True)]

    def rewards(self, entry: Entry) -> list[float]:
        """Return the reward of every token: what the answer earned at the last one, less the KL to the base."""
        found = [0.0] * (len(entry.token_ids) - 1) + [self.signal(entry)]
        if not self.kl:
            return found
        told = zip(found, entry.logprobs, entry.base_logprobs, strict=True)
        return [reward - self.kl * (own - base) for reward, own, base in told]

    def about(self, drawn: Sequence[Entry]) -> dict[str, float]:
        """Add how far the policies that sampled were from the base model: KL in nats per token, by k3."""
        from claasbench.training.losses import mean_k3

        if not self.kl:
            return super().about(drawn)
        own = [value for entry in drawn for value in entry.logprobs]
        base = [value for entry in drawn for value in entry.base_logprobs]
        return super().about(drawn) | {"kl_base": mean_k3(own, base)}

    def signal(self, entry: Entry) -> float:
        """Return what an answer earned."""
        return entry.ret

    def losses(self) -> Sequence[Loss]:
        """Return the clipped policy gradient."""
        from claasbench.training.losses import PolicyGradient

        return [PolicyGradient(self.ratio_clip, self.dual_clip, self.cap)]

    def take(self, rows: Sequence[Row]) -> dict[str, float]:
        """Pass over the drawn answers once or more; ratios are to the policy before the first pass."""
        starts = self.trainer.score(rows) if self.passes > 1 else None
        for _ in range(self.passes):
            found = self.trainer.step(rows, self.losses(), starts)
        return found
