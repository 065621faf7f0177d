"""The control of every method: the same learner, taught with the outcomes of other episodes."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from claasbench.learners.base import Learner
from claasbench.policies.base import Policy
from claasbench.types import Experience, Update

Outcome = list[tuple[float | None, str | None]]


@dataclass
class Placebo(Learner):
    """Hands `inner` each episode with rewards and feedback of the one before it in the stream.

    So rewards keep their distribution and lose their meaning. By credit "episode" the last turn's outcome is swapped,
    by "turn" each turn's (a longer episode repeats the other's last). The first episode gets that of its batch's last.
    """

    inner: Learner
    before: Outcome = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        """Need and see what the inner learner does."""
        self.needs = self.inner.needs  # type: ignore[misc]
        self.sees = f"{self.inner.sees} of other episodes"  # type: ignore[misc]

    def setup(self, seats: Mapping[str, Policy], seed: int) -> None:
        """Set the inner learner up."""
        self.inner.setup(seats, seed)
        self.policy = self.inner.policy

    def observe(self, experiences: Sequence[Experience]) -> Iterator[Update]:
        """Let the inner learner see swapped outcomes."""
        played = [experience for experience in experiences if experience.turns]
        if played and not self.before:
            self.before = outcome(played[-1])
        swapped = []
        for experience in experiences:
            swapped.append(given(experience, self.before) if experience.turns else experience)
            self.before = outcome(experience) if experience.turns else self.before
        yield from self.inner.observe(swapped)

    def end_split(self, name: str) -> Iterator[Update]:
        """Let the inner learner end the split."""
        yield from self.inner.end_split(name)

    def variants(self) -> dict[str, Policy]:
        """Return the inner learner's policies."""
        return self.inner.variants()

    def save(self, folder: Path) -> None:
        """Write the inner state and the outcome to give next."""
        (folder / "inner").mkdir()
        self.inner.save(folder / "inner")
        (folder / "placebo.json").write_text(json.dumps(self.before) + "\n")

    def load(self, folder: Path) -> None:
        """Restore what save wrote."""
        self.inner.load(folder / "inner")
        self.before = [(reward, feedback) for reward, feedback in json.loads((folder / "placebo.json").read_text())]

    def notes(self) -> str:
        """Return the inner notes."""
        return self.inner.notes()


def outcome(experience: Experience) -> Outcome:
    """Return what an episode's turns earned."""
    return [(turn.reward, turn.feedback) for turn in experience.turns]


def given(experience: Experience, other: Outcome) -> Experience:
    """Return an episode with the outcome of another one."""
    turns = list(experience.turns)
    if experience.credit == "episode":
        turns[-1] = replace(turns[-1], reward=other[-1][0], feedback=other[-1][1])
    else:
        told = [other[min(at, len(other) - 1)] for at in range(len(turns))]
        turns = [replace(turn, reward=r, feedback=f) for turn, (r, f) in zip(turns, told, strict=True)]
    return replace(experience, turns=tuple(turns))
