"""TextArena behind one small class: raw typed messages, no rules text, and the process as it was before."""

from __future__ import annotations

import random
import re
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from importlib.metadata import PackageNotFoundError, version
from typing import Any, NamedTuple

from claasbench.errors import ClaasbenchError

TEXTARENA = "0.7.4"
"""The only version whose boards and texts our manifests and prompts were made with."""

IDS = {"frozen-lake": "FrozenLake-v0-raw", "sokoban": "Sokoban-v0-raw"}
HIDDEN = ("PROMPT", "PLAYER_ACTION")
"""Message types that are never shown: the rules, and the engine's echo of what it was sent (we write our own)."""

_LOCK = threading.Lock()  # the generators draw from process-wide and module-wide state
_ROW = re.compile(r"^(?:\|[ HGP|]+\||[#_OXP√ ]+)$", re.MULTILINE)


class Line(NamedTuple):
    """One message of the engine; `type` is its TextArena type."""

    type: str
    text: str


class Result(NamedTuple):
    """How the engine ended a game; `invalid` is the rule of two invalid moves in a row."""

    won: bool
    invalid: bool
    reason: str


def check() -> None:
    """Refuse every TextArena but the pinned one."""
    try:
        found = version("textarena")
    except PackageNotFoundError:
        found = "none"
    if found != TEXTARENA:
        raise ClaasbenchError(
            f"the text games need textarena {TEXTARENA}, found {found}: pip install textarena=={TEXTARENA}"
        )


def board(text: str) -> tuple[str, ...]:
    """Return the rows of a GAME_BOARD message, one character a cell, a dot for an empty one."""
    rows = []
    for row in _ROW.findall(text):
        cells = [cell.strip() or "." for cell in row.strip("|").split("|")] if "|" in row else row.split()
        rows.append("".join(cells))
    return tuple(rows)


class Engine:
    """One fresh raw environment, for one episode."""

    def __init__(self, game: str, settings: Mapping[str, Any], seed: int) -> None:
        check()
        with _borrowed():
            import textarena  # late: it costs half a second and draws from the global random state

            self._env = textarena.make(IDS[game], **settings)
            self._env.reset(num_players=1, seed=seed)
            self.opening = self._said()
        self.done = False

    def act(self, action: str) -> list[Line]:
        """Play one action and return what the engine says to it."""
        with _borrowed():
            self.done, _ = self._env.step(action)
            return self._said()

    def result(self) -> Result:
        """Return how the game ended; a game that is still open counts as not won, with no reason."""
        rewards, info = self._env.close()
        won = rewards is not None and rewards[0] == 1  # everything below 1 is the engine's own partial credit
        return Result(won, bool(info[0]["invalid_move"]), str(info[0].get("reason", "")))

    def _said(self) -> list[Line]:
        _, messages = self._env.get_observation()
        return [Line(kind.name, text) for _, text, kind in messages if kind.name not in HIDDEN]


@contextmanager
def _borrowed() -> Iterator[None]:
    with _LOCK, redirect_stdout(sys.stderr):  # standard output is for machines, and the engine prints warnings there
        state = random.getstate()
        try:
            yield
        finally:
            random.setstate(state)
