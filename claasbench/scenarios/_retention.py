"""The measure that every stream has beside its own: whether plain instructions on form are still followed."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from claasbench import draws, prompts
from claasbench.scenarios.base import Numberer, Scenario
from claasbench.types import Bounds, Json, Measure, Message, Outcome, Play, Prompt, Sampling, Slot, Stream, Task, spoken

NAME = "retention"
"""The measure, and the kind of its tasks."""

VERSION = 1
"""Raised whenever a check decides differently."""

PER_FORM = 4
TOKENS = 128
"""Longest answer, whatever the scenario's sampling table says: every form can be kept in a quarter of it."""


class Form(NamedTuple):
    """A form that an answer may be asked for: what its value may be, whether an answer keeps it, and one that does."""

    values: Sequence[Any]
    kept: Callable[[str, Any], bool]
    witness: Callable[[Any], str]


def _lines(text: str) -> list[str]:
    return text.splitlines()


def _full(lines: Sequence[str]) -> bool:
    return all(line.strip() for line in lines)


def _bullets(text: str, count: int) -> bool:
    lines = _lines(text)
    return len(lines) == count and all(line.startswith("* ") and line[2:].strip() for line in lines)


def _json(text: str, key: str) -> bool:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return False
    return isinstance(value, dict) and list(value) == [key] and isinstance(value[key], str) and bool(value[key].strip())


FORMS: Mapping[str, Form] = {
    "lower": Form(("",), lambda text, _: text == text.lower() != text.upper(), lambda _: "so it is."),
    "upper": Form(("",), lambda text, _: text == text.upper() != text.lower(), lambda _: "SO IT IS."),
    "words": Form((3, 4, 5, 7), lambda text, count: len(text.split()) == count, lambda count: " ".join(["So"] * count)),
    "lines": Form(
        (2, 3, 4),
        lambda text, count: len(_lines(text)) == count and _full(_lines(text)),
        lambda count: "\n".join(["So it is."] * count),
    ),
    "bullets": Form((2, 3, 4), _bullets, lambda count: "\n".join(["* So it is."] * count)),
    "opening": Form(
        ("Well then,", "To begin with,", "In short:"),
        lambda text, value: text.startswith(value),
        lambda value: f"{value} it is so.",
    ),
    "ending": Form(
        ("That is all.", "And so it goes.", "Good day!"),
        lambda text, value: text.endswith(value),
        lambda value: f"It is so. {value}",
    ),
    "json": Form(("answer", "reply", "text"), _json, lambda key: json.dumps({key: "So it is."})),
    "twice": Form(
        ("often", "always", "maybe"),
        lambda text, word: re.findall(r"\w+", text.lower()).count(word) == 2,
        lambda word: f"It is so {word}, {word}.",
    ),
    "quoted": Form(
        ("",), lambda text, _: len(text) > 2 and text[0] == text[-1] == '"' and '"' not in text[1:-1], lambda _: '"So."'
    ),
}
"""Neither an empty answer nor a plain refusal keeps any of them."""


def tasks() -> tuple[Task, ...]:
    """Return the tasks, the same for every scenario: PER_FORM of each form, with drawn values and requests."""
    numberer, requests = Numberer(), list(prompts.pieces("retention_requests").values())
    made = []
    for form, (values, *_) in FORMS.items():
        asked = draws.shuffled(requests, NAME, form)[:PER_FORM]
        for number, request in enumerate(asked):
            value = draws.choice(values, NAME, form, number)
            made.append(numberer.task(NAME, 0, {"form": form, "value": value, "request": request}))
    return tuple(made)


def kept(data: Json, answer: str) -> bool:
    """Return whether the visible part of an answer has the form that was asked for."""
    return FORMS[data["form"]].kept(answer.strip(), data["value"])


def episode(task: Task) -> Play:
    """Ask once, with the learner's context where it puts any; an answer that was cut short has not kept its form."""
    rule = prompts.piece(NAME, task.data["form"], value=str(task.data["value"]))
    text = f"{task.data['request']} {rule}"
    sample = yield Prompt((Message("user", text),), Slot(0), text, _view(task.data), max_tokens=TOKENS)
    held = sample.finish == "stop" and kept(task.data, spoken(sample.text))
    told = prompts.piece(NAME, "held" if held else "broken")
    return Outcome(float(held), float(held), told, {"end": task.data["form"]})


def _view(data: Json) -> Json:
    refusal = prompts.piece(NAME, "refusal")
    oracle = FORMS[data["form"]].witness(data["value"])
    return {"kind": NAME, "actions": [refusal], "oracle": oracle, "refusal": refusal, "broken": refusal}


@dataclass
class Retained(Scenario):
    """Any scenario, with the measure of retention after its own."""

    inner: Scenario

    def __post_init__(self) -> None:
        """Be seated, credited and batched as the inner scenario."""
        for name in ("credit", "seats", "attacker", "nano", "batch"):
            setattr(self, name, getattr(self.inner, name))

    def stream(self, order: int) -> Stream:
        """Return the inner stream with one measure more, shared by all splits."""
        stream = self.inner.stream(order)
        return replace(stream, measures=(*stream.measures, Measure(NAME, (tasks(),), shared=True)))

    def play(self, task: Task) -> Play:
        """Return an episode of the measure, or one of the inner scenario."""
        return episode(task) if task.kind == NAME else self.inner.play(task)

    def bounds(self, tasks: Sequence[Task]) -> Bounds:
        """Return the inner bounds; of the measure what refusing earns, and 1: every form can be kept."""
        if not tasks or tasks[0].kind != NAME:
            return self.inner.bounds(tasks)
        refusal = prompts.piece(NAME, "refusal")
        return Bounds(sum(kept(task.data, refusal) for task in tasks) / len(tasks), 1.0, 1.0)

    def warmup(self) -> Sequence[Task]:
        """Return the inner tasks."""
        return self.inner.warmup()

    def allow_graders(self, allowed: bool) -> None:
        """Tell the inner scenario."""
        self.inner.allow_graders(allowed)

    def length(self, task: Task) -> int | None:
        """Return 1 for a task of the measure."""
        return 1 if task.kind == NAME else self.inner.length(task)

    def sampling(self) -> Sampling:
        """Return the inner defaults."""
        return self.inner.sampling()

    def facts(self) -> Json:
        """Return the inner facts and the version of the measure."""
        return {**self.inner.facts(), NAME: VERSION}
