"""Imitation of own successes: cross-entropy on the answers of episodes that earned something.

Known as rejection-sampling fine-tuning or filtered behaviour cloning; a baseline, as it only needs the reward's sign.
Departures: one episode per task, so no best of n; the same replay and number of updates as the other methods.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from claasbench.learners._replay import Replaying
from claasbench.learners._trained import NANO
from claasbench.learners.base import nano, nano_ih
from claasbench.training.buffer import Entry
from claasbench.types import Experience, Row, Sampling

if TYPE_CHECKING:
    from claasbench.training.trainer import Loss


@dataclass
class Sft(Replaying):
    """Keeps answers with a positive return; any age will do, as nothing is weighed against the policy that sampled."""

    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "paper": {},
        "nano": nano("sft", **NANO),
        "nano-ih": nano_ih("sft", **{**NANO, "lr": 1e-4, "batch": 8}),
    }

    b_min: int = 8
    """Answers in the buffer before updates begin; what is owed before is dropped."""
    a_max: int = 1_000_000
    """Answers older than this many steps leave."""

    def check(self, sampling: Sampling) -> None:
        """Imitate whatever was sampled."""

    def entries(self, experience: Experience, version: int) -> list[Entry]:
        """Return the answers that led to a reward."""
        return [entry for entry in super().entries(experience, version) if entry.ret > 0]

    def rows(self, drawn: Sequence[Entry]) -> list[Row]:
        """Return the answers as they are, at temperature 1."""
        return [Row(entry.prompt_ids, entry.token_ids) for entry in drawn]

    def losses(self) -> Sequence[Loss]:
        """Return cross-entropy."""
        from claasbench.training.losses import CrossEntropy

        return [CrossEntropy()]
