"""Attacks chosen once against a reference defender: the one that broke it, or the last that was tried.

The reference should be no row of the study. Its run folder is the log; how often it was broken there stands beside the
re-measured rate in a report.
"""

from __future__ import annotations

from dataclasses import dataclass

from claasbench.attackers._log import Logged, Recorded, Try
from claasbench.policies.base import Policy
from claasbench.types import Json


@dataclass
class Static(Logged):
    """One attack per scenario, chosen in the run folder `log` of a reference."""

    def setup(self, seat: Policy, measured: bool) -> None:
        """Take the seat alone."""
        attacks = {task: [best.text] for task, best in self._best().items()}
        self.policy = Recorded(attacks, f"static:{self.hash[:12]}")

    def identity(self) -> Json:
        """Return the hash of the log and how often its attacks were held when they were chosen."""
        held = [bool(best.held) for best in self._best().values()]
        return {**super().identity(), "held_when_chosen": sum(held) / len(held) if held else None}

    def _best(self) -> dict[str, Try]:
        """Return the last answered try of each task: an attacker stops at its first success."""
        answered = {task: [one for one in tries if one.held is not None] for task, tries in self.found.items()}
        return {task: tries[-1] for task, tries in answered.items() if tries}
