"""What the learners that replay share: a buffer, and the updates owed after each episode (CLaaS, Algorithm 1).

A method says which turns it keeps (`entries`), what each drawn answer is told (`rows`) and what a step minimises
(`losses`).
"""

from __future__ import annotations

import json
import math
from abc import abstractmethod
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from claasbench.errors import invalid
from claasbench.learners import _trained
from claasbench.learners._trained import Trained
from claasbench.policies.base import Policy
from claasbench.training.buffer import Buffer, Entry
from claasbench.training.credit import effective, returns
from claasbench.types import Experience, Row, Sampling, Update

if TYPE_CHECKING:
    from claasbench.training.trainer import Loss

NANO: Mapping[str, Any] = {**_trained.NANO, "b_min": 16, "a_max": 100}
"""A batch of 16 games owes 32 updates, so that with a small A_max most of its answers would leave unused."""

NANO_IH: Mapping[str, Any] = {**NANO, "batch": 8, "updates_per_episode": 1}


MEANS = ("age", "ess", "capped", "clipped", "kl_base", "entropy")
"""What a step logs that is shown as a mean over all steps that log it."""


@dataclass
class Replaying(Trained):
    """Keeps answers in a buffer and owes `updates_per_episode` steps after every episode."""

    batch: int = 16
    """Answers drawn for one update; fewer where the buffer holds fewer."""
    b_min: int = 32
    """Answers in the buffer before updates begin; what is owed before is dropped."""
    b_max: int = 512
    """Most answers in the buffer; the oldest leave first."""
    a_max: int = 25
    """Answers older than this many steps leave."""
    updates_per_episode: int = 2
    """Updates owed after each episode."""
    match_updates: float = 0.0
    """Most updates per episode on average, beyond which owed ones are dropped; equal numbers make ages comparable."""

    sees: ClassVar[str] = "reward"
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {"paper": {}, "nano": NANO}
    tally: Counter[str] = field(default_factory=Counter, init=False)
    """Updates owed and dropped so far, and whatever else a method counts."""
    sums: dict[str, list[float]] = field(default_factory=dict, init=False)
    """Sum and number of the values that are shown as a mean over all steps."""

    def __post_init__(self) -> None:
        """Refuse settings out of range."""
        super().__post_init__()
        self.at_least(1, "batch", "b_min", "b_max", "updates_per_episode")
        self.at_least(0, "a_max", "match_updates")
        if self.b_max < self.b_min:
            raise invalid("learner.b_max", self.b_max, f"at least learner.b_min = {self.b_min}")

    def check(self, sampling: Sampling) -> None:
        """Refuse training games whose log-probs are not those of the whole, tempered distribution."""
        for name, wrong, allowed in (
            ("temperature", sampling.temperature == 0, "above 0"),
            ("top_p", sampling.top_p < 1, "1"),
            ("top_k", sampling.top_k > 0, "0"),
        ):
            if wrong:
                value = getattr(sampling, name)
                raise invalid(f"sampling.train.{name}", value, f"{allowed}, as this learner needs ratios of log-probs")

    def setup(self, seats: Mapping[str, Policy], seed: int) -> None:
        """Open a trainer and an empty buffer."""
        super().setup(seats, seed)
        self.buffer = Buffer(self.b_max, self.b_min, self.a_max)

    @abstractmethod
    def losses(self) -> Sequence[Loss]:
        """Return what a step minimises."""

    @abstractmethod
    def rows(self, drawn: Sequence[Entry]) -> list[Row]:
        """Return what the drawn answers are told."""

    def entries(self, experience: Experience, version: int) -> list[Entry]:
        """Return the answers of a finished episode that are kept: all that have an id."""
        return [
            Entry(
                prompt_ids=turn.sample.prompt_ids or (),
                token_ids=turn.sample.token_ids,
                logprobs=turn.sample.logprobs or (),
                temperature=turn.sample.sampling.temperature,
                version=version,
                ret=ret,
            )
            for turn, ret in zip(experience.turns, returns(experience), strict=True)
            if turn.sample.token_ids
        ]

    def observe(self, experiences: Sequence[Experience]) -> Iterator[Update]:
        """Insert each episode and take the steps it owes; then the policy answers with the new weights."""
        version = self.trainer.version  # all of them were played before any of these steps
        for experience in experiences:
            self.buffer.insert(self.entries(experience, version))
            self.tally["episodes"] += 1
            for _ in range(self.updates_per_episode):
                self.tally["owed"] += 1
                if self.buffer.ready and self._in_time():
                    self.tally["done"] += 1
                    yield Update("step", self._step())
                else:
                    self.tally["dropped"] += 1
        self.trainer.publish()
        yield Update("replay", self.counts())

    def _in_time(self) -> bool:
        return not self.match_updates or self.tally["done"] < self.match_updates * self.tally["episodes"]

    def _step(self) -> dict[str, float]:
        drawn = self.buffer.draw(self.batch, self.seed, self.tally["owed"])
        about = self.about(drawn)
        rows = self.rows(drawn)
        found = self.take(rows)
        self.stepped()
        self.buffer.evict(self.trainer.version)
        if "weight_squared" in found:
            found["ess"] = effective(found["weight"], found.pop("weight_squared"))
        found |= about
        for name in MEANS:
            if math.isfinite(value := found.get(name, math.nan)):
                total, count = self.sums.get(name, (0.0, 0))
                self.sums[name] = [total + value, count + 1]
        return found

    def about(self, drawn: Sequence[Entry]) -> dict[str, float]:
        """Return what to log of the answers of a step, before it is taken."""
        ages = [self.trainer.version - entry.version for entry in drawn]
        return {
            "age": sum(ages) / len(ages),
            "oldest": max(ages),
            "rows": len(drawn),
            "ret": sum(entry.ret for entry in drawn) / len(drawn),
            "reply_tokens": sum(len(entry.token_ids) for entry in drawn) / len(drawn),
        }

    def take(self, rows: Sequence[Row]) -> dict[str, float]:
        """Take a step on the drawn answers and return what to log."""
        return self.trainer.step(rows, self.losses())

    def stepped(self) -> None:
        """Follow a step, as a teacher does."""

    def counts(self) -> dict[str, float]:
        """Return what is shown of the replay after each batch of episodes: counts, and means over all steps."""
        uses = self.buffer.uses
        means = {name: total / count for name, (total, count) in sorted(self.sums.items())}
        return {
            **{name: self.tally[name] for name in ("owed", "done", "dropped", *sorted(self.tally))},
            "held": len(self.buffer),
            "uses": sum(uses) / max(1, len(uses)),
            "evicted_full": self.buffer.evicted["full"],
            "evicted_old": self.buffer.evicted["old"],
            **means,
        }

    def save(self, folder: Path) -> None:
        """Write weights, optimizer, buffer and counts."""
        super().save(folder)
        self.buffer.save(folder / "buffer.jsonl")
        (folder / "tally.json").write_text(json.dumps([self.tally, self.sums], sort_keys=True) + "\n")

    def load(self, folder: Path) -> None:
        """Restore what save wrote."""
        super().load(folder)
        self.buffer.load(folder / "buffer.jsonl")
        tally, self.sums = json.loads((folder / "tally.json").read_text())
        self.tally = Counter(tally)
