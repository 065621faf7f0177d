"""Where a chat-completions endpoint is, which of its faults pass with time, and how long to wait for that."""

from __future__ import annotations

import ipaddress
import os
import re
import time
import weakref
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from threading import Event
from typing import Any, NamedTuple

import httpx2

from claasbench.errors import ClaasbenchError, invalid
from claasbench.types import Finish, Json

HOME = "https://api.openai.com/v1"
"""The endpoint of a model without a URL."""

PAUSE = 1.0
"""Seconds before a request is put again; doubled each time, up to LONGEST."""

LONGEST = 60.0
"""Most seconds of one pause, also where the endpoint asks for more."""

SILENT = 1
"""How often a request is put again that was not answered in time: what takes too long once takes too long again."""

TOO_LONG = (
    "context_length_exceeded",  # OpenAI
    "maximum context length",  # OpenAI, vLLM
    "maximum model length",  # vLLM
    "the model's context length",  # SGLang
    "exceed_context_size",  # llama.cpp
)
"""What a refusal says when a prompt (with the whole reply) does not fit."""

ALLOWED = "openai:NAME or openai:NAME@URL; URL begins with http:// or https:// and has no user, password or query"


class Place(NamedTuple):
    """A model's name, the URL of its endpoint, and whether that is on this machine."""

    name: str
    url: str
    local: bool


class Answer(NamedTuple):
    """The reply to one request, or (None) why there is none, and after how many tries."""

    reply: Json | None
    tries: int
    finish: Finish = "stop"


class _Passing(Exception):
    """A fault that may pass, and for how many seconds the endpoint asks to be left alone."""

    def __init__(self, wait: float = 0.0, silent: bool = False) -> None:
        super().__init__()
        self.wait = wait
        self.silent = silent


class _TooLong(Exception):
    """The prompt does not fit."""


def place(model: str) -> Place:
    """Return what `model` names; the error shows no URL, as what is wrong with it may be a password."""
    match = re.fullmatch(r"(.+?)(?:@(https?://.+))?", model.removeprefix("openai:"))
    refused = invalid("policy.model", re.sub("@.*", "@...", model, flags=re.DOTALL), ALLOWED)
    if match is None:
        raise refused
    name, url = match.group(1), (match.group(2) or HOME).rstrip("/")
    try:
        parsed = httpx2.URL(url)
    except httpx2.InvalidURL:
        raise refused from None
    if "@" in name and match.group(2) is None:  # a URL without http://: its requests would go to HOME
        raise refused
    if not parsed.host or parsed.userinfo or re.search(r"[?#\s]", url):
        raise refused
    return Place(name, url, _loopback(parsed.host))


def _loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def secret(variable: str, local: bool) -> str:
    """Return the key that the environment variable holds; no error shows it, nor a key in the variable's place."""
    if not re.fullmatch("[A-Z_][A-Z0-9_]*", variable):
        raise ClaasbenchError(
            "policy.key is no name of an environment variable (A to Z, 0 to 9, _), such as OPENAI_API_KEY: "
            "the key itself belongs into that variable"
        )
    key = os.environ.get(variable, "").strip()
    if not (key.isascii() and key.isprintable()) or " " in key:
        raise ClaasbenchError(f"policy.key = {variable!r}: what that environment variable holds is no key")
    if not key and not local:
        raise invalid("policy.key", variable, "an environment variable that holds the key; this one is not set")
    return key


def asked(headers: Mapping[str, str]) -> float:
    """Return the seconds that a Retry-After header (a number or a date) asks for."""
    value = headers.get("retry-after", "")
    try:
        return float(value)
    except ValueError:
        pass
    try:
        return parsedate_to_datetime(value).timestamp() - time.time()
    except ValueError:
        return 0.0


class Endpoint:
    """One endpoint behind one client of at most `width` connections; the key stands in the client's headers alone."""

    def __init__(self, where: Place, key: str, timeout: float, retries: int, width: int) -> None:
        self._where = where
        self._retries = retries
        self._client = httpx2.Client(
            headers={"Authorization": f"Bearer {key}"} if key else {},
            timeout=timeout,
            limits=httpx2.Limits(max_connections=width, max_keepalive_connections=width),
            trust_env=not where.local,  # no proxy between us and this machine
        )
        weakref.finalize(self, self._client.close)

    def ask(self, body: Json, over: Event) -> Answer:
        """Put one request until it is answered, the retries are used up, or the call it belongs to is `over`."""
        tries = silent = 0
        while True:
            tries += 1
            try:
                return Answer(self._post(body), tries)
            except _TooLong:
                return Answer(None, tries, "overflow")
            except _Passing as fault:
                silent += fault.silent
                pause = min(LONGEST, max(PAUSE * 2.0 ** min(tries - 1, 9), fault.wait))
            if tries > self._retries or silent > SILENT or over.wait(pause):
                return Answer(None, tries, "error")

    def _post(self, body: Json) -> Json:
        try:
            response = self._client.post(f"{self._where.url}/chat/completions", json=body)
        except httpx2.TimeoutException:
            raise _Passing(silent=True) from None
        except httpx2.RequestError:
            raise _Passing from None
        if not response.is_success:
            raise self._fault(response)
        try:
            reply = response.json()
            message = reply["choices"][0]["message"]
            usable = message.get("content") is None or isinstance(message["content"], str)
        except (ValueError, LookupError, TypeError, AttributeError):
            raise _Passing from None
        if not usable:
            raise _Passing
        return dict(reply)

    def _fault(self, response: httpx2.Response) -> Exception:
        status, text = response.status_code, response.text
        spent = "insufficient_quota" in text  # OpenAI's 429 of an account without money does not pass
        if (status in (408, 429) and not spent) or status >= 500:
            return _Passing(asked(response.headers))
        if status == 400 and any(words in text for words in TOO_LONG):
            return _TooLong()
        name, url, _ = self._where
        said = self._scrubbed(_message(response))
        return ClaasbenchError(f"policy.model = {f'openai:{name}@{url}'!r}: the endpoint answers {status}: {said}")

    def _scrubbed(self, text: str) -> str:
        """Return one line of at most 300 characters without the key, also where the server has masked it itself."""
        if key := self._client.headers.get("authorization", "").removeprefix("Bearer "):
            text = text.replace(key, "***")
        line = " ".join(re.sub(r"[\w-]*\*{3,}[\w*-]*", "***", text).split())
        return line if len(line) <= 300 else f"{line[:297]}..."


def _message(response: httpx2.Response) -> str:
    """Return what the server says, in whichever of the usual shapes."""
    try:
        said: Any = response.json()
    except ValueError:
        return response.text
    for name in ("error", "message", "detail"):
        if isinstance(said, dict) and name in said:
            said = said[name]
    return said if isinstance(said, str) else response.text
