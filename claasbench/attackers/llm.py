"""A language model as attacker: it reads the scenario, its own tries and their outcome, and what worked before."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from claasbench import prompts
from claasbench.attackers.base import Attacker, judged
from claasbench.errors import invalid
from claasbench.policies.base import Policy, Wrapper
from claasbench.types import Episode, Request, Sample, spoken, with_context

_TAGGED = re.compile(r"<attack>(.*?)(?:</attack>|$)", re.DOTALL)


def written(text: str) -> str:
    """Return the message in a model's answer: what stands in its tags, else all but the thinking."""
    said = spoken(text)
    tagged = _TAGGED.search(said)
    return (tagged[1] if tagged else said).strip()


def _message(sample: Sample) -> Sample:
    """Return the answer as a message; a prompt that did not fit is a try without one."""
    finish = "stop" if sample.finish == "overflow" else sample.finish
    return replace(sample, text=written(sample.text), finish=finish, served=f"llm:{sample.served}")


@dataclass
class _Experienced(Wrapper):
    """Shows the model the attacks that worked."""

    inner: Policy
    attacker: Llm

    def sample(self, requests: Sequence[Request]) -> list[Sample]:
        text = self.attacker.remembered()
        asked = [replace(request, prompt=with_context(request.prompt, text)) for request in requests]
        return [_message(sample) for sample in self.inner.sample(asked)]


@dataclass
class Llm(Attacker):
    """Any policy in the attacker's seat (`[seats.attacker] model = ...`; by default the untrained model itself)."""

    items: int = 4
    """How many of the newest attacks that worked are shown; 0: the attacker remembers nothing beyond a scenario."""
    item_chars: int = 400
    """Longest attack that is remembered, in characters."""
    kept: list[str] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        """Refuse sizes out of range."""
        if self.items < 0:
            raise invalid("attacker.items", self.items, "0 (no memory) or more")
        if self.item_chars < 1:
            raise invalid("attacker.item_chars", self.item_chars, "at least 1")

    def setup(self, seat: Policy, measured: bool) -> None:
        """Wrap the policy of the seat."""
        self.policy = _Experienced(seat, self)

    @property
    def learns(self) -> bool:
        """It learns where it has a memory."""
        return self.items > 0

    def remembered(self) -> str:
        """Return the memory as it is shown, or nothing."""
        if not self.kept:
            return ""
        return prompts.fill("ih_worked", attacks="\n".join(f"- {attack}" for attack in self.kept))

    def observe(self, episodes: Sequence[Episode]) -> None:
        """Remember the attacks that broke a rule."""
        won = [turn.sample.text for episode in episodes for turn, broke in judged(episode) if broke]
        fitting = [*self.kept, *(text for text in won if len(text) <= self.item_chars)]
        self.kept = fitting[-self.items :] if self.items else []

    def save(self, folder: Path) -> None:
        """Write the memory."""
        (folder / "worked.json").write_text(json.dumps(self.kept) + "\n", encoding="utf-8")

    def load(self, folder: Path) -> None:
        """Read the memory."""
        self.kept = json.loads((folder / "worked.json").read_text(encoding="utf-8"))
