"""No attack: the scenario's harmless message, once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from claasbench.attackers.base import Attacker
from claasbench.errors import ClaasbenchError
from claasbench.policies.base import Policy
from claasbench.types import Message, Request, Sample, Stream


class _Harmless(Policy):
    served = "none"

    def sample(self, requests: Sequence[Request]) -> list[Sample]:
        return [self._say(request) for request in requests]

    def _say(self, request: Request) -> Sample:
        view = request.prompt.view or {}
        return Sample("" if view["tries"] else str(view["harmless"]), served=self.served)

    def count(self, messages: Sequence[Message]) -> int:
        return 0


@dataclass
class Nothing(Attacker):
    """Sends each scenario's harmless message as its only try."""

    def check(self, stream: Stream) -> None:
        """Refuse rows without a harmless message."""
        if not all("twin" in task.data for split in stream.splits for task in split.train):
            raise ClaasbenchError("attacker.name = 'none': the rows of a data file have no harmless message to send")

    def setup(self, seat: Policy, measured: bool) -> None:
        """Take the seat alone."""
        self.policy = _Harmless()
