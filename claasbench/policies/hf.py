"""The model in this process: transformers, batched, with exact ids and the log-probs of what was sampled."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import torch
from transformers import DynamicCache
from transformers.cache_utils import DynamicLayer

from claasbench import models
from claasbench.errors import ClaasbenchError, invalid
from claasbench.models import Loaded, refused
from claasbench.policies import _attention
from claasbench.policies._cache import Past
from claasbench.policies._generate import Engine, Row, generate, reuse
from claasbench.policies._render import Renderer
from claasbench.policies.base import Policy, Wrapper
from claasbench.types import Json, Key, Message, Request, Sample


@dataclass
class _At(Wrapper):
    """An Hf policy with the weights of its teacher or its base."""

    inner: Hf
    which: str

    @property
    def served(self) -> str:  # type: ignore[override]
        return self.inner.served_at(self.which)

    def sample(self, requests: Sequence[Request]) -> list[Sample]:
        return self.inner.with_weights(self.which, requests)


@dataclass
class Hf(Policy):
    """Answers with a transformers model on one device; equal batches of equal requests give equal bytes.

    A reply that meets a stop string keeps its ids as generated, its text ends before the string. A prefix that new
    prompts share is counted as prefilled on the first of them; padding is not counted.
    """

    model: str
    """A bundled name, a folder, or a Hugging Face id."""
    device: str = "auto"
    """auto (CUDA, else MPS, else CPU), or one of cpu, cuda, cuda:N, mps."""
    template: dict[str, Any] = field(default_factory=dict)
    """Arguments of the chat template, such as enable_thinking."""
    offline: bool = False
    """Make no network call."""
    context: int = 0
    """Most tokens of prompt and reply together; 0 takes the model's own limit."""
    threads: int = 0
    """CPU threads; 0 takes all cores. Sums depend on it, so it is part of the digest."""

    offers: ClassVar[frozenset[str]] = frozenset({"logprobs", "weights"})

    def __post_init__(self) -> None:
        """Load the model; refuse one that cannot be rendered for or cached."""
        if self.threads < 0:
            raise invalid("policy.threads", self.threads, "0 (all cores) or more")
        if self.threads:
            torch.set_num_threads(self.threads)
        self.loaded: Loaded = models.load(self.model, self.device, self.offline)
        self.served = self._untrained = f"v0-{self.loaded.content[:12]}"
        self._renderer = Renderer(self.loaded, self.template)
        self._limit = self._context()
        self._pasts: dict[tuple[str, int, str, str], Past] = {}
        config = self.loaded.module.config
        if {type(layer) for layer in DynamicCache(config=config).layers} != {DynamicLayer}:
            raise refused(self.model, "its layers do not all have full attention, which reusing a prefix needs")
        ends = self.loaded.module.generation_config.eos_token_id
        ends = {self.loaded.tokenizer.eos_token_id, *(ends if isinstance(ends, list) else [ends])} - {None}
        self.loaded.module.set_attn_implementation(_attention.NAME)
        self._ends = frozenset(ends)
        self._weights: Callable[[str], AbstractContextManager[Any]] | None = None

    def identity(self) -> Json:
        """Return what the settings resolved to on this machine."""
        module = self.loaded.module
        return {
            "served": self.served,
            "content": self.loaded.content,
            "device": module.device.type,
            "dtype": str(module.dtype).removeprefix("torch."),
            "threads": torch.get_num_threads(),
        }

    def render(self, messages: Sequence[Message]) -> tuple[int, ...]:
        """Return the prompt ids of `messages`, control strings escaped (see Renderer)."""
        return self._renderer.ids(messages)

    def count(self, messages: Sequence[Message]) -> int:
        """Return the number of prompt ids of `messages`."""
        return len(self.render(messages))

    def sample(self, requests: Sequence[Request]) -> list[Sample]:
        """Answer `requests` side by side; a prompt that leaves no room for one id is "overflow"."""
        return self._answers(requests, self.loaded.module, self.served)

    def at(self, which: str) -> Policy:
        """Return the policy at "student" (itself), "teacher" or "base" weights; untrained, all are the same."""
        return self if which == "student" else _At(self, which)

    def adopt(self, weights: Callable[[str], AbstractContextManager[Any]]) -> None:
        """Take the weights of a trainer, which trains this policy's own module."""
        if self._weights is not None:
            raise ClaasbenchError("the weights of this policy are already in training")
        self._weights = weights

    def refresh(self, served: str) -> None:
        """Answer under a new name; what was computed with the weights before is never used again."""
        self.served = served

    def with_weights(self, which: str, requests: Sequence[Request]) -> list[Sample]:
        """Answer `requests` with the teacher's or the base's weights."""
        if self._weights is None:
            return self.sample(requests)
        with self._weights(which) as module:
            return self._answers(requests, module, self.served_at(which))

    def served_at(self, which: str) -> str:
        """Return the name of the teacher's or the base's weights; the base's never changes."""
        return self._untrained if which == "base" or self._weights is None else f"{which}-{self.served}"

    def _answers(self, requests: Sequence[Request], module: Any, served: str) -> list[Sample]:  # noqa: ANN401
        kept = [past for episode, past in self._pasts.items() if episode[3] == served]
        rows = [self._row(request, served) for request in requests]
        if fitting := [row for row in rows if row.room > 0]:
            generate(Engine(module, self._ends, self._text), fitting, kept)
        for request, row in zip(requests, rows, strict=True):
            if row.past is not None:
                self._pasts[self._episode(request.key, served)] = row.past
        return [self._sample(request, row, served) for request, row in zip(requests, rows, strict=True)]

    def close(self, keys: Iterable[Key]) -> None:
        """Forget the keys and values of the episodes of `keys`, whatever weights they are of."""
        closed = {tuple(key[:3]) for key in keys}
        self._pasts = {episode: past for episode, past in self._pasts.items() if episode[:3] not in closed}

    def _context(self) -> int:
        own: int = getattr(self.loaded.module.config.get_text_config(), "max_position_embeddings", None) or 0
        limit = self.context or own
        if limit < 1 or (own and limit > own):
            allowed = f"1 to {own}, or 0 for the model's own" if own else "1 or more: the model names no limit"
            raise invalid("policy.context", self.context, allowed)
        return limit

    def _episode(self, key: Key, served: str) -> tuple[str, int, str, str]:
        return key.task, key.attempt, key.seat, served

    def _row(self, request: Request, served: str) -> Row:
        prompt = self.render(request.prompt.messages)
        most = request.sampling.max_tokens if request.prompt.max_tokens is None else request.prompt.max_tokens
        sampling = replace(request.sampling, max_tokens=0)  # rows that differ in it alone are drawn together
        row = Row(prompt, request.seed, sampling, min(most, self._limit - len(prompt)), request.prompt.stop)
        # What is kept is of the previous turn: it goes into this one or away.
        past = self._pasts.pop(self._episode(request.key, served), None)
        if past is not None and (known := reuse(row, past)):
            row.past, row.known = past, known
        return row

    def _sample(self, request: Request, row: Row, served: str) -> Sample:
        text = self._text(row.token_ids)
        cuts = [text.index(string) for string in row.stop if string in text]
        return Sample(
            text=text[: min(cuts)] if cuts else text,
            prompt_ids=row.prompt,
            token_ids=tuple(row.token_ids),
            logprobs=tuple(row.logprobs),
            finish=row.finish if row.room > 0 else "overflow",
            served=served,
            sampling=request.sampling,
            prefilled=row.prefilled,
        )

    def _text(self, ids: Sequence[int]) -> str:
        text: str = self.loaded.tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)
        return text
