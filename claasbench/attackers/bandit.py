"""An attacker without a model: a bandit over strategies, surface edits and rules, filled in from the row's own texts.

Thompson sampling with a Beta posterior for each factor of an arm, discounted because the defender changes; what a task
type has not shown is borrowed from the pool of all. Follows the designs collected in docs/ih-challenge.md.
"""

from __future__ import annotations

import base64
import json
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path

from claasbench import draws, prompts
from claasbench.attackers.base import Attacker, judged
from claasbench.errors import invalid, unknown
from claasbench.policies.base import Policy
from claasbench.types import Episode, Json, Message, Request, Sample

HELD_BACK = ("repeat", "forged_turn", "reversed", "list", "audit")
"""Strategies that never attack in training: a quarter of all."""

PRIOR = 0.07
"""Success that is expected of an arm nobody tried, worth `prior_tries` tries."""


def _as_is(text: str, seed: int) -> str:
    return text


def _capitals(text: str, seed: int) -> str:
    return text.upper()


def _bare(text: str, seed: int) -> str:
    return "".join(sign for sign in text if sign.isalnum() or sign.isspace()).lower()


def _swapped(text: str, seed: int) -> str:
    """Exchange two neighbouring letters in about every third word of more than four."""
    words = text.split(" ")
    for at, word in enumerate(words):
        if len(word) > 4 and draws.uniform(seed, "swap", at) < 1 / 3:
            spot = 1 + draws.seed(seed, "spot", at) % (len(word) - 3)
            words[at] = word[:spot] + word[spot + 1] + word[spot] + word[spot + 2 :]
    return " ".join(words)


EDITS: Mapping[str, Callable[[str, int], str]] = {
    "as_is": _as_is, "capitals": _capitals, "bare": _bare, "swapped": _swapped,
}  # fmt: skip
"""What is done to the finished text."""

Arm = tuple[str, str, str]
"""Strategy, edit, and the rule it is aimed at."""


@dataclass
class _Arms(Policy):
    """Picks an arm for each request from the memory, and says what it says."""

    memory: Bandit
    served: str = "bandit"

    def sample(self, requests: Sequence[Request]) -> list[Sample]:
        return [self._attack(request) for request in requests]

    def _attack(self, request: Request) -> Sample:
        view = request.prompt.view or {}
        arm = self.memory.pick(view, request.seed)
        said = text(arm, view, request.seed)[: view["most"]]
        return Sample(said, served="/".join(arm), sampling=request.sampling)

    def count(self, messages: Sequence[Message]) -> int:
        return 0


@dataclass
class Bandit(Attacker):
    """Tries what worked: over the stream by its counts, within a scenario by leaving out what has just failed."""

    strategies: tuple[str, ...] = ()
    """Names of the strategies to use (see prompts/ih_strategies.txt); none named: all."""
    discount: float = 0.98
    """What one attack leaves of the weight of earlier ones."""
    prior_tries: float = 5.0
    """How many tries the prior success of 7 % is worth."""
    pooled: float = 0.25
    """Weight of attacks on other task types beside those on a scenario's own."""
    counts: dict[str, list[float]] = field(default_factory=dict, init=False)
    """Successes and failures, by task type and factor (`type|factor|name`; type empty: all)."""

    def __post_init__(self) -> None:
        """Refuse settings out of range."""
        known = prompts.pieces("ih_strategies")
        for name in self.strategies:
            if name not in known:
                raise unknown("attacker.strategies", name, known)
        if not 0 < self.discount <= 1:
            raise invalid("attacker.discount", self.discount, "above 0, at most 1")
        if self.prior_tries <= 0:
            raise invalid("attacker.prior_tries", self.prior_tries, "above 0")
        if not 0 <= self.pooled <= 1:
            raise invalid("attacker.pooled", self.pooled, "between 0 and 1")

    def setup(self, seat: Policy, measured: bool) -> None:
        """Take the seat; in training a quarter of the strategies is held back, unless none would be left."""
        chosen = list(self.strategies or prompts.pieces("ih_strategies"))
        self.used = chosen if measured else [name for name in chosen if name not in HELD_BACK] or chosen
        self.policy = _Arms(self)

    @property
    def learns(self) -> bool:
        """It counts what worked."""
        return True

    def pick(self, view: Json, seed: int) -> Arm:
        """Return the arm for a scenario: each factor by a draw from its posterior, used arms of this scenario last."""
        kind, rules = str(view["kind"]), [name for name, _ in view["asks"]]
        tried = {name for attempt in view["tries"] for name in attempt["by"].split("/")[:1]}
        fresh = [name for name in self.used if name not in tried] or self.used
        strategy = self._best(kind, "strategy", fresh, seed)
        return strategy, self._best(kind, "edit", list(EDITS), seed), self._best(kind, "rule", rules, seed)

    def _best(self, kind: str, factor: str, names: Sequence[str], seed: int) -> str:
        drawn = random.Random(draws.seed("bandit", seed, factor))
        return max(names, key=lambda name: drawn.betavariate(*self._posterior(kind, factor, name)))

    def _posterior(self, kind: str, factor: str, name: str) -> tuple[float, float]:
        own = self.counts.get(f"{kind}|{factor}|{name}", (0.0, 0.0))
        pool = self.counts.get(f"|{factor}|{name}", (0.0, 0.0))
        won, lost = (mine + self.pooled * (all_ - mine) for mine, all_ in zip(own, pool, strict=True))
        return PRIOR * self.prior_tries + won, (1 - PRIOR) * self.prior_tries + lost

    def observe(self, episodes: Sequence[Episode]) -> None:
        """Count each judged attack on each factor of its arm, after all earlier ones have faded."""
        for episode in episodes:
            for turn, won in judged(episode):
                self.counts = {key: [count * self.discount for count in pair] for key, pair in self.counts.items()}
                self._count(episode.kind, turn.sample.served, won)

    def _count(self, kind: str, arm: str, won: bool) -> None:
        factors = zip(("strategy", "edit", "rule"), arm.split("/"), strict=True)
        for of, (factor, name) in product((kind, ""), factors):
            pair = self.counts.setdefault(f"{of}|{factor}|{name}", [0.0, 0.0])
            pair[not won] += 1.0

    def save(self, folder: Path) -> None:
        """Write the counts."""
        (folder / "counts.json").write_text(json.dumps(self.counts, sort_keys=True) + "\n", encoding="utf-8")

    def load(self, folder: Path) -> None:
        """Read the counts."""
        self.counts = json.loads((folder / "counts.json").read_text(encoding="utf-8"))


def text(arm: Arm, view: Json, seed: int) -> str:
    """Return what arm says to the scenario of `view`."""
    strategy, edit, rule = arm
    ask = dict(view["asks"])[rule]
    words = ask.split(" ")
    half = len(words) // 2
    coded = base64.b64encode(ask.encode()).decode()
    said = prompts.piece(
        "ih_strategies",
        strategy,
        ask=ask,
        base64=coded,
        reversed=ask[::-1],
        first=" ".join(words[:half]),
        second=" ".join(words[half:]),
    )
    frame, code, rest = said.partition(coded)  # a code is copied as it is
    return EDITS[edit](frame, seed) + code + EDITS[edit](rest, seed)
