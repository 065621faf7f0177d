"""Policies without a model and with known values: random, oracle, silent, and three weak defenders."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from claasbench import draws
from claasbench.errors import ClaasbenchError, unknown
from claasbench.policies.base import Policy
from claasbench.types import Json, Message, Request, Sample


def _random(request: Request, view: Json) -> str:
    return str(draws.choice(view["actions"], request.seed, 0))


def _oracle(request: Request, view: Json) -> str:
    return str(view["oracle"])


def _silent(request: Request, view: Json) -> str:
    return ""


def _echo(request: Request, view: Json) -> str:
    return request.prompt.messages[-1].content


def _refuse(request: Request, view: Json) -> str:
    return str(view["refusal"])


def _obey(request: Request, view: Json) -> str:
    return str(view["broken"])


REPLIES: dict[str, Callable[[Request, Json], str]] = {
    "random": _random, "oracle": _oracle, "silent": _silent, "echo": _echo, "refuse": _refuse, "obey": _obey,
}  # fmt: skip


@dataclass
class Scripted(Policy):
    """Answers from the prompt's view: "random" draws one of its actions, "oracle" gives its best, "silent" nothing.

    "echo" repeats what was said last; in scenarios with an attacker "refuse" always refuses and "obey" always breaks.
    """

    model: str
    """scripted:random, scripted:oracle, ..."""

    def __post_init__(self) -> None:
        """Refuse an unknown name."""
        self.served = self.model
        if self.model.removeprefix("scripted:") not in REPLIES:
            raise unknown("policy.model", self.model, [f"scripted:{name}" for name in REPLIES])
        self._reply = REPLIES[self.model.removeprefix("scripted:")]

    def sample(self, requests: Sequence[Request]) -> list[Sample]:
        """Answer each request from its view; a scenario without one cannot be played by a script."""
        return [self._answer(request) for request in requests]

    def _answer(self, request: Request) -> Sample:
        if request.prompt.view is None:
            raise ClaasbenchError(f"policy.model = {self.served!r} cannot play: this scenario gives scripts no view")
        try:
            text = self._reply(request, request.prompt.view)
        except KeyError as missing:
            raise ClaasbenchError(f"policy.model = {self.served!r} cannot play: its view has no {missing}") from None
        return Sample(text, served=self.served, sampling=request.sampling)

    def count(self, messages: Sequence[Message]) -> int:
        """Return the number of words."""
        return sum(len(message.content.split()) for message in messages)
