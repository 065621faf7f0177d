"""Attacks out of the folder of another run, by task and try."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from claasbench.attackers.base import Attacker
from claasbench.errors import ClaasbenchError
from claasbench.policies.base import Policy
from claasbench.types import ATTACKER, LEARNER, Json, Message, Request, Sample, spoken


@dataclass
class Recorded(Policy):
    """Says what a log says to the same task at the same try; nothing where the log has nothing."""

    attacks: dict[str, list[str]]
    served: str

    def sample(self, requests: Sequence[Request]) -> list[Sample]:
        """Answer each request out of the log."""
        return [Sample(self._attack(request), served=self.served) for request in requests]

    def _attack(self, request: Request) -> str:
        own = self.attacks.get(request.key.task, [])
        return own[request.key.turn] if request.key.turn < len(own) else ""

    def count(self, messages: Sequence[Message]) -> int:
        """Return 0: nobody reads."""
        return 0


@dataclass
class Logged(Attacker):
    """Re-issues the attacks of the run folder `log`."""

    log: str = ""
    """Folder of the run whose attacks are issued again."""
    found: dict[str, list[dict[str, Any]]] = field(default_factory=dict, init=False, repr=False)
    """By task: its tries in order, each with its text and whether the rules held."""

    def __post_init__(self) -> None:
        """Read the log; one that is not there is refused."""
        files = sorted(Path(self.log).glob("splits/*/turns.jsonl")) if self.log else []
        if not files:
            raise ClaasbenchError(f"attacker.log = {self.log!r} is no run folder with splits/*/turns.jsonl")
        hasher = hashlib.sha256()
        for file in files:
            data = file.read_bytes()
            hasher.update(data)
            self._read(data.decode())
        self.hash = hasher.hexdigest()

    def _read(self, text: str) -> None:
        """Keep the tries of each task from the first row of `text` that has them."""
        own: dict[str, list[dict[str, Any]]] = {}
        for turn in map(json.loads, text.splitlines()):
            if turn["attempt"] or turn.get("variant", LEARNER) != LEARNER:
                continue
            tries = own.setdefault(turn["task"], [])
            if turn["seat"] == ATTACKER:
                tries.append({"text": spoken(turn["text"]), "held": None})
            elif tries and tries[-1]["held"] is None:
                tries[-1]["held"] = bool(turn["reward"])
        for task, tries in own.items():
            self.found.setdefault(task, tries)

    def identity(self) -> Json:
        """Return the hash of the log."""
        return {"log": self.hash}
