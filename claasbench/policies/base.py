"""What a policy is: something that answers batches of requests and renders messages to token ids."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Any, ClassVar

from claasbench.errors import ClaasbenchError
from claasbench.models import Loaded
from claasbench.types import Json, Key, Message, Request, Sample


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

    def identity(self) -> Json:
        """Return what the settings resolved to on this machine (content hash, device, threads); in the run's digest."""
        return {"served": self.served}

    def at(self, which: str) -> Policy:
        """Return the policy seen at "student" (itself), "teacher" or "base" weights."""
        if which in ("student", "base"):
            return self
        raise ClaasbenchError(f"policy {type(self).__name__} has no {which!r} weights")

    def adopt(self, weights: Callable[[str], AbstractContextManager[Any]]) -> None:
        """Take the weights of a trainer: `weights(name)` gives the module while it has those weights."""
        raise ClaasbenchError(f"policy {type(self).__name__} has no weights to train")

    def refresh(self, served: str) -> None:
        """Answer with the trained weights as they are now, under the name `served`."""
        raise ClaasbenchError(f"policy {type(self).__name__} has no weights to train")

    def close(self, keys: Iterable[Key]) -> None:
        """Forget whatever was kept (a key-value cache) for the episodes of `keys`."""


class Wrapper(Policy):
    """A policy in front of another one: hands everything on until a learner overrides it."""

    inner: Policy

    @property
    def served(self) -> str:  # type: ignore[override]
        """What answers is the inner policy."""
        return self.inner.served

    @property
    def loaded(self) -> Loaded | None:  # type: ignore[override]
        """The inner policy's module and tokenizer."""
        return self.inner.loaded

    def sample(self, requests: Sequence[Request]) -> list[Sample]:
        """Let the inner policy answer."""
        return self.inner.sample(requests)

    def count(self, messages: Sequence[Message]) -> int:
        """Count as the inner policy does."""
        return self.inner.count(messages)

    def render(self, messages: Sequence[Message]) -> tuple[int, ...]:
        """Render as the inner policy does."""
        return self.inner.render(messages)

    def identity(self) -> Json:
        """Return the inner policy's identity."""
        return self.inner.identity()

    def at(self, which: str) -> Policy:
        """Return the inner policy at other weights."""
        return self.inner.at(which)

    def close(self, keys: Iterable[Key]) -> None:
        """Let the inner policy forget."""
        self.inner.close(keys)
