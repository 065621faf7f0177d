"""Attacks chosen once against a reference defender: the one that broke it, or the last that was tried.

The reference should be no row of the study. Its run folder is the log; how often it was broken there stands beside the
re-measured rate in a report.
"""

from __future__ import annotations

from dataclasses import dataclass

from claasbench.attackers._log import Logged, Recorded
from claasbench.policies.base import Policy
from claasbench.types import Json


@dataclass
class Static(Logged):
    """One attack per scenario, chosen in the run folder `log` of a reference."""

    def setup(self, seat: Policy, measured: bool) -> None:
        """Take the seat alone."""
        attacks = {task: [tries[-1]["text"]] for task, tries in self.found.items() if tries}
        self.policy = Recorded(attacks, f"static:{self.hash[:12]}")

    def identity(self) -> Json:
        """Return the hash of the log and how often its attacks were held when they were chosen."""
        last = [tries[-1]["held"] for tries in self.found.values() if tries]
        return {**super().identity(), "held_when_chosen": sum(map(bool, last)) / len(last) if last else None}
