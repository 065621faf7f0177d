"""What a learner is: it observes experiences, ends splits, and offers a policy that carries what it learned."""

from __future__ import annotations

from abc import ABC
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import ClassVar

from claasbench.policies.base import Policy
from claasbench.types import LEARNER, Experience, Update


class Learner(ABC):
    """A plug-in class is a dataclass whose fields are the settings of the `[learner]` table."""

    needs: ClassVar[frozenset[str]] = frozenset()
    """What the policy must offer."""

    policy: Policy
    """What plays the learner's seat in training; set by setup."""

    def setup(self, seats: Mapping[str, Policy], seed: int) -> None:
        """Take the policies of all seats and the trial's seed; called once, before load."""
        self.policy = seats[LEARNER]

    def observe(self, experiences: Sequence[Experience]) -> Iterator[Update]:
        """Learn from one batch of training episodes, in stream order.

        An experience may have no turns: its first prompt did not fit. Whoever overrides this or end_split must also
        define save and load.
        """
        yield from ()

    def end_split(self, name: str) -> Iterator[Update]:
        """Learn at the end of a split; after load it continues with the first step that was not saved."""
        yield from ()

    def variants(self) -> dict[str, Policy]:
        """Return the policies to measure at a checkpoint, headline first."""
        return {LEARNER: self.policy}

    def save(self, folder: Path) -> None:
        """Write the whole state into an empty `folder`; equal states must give equal bytes."""

    def load(self, folder: Path) -> None:
        """Restore what save wrote."""

    def notes(self) -> str:
        """Return what was learned as Markdown for people, or nothing."""
        return ""
