"""A model behind an OpenAI-compatible chat-completions endpoint: text and counts of tokens, no ids and no weights."""

from __future__ import annotations

import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from math import ceil
from threading import Event

from claasbench.errors import ClaasbenchError, invalid
from claasbench.policies import _endpoint
from claasbench.policies._endpoint import Endpoint
from claasbench.policies.base import Policy
from claasbench.types import Json, Message, Request, Sample

CONTROL = re.compile(r"<\|[^<>|\s]+\|>|</?s>|\[/?INST\]|<</?SYS>>|<(?:start|end)_of_turn>|<\uff5c[^<>\s]+\uff5c>")
"""What templates mark turns with; a server would take it for a turn of its own."""


@dataclass
class OpenAI(Policy):
    """Answers with whatever serves `POST URL/chat/completions`; draws are the endpoint's, who gets the request's seed.

    Faults that may pass (408, 429, 5xx, no connection, half an answer, one that is none) are retried after 1, 2, 4, ...
    seconds, or later where Retry-After asks for it (60 seconds at most); silence is retried once. The player asks three
    times, so with the defaults a request is given up after 95 seconds of faults or 12 minutes of silence. A prompt that
    does not fit together with the whole reply is "overflow".
    """

    model: str
    """openai:NAME@URL, such as openai:Qwen/Qwen3-8B@http://localhost:8000/v1; without @URL https://api.openai.com/v1."""
    concurrency: int = 8
    """Most requests under way at once."""
    timeout: float = 120.0
    """Seconds of silence after which a request counts as lost."""
    retries: int = 5
    """How often a request is repeated after a fault that may pass."""
    key: str = "OPENAI_API_KEY"
    """Name of the environment variable that holds the key; on this machine it need not be set."""
    price_in: float = 0.0
    """Money per million prompt tokens; reports multiply."""
    price_out: float = 0.0
    """Money per million reply tokens."""
    logprobs: bool = False
    """Ask for the log-probs of replies (most endpoints give those before temperature and cuts)."""
    offline: bool = False
    """Make no network call but to this machine."""

    def __post_init__(self) -> None:
        """Refuse bad settings, another machine when offline, and another machine without a key."""
        self._check()
        where = _endpoint.place(self.model)
        self._name = where.name
        self.served = f"openai:{where.name}@{where.url}"
        if self.offline and not where.local:
            raise ClaasbenchError(f"policy.model = {self.served!r} is not on this machine, which --offline asks for")
        key = _endpoint.secret(self.key, where.local)
        self._endpoint = Endpoint(where, key, self.timeout, self.retries, self.concurrency)
        self._threads = ThreadPoolExecutor(self.concurrency)

    def _check(self) -> None:
        if self.concurrency < 1:
            raise invalid("policy.concurrency", self.concurrency, "1 or more")
        if self.timeout <= 0:
            raise invalid("policy.timeout", self.timeout, "above 0 (seconds)")
        for name in ("retries", "price_in", "price_out"):
            if getattr(self, name) < 0:
                raise invalid(f"policy.{name}", getattr(self, name), "0 or more")

    def sample(self, requests: Sequence[Request]) -> list[Sample]:
        """Answer `requests` side by side; one whose retries are used up is "error", the others stand."""
        over = Event()
        try:
            return list(self._threads.map(lambda request: self._answer(request, over), requests))
        finally:
            over.set()  # after a refusal or Ctrl-C nothing is retried in the background

    def count(self, messages: Sequence[Message]) -> int:
        """Return an estimate: a token per 4 bytes of text, rounded up, and 4 per message."""
        return sum(ceil(len(message.content.encode()) / 4) + 4 for message in messages)

    def _answer(self, request: Request, over: Event) -> Sample:
        answer = self._endpoint.ask(self._body(request), over)
        if answer.reply is None:
            return Sample("", finish=answer.finish, served=self.served, sampling=request.sampling, tries=answer.tries)
        choice = answer.reply["choices"][0]
        mark = answer.reply.get("system_fingerprint")
        return Sample(
            text=_text(choice["message"]),
            logprobs=_logprobs(choice),
            finish="length" if choice.get("finish_reason") == "length" else "stop",
            served=f"{self.served}#{mark}" if mark else self.served,
            sampling=request.sampling,
            tries=answer.tries,
            counted=_counted(answer.reply),
        )

    def _body(self, request: Request) -> Json:
        prompt, sampling = request.prompt, request.sampling
        return {
            "model": self._name,
            "messages": [{"role": role, "content": harmless(content)} for role, content in prompt.messages],
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "max_tokens": sampling.max_tokens if prompt.max_tokens is None else prompt.max_tokens,
            "seed": request.seed % 2**31,  # endpoints read it as a signed 32- or 64-bit number
            **({"stop": list(prompt.stop)} if prompt.stop else {}),
            **({"top_k": sampling.top_k} if sampling.top_k > 0 else {}),  # not OpenAI's own: vLLM and others know it
            **({"logprobs": True} if self.logprobs else {}),
        }


def harmless(content: str) -> str:
    """Return a content without the control strings of common templates: nobody knows the endpoint's own ones."""
    return CONTROL.sub(lambda found: f"{found[0][0]} {found[0][1:]}", content)


def _text(message: Json) -> str:
    """Return the visible text, without reasoning; a refusal is an answer. Lone surrogates would fit into no file."""
    text = str(message.get("content") or message.get("refusal") or "")
    return text.encode("utf-8", "replace").decode("utf-8")


def _counted(reply: Json) -> tuple[int, int] | None:
    usage = reply.get("usage") or {}
    try:
        return int(usage["prompt_tokens"]), int(usage["completion_tokens"])
    except (LookupError, TypeError, ValueError, OverflowError):
        return None


def _logprobs(choice: Json) -> tuple[float, ...] | None:
    try:
        return tuple(float(entry["logprob"]) for entry in choice["logprobs"]["content"])
    except (LookupError, TypeError, ValueError):
        return None
