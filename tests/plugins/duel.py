"""A two-seat scenario: an attacker shouts a number, the learner answers, for `rounds` rounds; each seat is rewarded."""

from collections.abc import Sequence
from dataclasses import dataclass

from claasbench.scenarios.base import Numberer, Scenario
from claasbench.types import Bounds, Measure, Message, Outcome, Play, Prompt, Split, Stream, Task


@dataclass
class Duel(Scenario):
    """Round r rewards the learner with r + 1 and the attacker with -(r + 1)."""

    seats = ("learner", "attacker")
    batch = 2
    rounds: int = 2
    tasks: int = 4

    def stream(self, order: int) -> Stream:
        numberer = Numberer()
        splits = tuple(
            Split(
                f"s{split}",
                f"kind {split}",
                tuple(numberer.task(f"kind {split}", n, {"n": n}) for n in range(self.tasks)),
            )
            for split in range(2)
        )
        return Stream(splits, (Measure("again", tuple((numberer.task(s.kind, 9, {"m": s.name}),) for s in splits)),))

    def play(self, task: Task) -> Play:
        shouted = 0.0
        for number in range(self.rounds):
            view = {"kind": task.kind, "actions": ["hit", "miss"], "oracle": "hit"}
            earned = {"reward": -shouted, "feedback": f"attack {number - 1} answered"} if number else {}
            attack = yield Prompt((Message("user", "attack!"),), news="attack!", view=view, seat="attacker", **earned)
            earned = {"reward": shouted, "feedback": f"round {number - 1}"} if number else {}
            yield Prompt((Message("user", attack.text),), news=attack.text, view=view, **earned)
            shouted = number + 1.0
        return Outcome(1.0, shouted, "over", {"invalid": 1})

    def bounds(self, tasks: Sequence[Task]) -> Bounds:
        return Bounds(0.0, 1.0, 1.0)
