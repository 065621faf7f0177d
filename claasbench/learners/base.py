"""What a learner is: it observes experiences, ends splits, and offers a policy that carries what it learned."""

from __future__ import annotations

from abc import ABC
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from claasbench.policies.base import Policy
from claasbench.types import LEARNER, NOTHING, Experience, Sampling, Update


class Learner(ABC):
    """A plug-in class is a dataclass whose fields are the settings of the `[learner]` table."""

    needs: ClassVar[frozenset[str]] = frozenset()
    """What the policy must offer."""

    seats: ClassVar[tuple[str, ...]] = ()
    """Further seats that may be given a policy of their own (`[seats.NAME]`)."""

    sees: ClassVar[str] = NOTHING
    """What of an experience it uses: reward, feedback, text; stands beside its results."""

    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
    """Named sets of defaults, chosen by the setting `preset` (a field of every class that has some)."""

    policy: Policy
    """What plays the learner's seat in training; set by setup."""

    def setup(self, seats: Mapping[str, Policy], seed: int) -> None:
        """Take the policies of all seats and the trial's seed; called once, before load."""
        self.policy = seats[LEARNER]

    def check(self, sampling: Sampling) -> None:
        """Refuse a sampling of the training episodes that cannot be learned from; called before anything is loaded."""

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


def nano(method: str, **settings: object) -> Mapping[str, Any]:
    """Return what the dev study of `method` on nano-grid chose, and which it was (see docs/learners.md, Tuning)."""
    return {**settings, "tuned": (f"nano-games/dev-{method}", "frozen-lake", "nano-grid")}


def nano_ih(method: str, **settings: object) -> Mapping[str, Any]:
    """Return what the dev study of `method` on nano-ih chose, and which it was."""
    return {**settings, "tuned": (f"nano-ih/dev-{method}", "ih-challenge", "nano-ih")}
