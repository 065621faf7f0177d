"""A recorded attacker: every scenario is attacked exactly as another run's was, so that live curves can be compared.

Where that run stopped earlier (its defender broke), there is no recorded attack: the try is used up.
"""

from __future__ import annotations

from dataclasses import dataclass

from claasbench.attackers._log import Logged, Recorded
from claasbench.policies.base import Policy


@dataclass
class Replay(Logged):
    """Issues the attacks of a run folder again, try by try."""

    def setup(self, seat: Policy, measured: bool) -> None:
        """Take the seat alone."""
        attacks = {task: [tried.text for tried in tries] for task, tries in self.found.items()}
        self.policy = Recorded(attacks, f"replay:{self.hash[:12]}")
