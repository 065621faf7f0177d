"""An experience as text: what a memory shows, and what an extractor reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from claasbench import prompts
from claasbench.types import Experience, Turn, spoken


@dataclass(frozen=True, slots=True)
class Item:
    """One remembered experience as text; `first` is what its episode began with."""

    first: str
    text: str
    success: bool


def spelled(turns: Sequence[Turn]) -> str:
    """Spell turns one below the other: what was said to the learner and what it answered, without its thinking."""
    return "\n".join(
        prompts.fill("memory_turn", news=turn.prompt.news.strip(), reply=spoken(turn.sample.text)) for turn in turns
    )


def remembered(experience: Experience) -> Item:
    """Spell an experience: what was said to the learner, what it answered, and what came of it.

    Where each turn has its own credit, each is told with its own outcome, and one failure makes the whole a failure.
    """
    turns, rewards = experience.turns, [turn.reward or 0.0 for turn in experience.turns]
    if experience.credit == "turn":
        told = [_outcome([turn], reward) for turn, reward in zip(turns, rewards, strict=True)]
        return Item(turns[0].prompt.news, "\n".join(told), min(rewards) > 0)
    return Item(turns[0].prompt.news, _outcome(turns, sum(rewards)), sum(rewards) > 0)


def _outcome(turns: Sequence[Turn], reward: float) -> str:
    feedback = (turns[-1].feedback or "none").strip()
    return prompts.fill("memory_item", steps=spelled(turns), reward=f"{reward:g}", feedback=feedback)


def rendered(items: Sequence[Item]) -> str:
    """Return the memory that shows `items`."""
    numbered = [prompts.fill("memory_entry", number=str(n), item=item.text) for n, item in enumerate(items, 1)]
    return prompts.fill("memory", items="\n".join(numbered))
