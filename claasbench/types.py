"""The values that flow through a run: frozen, slotted, JSON-able, and free of every other module of ours."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple, TypeAlias

Json: TypeAlias = Mapping[str, Any]
Finish: TypeAlias = Literal["stop", "length", "overflow", "error"]
Status: TypeAlias = Literal["ok", "overflow", "ungraded", "incomplete", "infra_error"]
Credit: TypeAlias = Literal["episode", "turn"]

LEARNER = "learner"
"""The seat whose policy is taught and measured."""

ATTACKER = "attacker"
"""The seat that works against it."""

NOTHING = "nothing"
"""What a learner sees that learns from nothing."""

SCORED: frozenset[Status] = frozenset({"ok", "overflow"})
"""The statuses that carry a score and reach a learner; every other one is a failure, never a zero."""


def canonical(value: object) -> bytes:
    """Return the one JSON spelling of `value` that all our hashes are taken over."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False).encode()


def content_hash(value: object) -> str:
    """Return the SHA-256 (hex) of the canonical JSON of `value`."""
    return hashlib.sha256(canonical(value)).hexdigest()


@dataclass(frozen=True, slots=True)
class Task:
    """One scenario of a stream; `content` hashes `data`, `id` adds the occurrence number within the stream."""

    id: str
    content: str
    kind: str
    seed: int
    data: Json


@dataclass(frozen=True, slots=True)
class Split:
    """A stretch of the stream after which a checkpoint is saved; `train` tasks are each played once."""

    name: str
    kind: str
    train: tuple[Task, ...]


@dataclass(frozen=True, slots=True)
class Measure:
    """What every checkpoint is measured on: one task list per split (matrix columns), or one list shared by all."""

    name: str
    cells: tuple[tuple[Task, ...], ...]
    shared: bool = False


@dataclass(frozen=True, slots=True)
class Stream:
    """Splits in the order of training and what is measured after each; the first measure is the headline."""

    splits: tuple[Split, ...]
    measures: tuple[Measure, ...]


class Bounds(NamedTuple):
    """Where a cell's scores can lie: a random policy's mean, the best per kind, the best of one policy over all."""

    chance: float
    ceiling: float
    one_policy: float


class Message(NamedTuple):
    """One chat message."""

    role: str
    content: str


class Slot(NamedTuple):
    """Where context may be inserted: at a character of a message, or (offset None) as a message of its own."""

    message: int
    offset: int | None = None


@dataclass(frozen=True, slots=True)
class Prompt:
    """Asks a seat for one answer and says what that seat's previous answer earned."""

    messages: tuple[Message, ...]
    slot: Slot | None = None
    news: str = ""  # what the environment said since the seat's last answer
    view: Json | None = None  # facts for scripted seats; never rendered, stored or shown to a learner
    seat: str = LEARNER
    reward: float | None = None
    feedback: str | None = None
    max_tokens: int | None = None  # None: as the sampling table says
    stop: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Sampling:
    """How tokens are drawn: temperature 0 is greedy, top_p 1 and top_k 0 are off."""

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    max_tokens: int = 64


class Key(NamedTuple):
    """What identifies one answer within a call of play."""

    task: str
    attempt: int
    seat: str
    turn: int


@dataclass(frozen=True, slots=True)
class Request:
    """One question to a policy; `seed` names its token draws (see draws.uniform)."""

    key: Key
    prompt: Prompt
    seed: int
    sampling: Sampling


@dataclass(frozen=True, slots=True)
class Sample:
    """One answer; ids and log-probs (one per generated id, of the sampling distribution) are None where unknown."""

    text: str
    prompt_ids: tuple[int, ...] | None = None
    token_ids: tuple[int, ...] | None = None
    logprobs: tuple[float, ...] | None = None
    finish: Finish = "stop"
    served: str = ""  # adapter version + content hash
    sampling: Sampling = Sampling()
    prefilled: int = 0  # prompt tokens really computed; the rest came from a cache
    tries: int = 1
    counted: tuple[int, int] | None = None  # prompt and reply tokens, where an endpoint counts them itself


