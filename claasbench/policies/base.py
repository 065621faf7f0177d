"""What a policy is: something that answers batches of requests and renders messages to token ids."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import ClassVar

from claasbench.errors import ClaasbenchError
from claasbench.models import Loaded
from claasbench.types import Key, Message, Request, Sample


class Policy(ABC):
    """Answers requests; a plug-in class is built with `model` (what follows its prefix) and its own settings."""

    offers: ClassVar[frozenset[str]] = frozenset()
    """What a learner may need: "logprobs" (with ids), "weights" (a module to train)."""

    served: str
    """Adapter version + content hash of what answers."""

    loaded: Loaded | None = None
    """The module and tokenizer behind this policy, where there is one."""

    @abstractmethod
    def sample(self, requests: Sequence[Request]) -> list[Sample]:
        """Answer `requests` in their order; InfraError or finish "error" where the machinery failed.

        A prompt that does not fit is answered with finish "overflow" and no text, never cut.
        """

    @abstractmethod
    def count(self, messages: Sequence[Message]) -> int:
        """Return the number of prompt tokens of `messages` (words, where there is no tokenizer)."""

    def render(self, messages: Sequence[Message]) -> tuple[int, ...]:
        """Return the prompt ids of `messages`: the only renderer. Refused by policies without a tokenizer."""
        raise ClaasbenchError(f"policy {type(self).__name__} has no tokenizer to render with")

    def at(self, which: str) -> Policy:
        """Return the policy seen at "student" (itself), "teacher" or "base" weights."""
        if which in ("student", "base"):
            return self
        raise ClaasbenchError(f"policy {type(self).__name__} has no {which!r} weights")

    def close(self, keys: Iterable[Key]) -> None:
        """Forget whatever was kept (a key-value cache) for the episodes of `keys`."""
