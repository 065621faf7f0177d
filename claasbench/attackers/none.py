"""No attack: the scenario's harmless message, once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from claasbench.attackers.base import Attacker
from claasbench.policies.base import Policy
from claasbench.types import Message, Request, Sample


class _Harmless(Policy):
    served = "none"

    def sample(self, requests: Sequence[Request]) -> list[Sample]:
        return [self._say(request) for request in requests]

    def _say(self, request: Request) -> Sample:
        view = request.prompt.view or {}
        return Sample("" if view.get("tries") else str(view.get("harmless", "")), served=self.served)

    def count(self, messages: Sequence[Message]) -> int:
        return 0


@dataclass
class Nothing(Attacker):
    """Sends each scenario's harmless message as its only try."""

    def setup(self, seat: Policy, measured: bool) -> None:
        """Take the seat alone."""
        self.policy = _Harmless()