@dataclass(frozen=True, slots=True)
class Outcome:
    """How an episode ended: `score` is measured (None: no verdict), `reward` is taught; both follow the last turn."""

    score: float | None
    reward: float
    feedback: str = ""
    info: Json = field(default_factory=dict)


Play: TypeAlias = Generator[Prompt, Sample, Outcome]


@dataclass(frozen=True, slots=True)
class Turn:
    """One answer with its prompt and what it earned."""

    prompt: Prompt
    sample: Sample
    reward: float | None = None
    feedback: str | None = None


@dataclass(frozen=True, slots=True)
class Experience:
    """All a learner may ever see of an episode: no answer key, no score, no view, no measured task."""

    task: str
    kind: str
    credit: Credit
    turns: tuple[Turn, ...]


@dataclass(frozen=True, slots=True)
class Place:
    """Where an episode was played: split, row (-1 is the untrained policy), measure and variant (empty in training)."""

    split: str
    row: int
    measure: str = ""
    variant: str = ""


@dataclass(frozen=True, slots=True)
class Episode:
    """One finished game: who played what where, every seat's turns, and the result."""

    task: str
    content: str
    kind: str
    place: Place
    attempt: int
    credit: Credit
    turns: tuple[Turn, ...]
    score: float | None
    status: Status
    info: Json

    @property
    def experience(self) -> Experience:
        """The part of this episode a learner may see."""
        turns = tuple(
            replace(turn, prompt=replace(turn.prompt, view=None)) for turn in self.turns if turn.prompt.seat == LEARNER
        )
        return Experience(self.task, self.kind, self.credit, turns)


@dataclass(frozen=True, slots=True)
class Update:
    """One row of metrics that a learner yields after a step of its own."""

    name: str
    metrics: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Row:
    """What a trainer trains on: one answer, and what it is told about it; log-probs and advantages are per id."""

    prompt_ids: tuple[int, ...]
    token_ids: tuple[int, ...]
    context_ids: tuple[int, ...] | None = None  # the teacher's prompt; None: the same as the student's
    old_logprobs: tuple[float, ...] | None = None  # of the policy that sampled
    advantage: tuple[float, ...] = ()
    ret: float = 0.0
    value: float = 0.0  # what a critic said before this update
    weight: float = 1.0
    temperature: float = 1.0


@dataclass(frozen=True, slots=True)
class Event:
    """What the runner tells whoever watches."""

    kind: Literal["start", "resume", "play", "episode", "update", "commit", "row", "copy", "stop", "end"]
    where: str = ""
    done: int = 0
    total: int = 0
    episode: Episode | None = None
    update: Update | None = None
    note: str = ""


def spoken(text: str) -> str:
    """Return an answer without its thinking; nothing where the thinking was cut off."""
    said = text.rpartition("</think>")[2]
    return "" if "<think>" in said else said.strip()


def with_context(prompt: Prompt, text: str, role: str = "system") -> Prompt:
    """Insert `text` (memory, knowledge or hindsight) at the prompt's slot: the only way context enters a prompt.

    The slot stands on a line of its own, so `text` brings no line break at its ends. A slot with an offset puts the
    text inside that message (at its end: after an empty line); one without puts it into a new message of `role`. A
    prompt without a slot is a ValueError: its scenario allows no context.
    """
    if not text:
        return prompt
    if prompt.slot is None:
        raise ValueError("this prompt has no slot: its scenario allows no context")
    index, offset = prompt.slot
    messages = list(prompt.messages)
    if offset is None:
        messages.insert(index, Message(role, text))
    else:
        body = messages[index].content
        gap = "\n\n" if body and offset == len(body) else ""
        messages[index] = Message(messages[index].role, body[:offset] + gap + text + body[offset:])
    return replace(prompt, messages=tuple(messages), slot=None)
