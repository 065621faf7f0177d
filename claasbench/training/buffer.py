"""Replay as in Algorithm 1 of CLaaS (arXiv 2606.05559): first in, first out; uniform draws; too old goes away."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from claasbench import draws


@dataclass(frozen=True, slots=True)
class Entry:
    """One answer of a finished episode: ids, log-probs of the policy that sampled, and what only the end could tell."""

    prompt_ids: tuple[int, ...]
    token_ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    temperature: float
    version: int
    """Steps that the sampling policy had taken."""
    ret: float
    """What was earned from this answer on, as the scenario's credit says."""
    context_ids: tuple[int, ...] | None = None
    """The prompt with hindsight, where a method has one."""
    value: float = 0.0
    """What a critic expected when the episode ended."""
    advantage: float = 0.0
    """What a critic's expectations make of the return."""
    base_logprobs: tuple[float, ...] = ()
    """Log-probs of the base model, where a method asks for them."""


@dataclass
class Buffer:
    """At most `most` entries, drawn from when at least `least` are there, none older than `age` steps."""

    most: int
    least: int
    age: int
    entries: list[Entry] = field(default_factory=list)
    uses: list[int] = field(default_factory=list)
    evicted: Counter[str] = field(default_factory=Counter)
    """Entries that left, by reason: full, old."""

    def __len__(self) -> int:
        return len(self.entries)

    @property
    def ready(self) -> bool:
        """Whether a batch may be drawn."""
        return len(self.entries) >= self.least

    def insert(self, entries: Sequence[Entry]) -> None:
        """Append entries; the oldest leave when there are too many."""
        self.entries += entries
        self.uses += [0] * len(entries)
        over = max(0, len(self.entries) - self.most)
        self._drop([at >= over for at in range(len(self.entries))], "full")

    def draw(self, count: int, *parts: draws.Part) -> list[Entry]:
        """Return up to `count` different entries, uniformly drawn from the hash of `parts`, and count their use."""
        chosen = draws.shuffled(range(len(self.entries)), "replay", *parts)[:count]
        for at in chosen:
            self.uses[at] += 1
        return [self.entries[at] for at in chosen]

    def evict(self, version: int) -> None:
        """Drop entries whose policy is more than `age` of the `version` steps back."""
        self._drop([version - entry.version <= self.age for entry in self.entries], "old")

    def _drop(self, keep: Sequence[bool], reason: str) -> None:
        self.evicted[reason] += len(keep) - sum(keep)
        self.uses = [uses for uses, stays in zip(self.uses, keep, strict=True) if stays]
        self.entries = [entry for entry, stays in zip(self.entries, keep, strict=True) if stays]

    def save(self, file: Path) -> None:
        """Write all entries, one a line, after a line of counts."""
        held = zip(self.entries, self.uses, strict=True)
        lines = [dict(sorted(self.evicted.items())), *({**asdict(entry), "uses": uses} for entry, uses in held)]
        file.write_text("".join(json.dumps(line) + "\n" for line in lines))

    def load(self, file: Path) -> None:
        """Restore what save wrote."""
        counts, *rows = map(json.loads, file.read_text().splitlines())
        self.evicted = Counter(counts)
        self.uses = [row.pop("uses") for row in rows]
        self.entries = [_entry(row) for row in rows]


def _entry(row: dict[str, object]) -> Entry:
    made = Entry(**row)  # type: ignore[arg-type]
    context = made.context_ids
    return replace(
        made,
        prompt_ids=tuple(made.prompt_ids),
        token_ids=tuple(made.token_ids),
        logprobs=tuple(made.logprobs),
        base_logprobs=tuple(made.base_logprobs),
        context_ids=None if context is None else tuple(context),
    )
