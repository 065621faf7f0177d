"""The attacker of a stream and its measured twin: one learns as it goes, the other is warmed once and then pinned."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from claasbench import draws
from claasbench.attackers.base import Attacker, judged
from claasbench.errors import Halted
from claasbench.policies.base import Policy
from claasbench.types import ATTACKER, SCORED, Episode, Key, Task

TURNS = 300
"""Attacks from which the measured attacker learns before it is pinned."""

BATCH = 10
"""Scenarios between two of its looks."""


@dataclass
class Opponents:
    """Both attackers of a run; `cache` is where the warmed state of this model and these settings is kept."""

    live: Attacker
    measured: Attacker
    cache: Path
    attacks: int = 0
    """From how many attacks the measured one has learned."""

    def setup(self, seats: Mapping[str, Policy]) -> None:
        """Seat both."""
        self.live.setup(seats[ATTACKER], measured=False)
        self.measured.setup(seats[ATTACKER], measured=True)

    def policy(self, measured: bool) -> Policy:
        """Return who attacks."""
        return (self.measured if measured else self.live).policy

    def warm(self, tasks: Sequence[Task], play: Callable[[Sequence[Task]], Iterator[Episode]]) -> Iterator[Episode]:
        """Let the measured attacker learn from `TURNS` attacks on the untrained model, or take the state kept of that.

        What it learns depends on model and settings alone, never on the order or seed of a trial.
        """
        if not self.measured.learns:
            return
        if self.cache.is_dir():
            self.load(self.cache)
            return
        for first in range(0, len(tasks), BATCH):
            episodes = []
            for episode in play(tasks[first : first + BATCH]):
                episodes.append(episode)
                yield episode
            if lost := sum(episode.status == "infra_error" for episode in episodes):
                raise Halted(f"{lost} scenarios failed while the attacker was warmed: go on with --resume")
            scored = [episode for episode in episodes if episode.status in SCORED]
            self.measured.observe(scored)
            self.attacks += sum(len(judged(episode)) for episode in scored)
            if self.attacks >= TURNS:
                break
        self._keep()

    def save(self, folder: Path) -> None:
        """Write the measured attacker, and from how many attacks it has learned."""
        self.measured.save(folder)
        (folder / "attacks.json").write_text(json.dumps(self.attacks) + "\n", encoding="utf-8")

    def load(self, folder: Path) -> None:
        """Restore what save wrote."""
        self.measured.load(folder)
        self.attacks = json.loads((folder / "attacks.json").read_text(encoding="utf-8"))

    def _keep(self) -> None:
        """Keep the warmed state for other runs; where another run was faster, its state is the one."""
        self.cache.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=self.cache.parent, prefix=".warm-") as scratch:
            made = Path(scratch) / "state"
            made.mkdir()
            self.save(made)
            with suppress(OSError):
                os.rename(made, self.cache)
        self.load(self.cache)


def warm_draw(key: Key) -> int:
    """Return the seed of an answer while the attacker is warmed."""
    return draws.seed("warm", *key)
