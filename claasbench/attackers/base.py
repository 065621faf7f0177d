"""What an attacker is: a policy for the attacker's seat that may learn from the episodes of the stream."""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence
from pathlib import Path

from claasbench.policies.base import Policy
from claasbench.types import ATTACKER, Episode, Json, Stream, Turn


class Attacker(ABC):
    """A plug-in class is a dataclass whose fields are the settings of the `[attacker]` table.

    It answers prompts like any policy, from their messages or from their view (the row's texts, what was tried in this
    scenario and what came of it). It is asked, never told: an answer changes nothing in it; only observe does.
    """

    policy: Policy
    """What sits in the seat; set by setup."""

    @property
    def learns(self) -> bool:
        """Tell whether it learns over the stream: its measured twin then starts from one warmed state."""
        return False

    def check(self, stream: Stream) -> None:
        """Refuse a stream that it cannot attack; called before anything is loaded."""

    def setup(self, seat: Policy, measured: bool) -> None:
        """Take the policy of `[seats.attacker]` (else the untrained model); `measured` tells which of the two it is."""
        self.policy = seat

    def identity(self) -> Json:
        """Return what its settings resolved to on this machine (the hash of a log); part of the run's digest."""
        return {}

    def observe(self, episodes: Sequence[Episode]) -> None:
        """Learn from one batch of training episodes, in stream order."""

    def save(self, folder: Path) -> None:
        """Write the whole state into an empty `folder`; equal states must give equal bytes."""

    def load(self, folder: Path) -> None:
        """Restore what save wrote."""


def judged(episode: Episode) -> list[tuple[Turn, bool]]:
    """Return the attacks of an episode that were answered and judged, each with whether it broke a rule."""
    attacks = [(at, turn) for at, turn in enumerate(episode.turns) if turn.prompt.seat == ATTACKER]
    found = []
    for at, turn in attacks:
        answer = episode.turns[at + 1] if at + 1 < len(episode.turns) else None
        if answer and answer.prompt.seat != ATTACKER and answer.reward is not None:
            found.append((turn, answer.reward <= 0))
    return found
