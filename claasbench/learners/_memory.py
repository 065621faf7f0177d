"""An experience as text: what a memory shows, and what an extractor reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from claasbench import prompts
from claasbench.types import Experience, Turn


@dataclass(frozen=True, slots=True)
class Item:
    """One remembered experience as text; `first` is what its episode began with."""

    first: str
    text: str
    success: bool


def spelled(turns: Sequence[Turn]) -> str:
    """Spell turns one below the other: what was said to the learner and what it answered."""
    return "\n".join(
        prompts.fill("memory_turn", news=turn.prompt.news.strip(), reply=turn.sample.text.strip()) for turn in turns
    )


def remembered(experience: Experience) -> Item:
    """Spell an experience: what was said to the learner, what it answered, and what came of it."""
    last = experience.turns[-1]
    total = sum(turn.reward or 0.0 for turn in experience.turns)
    text = prompts.fill(
        "memory_item", steps=spelled(experience.turns), reward=f"{total:g}", feedback=(last.feedback or "none").strip()
    )
    return Item(experience.turns[0].prompt.news, text, total > 0)


def rendered(items: Sequence[Item]) -> str:
    """Return the memory that shows `items`."""
    numbered = [prompts.fill("memory_entry", number=str(n), item=item.text) for n, item in enumerate(items, 1)]
    return prompts.fill("memory", items="\n".join(numbered))
