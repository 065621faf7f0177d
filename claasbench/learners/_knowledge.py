"""What is extracted from games: items with their source, within a number of tokens; and a policy that reads them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from claasbench import draws, prompts
from claasbench.errors import ClaasbenchError
from claasbench.policies.base import Policy, Wrapper
from claasbench.types import Key, Prompt, Request, Sample, spoken, with_context

MARK = "- EXPERIENCE ITEM:"
"""What a line with an item begins with."""


@dataclass(frozen=True, slots=True)
class Item:
    """One piece of knowledge and the game it was extracted from."""

    text: str
    split: str
    game: int


def found(text: str, items: bool) -> list[str]:
    """Return what an extractor's answer adds: its marked lines, or the whole of it."""
    said = spoken(text)
    if items:
        return [line.strip() for line in said.splitlines() if line.startswith(MARK) and line.strip() != MARK]
    return [said] if said else []


def newest(texts: Sequence[str], fits: Callable[[str], bool]) -> str:
    """Return the longest run of the last texts, one below the other, that fits."""
    for start in range(len(texts)):
        joined = "\n".join(texts[start:])
        if fits(joined):
            return joined
    return ""


def informed(prompt: Prompt, text: str, learner: str) -> Prompt:
    """Return the prompt with knowledge in its context; one that stays the same is a ClaasbenchError."""
    if prompt.slot is None:
        raise ClaasbenchError(f"learner.name = {learner!r} needs prompts with a slot; this scenario's have none")
    told = with_context(prompt, prompts.fill("knowledge", knowledge=text))
    if not text.strip() or told.messages == prompt.messages:
        raise ClaasbenchError(f"learner.name = {learner!r}: the teacher's prompt does not differ from the student's")
    return told


@dataclass
class Knowing(Wrapper):
    """Puts one of several texts before every prompt of an episode; which one is drawn by the task."""

    inner: Policy
    texts: Sequence[str]

    def sample(self, requests: Sequence[Request]) -> list[Sample]:
        """Let the inner policy answer with knowledge in its context."""
        return self.inner.sample([replace(r, prompt=informed(r.prompt, self._text(r.key), "oel")) for r in requests])

    def _text(self, key: Key) -> str:
        return draws.choice(self.texts, "knowledge", key.task, key.attempt)
