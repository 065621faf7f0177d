"""What a scenario is: a stream of tasks and one generator per episode."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from claasbench.errors import ClaasbenchError
from claasbench.types import LEARNER, Bounds, Credit, Json, Play, Sampling, Stream, Task, content_hash


class Scenario(ABC):
    """A plug-in class is a dataclass whose fields are the settings of the `[scenario]` table."""

    credit: ClassVar[Credit] = "episode"
    """How a turn is credited: "episode" (the return runs to the end) or "turn" (its own reward)."""

    seats: ClassVar[tuple[str, ...]] = (LEARNER,)
    """Who answers in an episode; a seat without a `[seats.NAME]` table is taken by the base policy."""

    attacker: ClassVar[str] = ""
    """Default of `attacker.name`; empty where no attacker plug-in sits in a seat."""

    nano: ClassVar[str] = ""
    """The bundled toy model that `--model nano` stands for; empty where none was trained on this scenario's text."""

    batch: ClassVar[int] = 16
    """Default of `stream.batch`: training tasks played between two looks of the learner."""

    @abstractmethod
    def stream(self, order: int) -> Stream:
        """Return the stream; `order` permutes what may be permuted, never which tasks there are or their ids."""

    @abstractmethod
    def play(self, task: Task) -> Play:
        """Return one episode as a generator: `sample = yield Prompt(...)`, and an Outcome at the end."""

    @abstractmethod
    def bounds(self, tasks: Sequence[Task]) -> Bounds:
        """Return chance and ceilings of the mean score on `tasks`; NaN where they are not known."""

    def warmup(self) -> Sequence[Task]:
        """Return tasks of no stream that the measured attacker is warmed on; none where nobody attacks."""
        return ()

    def allow_graders(self, allowed: bool) -> None:
        """Take whether code out of a data file may judge; refused where it must or there is none."""
        if allowed:
            raise ClaasbenchError(f"--allow-graders: the scenario {type(self).__name__} runs no code out of data files")

    def length(self, task: Task) -> int | None:
        """Return the most prompts that an episode of `task` puts to the learner; None where nobody knows."""
        return None

    def sampling(self) -> Sampling:
        """Return the defaults of the sampling tables."""
        return Sampling()

    def facts(self) -> Json:
        """Return what a report should say about this stream (versions, seen shares, caveats); JSON-able."""
        return {}


@dataclass
class Numberer:
    """Makes tasks and numbers them: train tasks first, then measures, over the stream before any permutation."""

    seen: Counter[str] = field(default_factory=Counter)

    def task(self, kind: str, seed: int, data: Json, aside: Json | None = None) -> Task:
        """Return the task with its content hash and its id (16 hex digits of content, then the occurrence).

        `aside` joins `data` after the hash is taken: it says how the same content is asked or where it came from.
        """
        content = content_hash(data)
        self.seen[content] += 1
        return Task(f"{content[:16]}-{self.seen[content]}", content, kind, seed, {**data, **(aside or {})})
