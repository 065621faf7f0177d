"""A learner with a known skill per kind: its matrices are exact numbers that the whole path must reproduce.

Departures: this is no method of the literature. It makes the rest of the tool checkable.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from claasbench import draws
from claasbench.learners.base import Learner
from claasbench.policies.base import Policy, Wrapper
from claasbench.types import LEARNER, Experience, Request, Sample, Update


@dataclass
class _Skilled(Wrapper):
    """Plays whole episodes with `inner` where the task's draw is below the skill of its kind, else says nothing."""

    inner: Policy
    learner: Scripted

    def sample(self, requests: Sequence[Request]) -> list[Sample]:
        able = [request for request in requests if self._able(request)]
        answers = iter(self.inner.sample(able))
        silent = Sample("", served=self.served)
        return [next(answers) if self._able(request) else silent for request in requests]

    def _able(self, request: Request) -> bool:
        view = request.prompt.view or {}
        draw = draws.uniform("skill", self.learner.trial_seed, request.key.task, request.key.attempt)
        return draw < self.learner.skill_of(str(view.get("kind", "")))


@dataclass
class Scripted(Learner):
    """Skill in a kind rises by `step` per experience of it (up to `cap`) and falls by `loss` per one of another."""

    start: float = 0.1
    """Skill in every kind before training, and the floor."""
    step: float = 0.025
    """What one experience adds to its own kind."""
    cap: float = 0.9
    """The highest skill."""
    loss: float = 0.0
    """What one experience takes from every other kind."""
    trial_seed: int = field(default=0, init=False)
    skills: dict[str, float] = field(default_factory=dict, init=False)

    def setup(self, seats: Mapping[str, Policy], seed: int) -> None:
        """Wrap the learner's seat, which should be an oracle."""
        self.trial_seed = seed
        self.policy = _Skilled(seats[LEARNER], self)

    def skill_of(self, kind: str) -> float:
        """Return the share of the tasks of `kind` that are played."""
        return self.skills.get(kind, self.start)

    def observe(self, experiences: Sequence[Experience]) -> Iterator[Update]:
        """Move the skills."""
        for experience in experiences:
            own = experience.kind
            faded = {kind: max(self.start, skill - self.loss) for kind, skill in self.skills.items() if kind != own}
            self.skills = faded | {own: min(self.cap, self.skill_of(own) + self.step)}
        yield Update("skill", dict(sorted(self.skills.items())))

    def save(self, folder: Path) -> None:
        """Write the skills."""
        (folder / "skills.json").write_text(json.dumps(self.skills, sort_keys=True) + "\n")

    def load(self, folder: Path) -> None:
        """Read the skills."""
        self.skills = json.loads((folder / "skills.json").read_text())
