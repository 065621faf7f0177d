"""SDPO: the policy with hindsight teaches the policy without.

Paper: CLaaS (arXiv 2606.05559) for one answer per task, after lasgroup/SDPO (arXiv 2601.20802): a generalised
Jensen-Shannon divergence over the student's likeliest ids and one bucket for the rest, to a teacher that is a moving
average of the student and reads how the episode went on. Departures: hindsight is our own text; the teacher's prompt is
cut nowhere (an answer whose prompt with hindsight does not fit is left out and counted); global token mean.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from claasbench import prompts
from claasbench.errors import ClaasbenchError
from claasbench.learners._memory import spelled
from claasbench.learners._replay import NANO, NANO_IH, Replaying
from claasbench.learners.base import nano, nano_ih
from claasbench.policies.base import Policy
from claasbench.training.buffer import Entry
from claasbench.types import Experience, Row, spoken, with_context

if TYPE_CHECKING:
    from claasbench.training.trainer import Loss


@dataclass
class Sdpo(Replaying):
    """Distils what hindsight would have changed into the weights."""

    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "paper": {},
        "nano": nano("sdpo", **{**NANO, "lr": 3e-5, "divergence": 1.0}),
        "nano-ih": nano_ih("sdpo", **{**NANO_IH, "lr": 1e-4, "divergence": 1.0}),
    }
    sees: ClassVar[str] = "reward, feedback, text"

    a_max: int = 50
    """Answers older than this many steps leave."""
    divergence: float = 0.5
    """0: KL(teacher to student), 1: KL(student to teacher), between them the generalised Jensen-Shannon divergence."""
    top_k: int = 100
    """The student's likeliest ids that are compared; all others are one bucket."""
    ema: float = 0.01
    """How far the teacher moves to the student at each step; 0: it stays what it was at the start."""
    cap: float = 2.0
    """Largest importance weight of a token."""
    feedback: Literal["reason", "verdict"] = "reason"
    """Whether hindsight tells the scenario's feedback beside the reward and what was said afterwards."""
    feedback_on: Literal["all", "failures"] = "all"
    """Which answers get hindsight: all, or those that earned nothing."""

    def __post_init__(self) -> None:
        """Refuse weights out of range."""
        super().__post_init__()
        self.share("divergence", "ema")
        self.at_least(1, "top_k")
        self.above_zero("cap")
        if self.feedback == "verdict":
            self.sees = "reward, text"  # type: ignore[misc]

    def setup(self, seats: Mapping[str, Policy], seed: int) -> None:
        """Open a trainer with a teacher, at first the policy itself."""
        super().setup(seats, seed)
        self.trainer.weights.copy()

    def entries(self, experience: Experience, version: int) -> list[Entry]:
        """Return the answers with the prompts their teacher reads; without feedback or room they are left out."""
        turns = [(at, turn) for at, turn in enumerate(experience.turns) if turn.sample.token_ids]
        kept = []
        for entry, (at, turn) in zip(super().entries(experience, version), turns, strict=True):
            text = hindsight(experience, at, self.feedback == "reason")
            if not text or (self.feedback_on == "failures" and entry.ret > 0):
                continue
            if turn.prompt.slot is None:
                raise ClaasbenchError("learner.name = 'sdpo' needs prompts with a slot; this scenario's have none")
            context = self.policy.render(with_context(turn.prompt, text).messages)
            if len(context) + len(entry.token_ids) <= self.trainer.limit:
                kept.append(replace(entry, context_ids=context))
            else:
                self.tally["left_out"] += 1
        return kept

    def rows(self, drawn: Sequence[Entry]) -> list[Row]:
        """Return the answers with their teacher's prompts."""
        return [
            Row(e.prompt_ids, e.token_ids, e.context_ids, old_logprobs=e.logprobs, temperature=e.temperature)
            for e in drawn
        ]

    def losses(self) -> Sequence[Loss]:
        """Return the divergence to the teacher."""
        from claasbench.training.losses import Distillation

        return [Distillation(self.divergence, self.top_k, "tail", self.cap)]

    def stepped(self) -> None:
        """Let the teacher follow."""
        self.trainer.weights.follow(self.ema)


def hindsight(experience: Experience, at: int, reason: bool = True) -> str:
    """Return what became of answer `at`: the rest of the episode, or its own verdict; nothing where none was given.

    Without `reason` the scenario's feedback is left out.
    """
    rest = experience.turns[at:] if experience.credit == "episode" else experience.turns[at : at + 1]
    last = rest[-1]
    feedback = last.feedback if reason else None
    if last.reward is None and not feedback:
        return ""
    return prompts.fill(
        "hindsight",
        reply=spoken(rest[0].sample.text),
        steps=spelled(rest[1:]),
        reward=f"{last.reward or 0:g}",
        feedback=(feedback or "none").strip(),
    )
