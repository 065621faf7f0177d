"""Attacks out of the folder of another run, by task and try."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from claasbench.attackers.base import Attacker
from claasbench.errors import ClaasbenchError
from claasbench.policies.base import Policy
from claasbench.types import ATTACKER, LEARNER, Json, Message, Request, Sample, Stream


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
class Try:
    """One recorded attack, and whether the rules held against it (None: it was not answered)."""

    text: str
    held: bool | None = None


@dataclass
class Logged(Attacker):
    """Re-issues the attacks of the run folder `log`: of a measured task, those on the untrained model."""

    log: str = ""
    """Folder of the run whose attacks are issued again."""
    found: dict[str, list[Try]] = field(default_factory=dict, init=False, repr=False)
    """By task: its tries in order."""

    def __post_init__(self) -> None:
        """Read the log; one that is not there, or is damaged, is refused."""
        files = list(Path(self.log).glob("splits/*/turns.jsonl")) if self.log else []
        if not files:
            raise ClaasbenchError(f"attacker.log = {self.log!r} is no run folder with splits/*/turns.jsonl")
        hasher = hashlib.sha256()
        for file in sorted(files, key=lambda file: (file.parent.name != "init", file.parent.name)):
            hasher.update(file.read_bytes())
            for task, tries in _tries(file).items():
                self.found.setdefault(task, tries)
        self.hash = hasher.hexdigest()

    def identity(self) -> Json:
        """Return the hash of the log."""
        return {"log": self.hash}

    def check(self, stream: Stream) -> None:
        """Refuse a log of other tasks: nobody would be attacked, and all would seem to hold."""
        trained = [task.id for split in stream.splits for task in split.train if not task.data.get("plain")]
        if missing := sum(task not in self.found for task in trained):
            some = f"{missing} of the {len(trained)} training tasks"
            raise ClaasbenchError(f"attacker.log = {self.log!r} has no attack on {some} of this stream")


def _tries(file: Path) -> dict[str, list[Try]]:
    """Return the tries of each task in one row of a run, first attempts of the learner itself."""
    own: dict[str, list[Try]] = {}
    for turn in _turns(file):
        if turn["attempt"] or turn.get("variant", LEARNER) != LEARNER:
            continue
        tries = own.setdefault(turn["task"], [])
        if turn["seat"] == ATTACKER:
            tries.append(Try(turn["text"]))
        elif tries and tries[-1].text and tries[-1].text in turn["news"] and turn["reward"] is not None:
            tries[-1].held = turn["reward"] > 0  # a harmless question after an unused try does not say that text
    return own


def _turns(file: Path) -> Iterator[dict[str, Any]]:
    for number, line in enumerate(file.read_bytes().split(b"\n")[:-1], 1):
        try:
            turn = json.loads(line)
            if not {"task", "attempt", "seat", "text", "news", "reward"} <= turn.keys():
                raise ValueError("a key is missing")
        except (ValueError, AttributeError) as error:
            raise ClaasbenchError(f"attacker.log: {str(file)!r}, line {number}, is no turn of a run: {error}") from None
        yield turn
