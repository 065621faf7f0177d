"""In-context learning: past experiences with their outcome and feedback are put before every later prompt.

Paper: the ICL row of CLaaS (arXiv 2606.05559, appendix A.4), as far as it is described there.
Departures: the paper's order, budget and format are not published; ours are the settings below.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal

from claasbench.errors import ClaasbenchError, invalid
from claasbench.learners._memory import Item, remembered, rendered
from claasbench.learners.base import Learner, nano, nano_ih
from claasbench.policies.base import Policy, Wrapper
from claasbench.types import LEARNER, Experience, Key, Message, Request, Sample, Update, with_context


@dataclass
class _Remembering(Wrapper):
    """Puts the memory before each prompt; what an episode sees is chosen at its first turn."""

    inner: Policy
    learner: Icl
    chosen: dict[tuple[str, int], str] = field(default_factory=dict)

    def sample(self, requests: Sequence[Request]) -> list[Sample]:
        return self.inner.sample([self._with_memory(request) for request in requests])

    def _with_memory(self, request: Request) -> Request:
        key = request.key
        if request.prompt.slot is None:
            raise ClaasbenchError("learner.name = 'icl' needs prompts with a slot; this scenario's have none")
        if (key.task, key.attempt) not in self.chosen:
            self.chosen[key.task, key.attempt] = self.learner.memory(request.prompt.news)[0]
        prompt = with_context(request.prompt, self.chosen[key.task, key.attempt])
        return Request(key, prompt, request.seed, request.sampling)

    def close(self, keys: Iterable[Key]) -> None:
        keys = list(keys)
        for key in keys:
            self.chosen.pop((key.task, key.attempt), None)
        self.inner.close(keys)


@dataclass
class Icl(Learner):
    """Keeps a bounded memory and shows the newest items, or the successes most like the episode's first prompt."""

    sees: ClassVar[str] = "reward, feedback, text"
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "paper": {},
        "nano": nano("icl", items=1),
        "nano-ih": nano_ih("icl", items=4),
    }

    preset: str = ""
    """A set of defaults: paper (those shown here) or nano; by default the one of the model."""

    select: Literal["recent", "similar"] = "recent"
    """recent: the newest items; similar: the successes whose beginning shares most words."""
    items: int = 8
    """How many items are shown."""
    memory_tokens: int = 2048
    """Tokens the shown items may take, as the policy counts them; the oldest whole items are dropped to fit."""
    capacity: int = 256
    """How many items are kept to choose from; the oldest leave first."""
    kept: list[Item] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        """Refuse sizes below one."""
        for name in ("items", "memory_tokens", "capacity"):
            if getattr(self, name) < 1:
                raise invalid(f"learner.{name}", getattr(self, name), "at least 1")

    def setup(self, seats: Mapping[str, Policy], seed: int) -> None:
        """Wrap the learner's seat."""
        self.policy = _Remembering(seats[LEARNER], self)
        self._shown: tuple[str, int] | None = None

    def observe(self, experiences: Sequence[Experience]) -> Iterator[Update]:
        """Remember each experience and tell how much of the memory fits."""
        for experience in experiences:
            if experience.turns:
                self.kept.append(remembered(experience))
        self.kept = self.kept[-self.capacity :]
        self._shown = None
        text, dropped = self.memory(self.kept[-1].first if self.kept else "")
        tokens = self._size(text) if text else 0
        yield Update("memory", {"kept": len(self.kept), "dropped": dropped, "tokens": tokens})

    def memory(self, first: str) -> tuple[str, int]:
        """Return the text shown to an episode that begins with `first`, and how many chosen items did not fit."""
        if self.select == "similar":
            return self._fit(_most_similar(self.kept, first)[-self.items :])
        if self._shown is None:  # the same for every episode until the next observe
            self._shown = self._fit(self.kept[-self.items :])
        return self._shown

    def _fit(self, chosen: Sequence[Item]) -> tuple[str, int]:
        for dropped in range(len(chosen)):
            text = rendered(chosen[dropped:])
            if self._size(text) <= self.memory_tokens:
                return text, dropped
        return "", len(chosen)

    def _size(self, text: str) -> int:
        return self.policy.count([Message("user", text)])

    def save(self, folder: Path) -> None:
        """Write the memory, one item a line."""
        rows = [json.dumps([item.first, item.text, item.success]) + "\n" for item in self.kept]
        (folder / "memory.jsonl").write_text("".join(rows), encoding="utf-8")

    def load(self, folder: Path) -> None:
        """Read the memory."""
        lines = (folder / "memory.jsonl").read_text(encoding="utf-8").splitlines()
        self.kept = [Item(*json.loads(line)) for line in lines]
        self._shown = None

    def notes(self) -> str:
        """Return the memory as it would be shown next."""
        return f"# Memory\n\n{self.memory(self.kept[-1].first)[0]}\n" if self.kept else ""


def _most_similar(kept: Sequence[Item], first: str) -> list[Item]:
    """Return the successes, most similar last: by the share of words in common (Jaccard), ties to the newer."""
    words = set(first.split())

    def likeness(item: Item) -> float:
        own = set(item.first.split())
        return len(own & words) / max(1, len(own | words))

    return sorted((item for item in kept if item.success), key=likeness)
