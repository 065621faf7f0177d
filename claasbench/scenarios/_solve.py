"""Exact answers about a board: shortest play, what random play wins, and what a player unsure of up and down wins."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal, NamedTuple, TypeAlias

Cell: TypeAlias = tuple[int, int]
End: TypeAlias = Literal["moved", "blocked", "won", "lost"]

STEPS: dict[str, Cell] = {"up": (-1, 0), "down": (1, 0), "left": (0, -1), "right": (0, 1)}
EXCHANGED = {"up": "down", "down": "up", "left": "left", "right": "right"}


class State(NamedTuple):
    """Where the player and the boxes are (no boxes on a frozen lake)."""

    player: Cell
    boxes: frozenset[Cell]


@dataclass(frozen=True, slots=True)
class Board:
    """The part of a room that never moves, and where a game starts."""

    floor: frozenset[Cell]
    holes: frozenset[Cell]
    goals: frozenset[Cell]
    start: State

    def move(self, state: State, action: str) -> tuple[End, State]:
        """Return what `action` does; a blocked move leaves the state and is invalid to the engine."""
        to = _next(state.player, action)
        boxes = state.boxes
        if to not in self.floor:
            return "blocked", state
        if to in boxes:
            beyond = _next(to, action)
            if beyond not in self.floor or beyond in boxes:
                return "blocked", state
            boxes = boxes - {to} | {beyond}
        after = State(to, boxes)
        if to in self.holes:
            return "lost", after
        return ("won" if (boxes or {to}) <= self.goals else "moved"), after


def parse(rows: Sequence[str]) -> Board:
    """Return the board that `rows` draw, in the symbols of either game."""
    cells = {(r, c): symbol for r, row in enumerate(rows) for c, symbol in enumerate(row)}

    def where(symbols: str) -> frozenset[Cell]:
        return frozenset(cell for cell, symbol in cells.items() if symbol in symbols)

    (player,) = where("P")
    return Board(frozenset(cells) - where("#"), where("H"), where("GO"), State(player, where("X")))


def distances(board: Board) -> dict[State, int]:
    """Return the fewest calls to a win from every undecided state that can be reached and still be won."""
    before: dict[State, list[State]] = {}
    final: list[State] = []
    seen = {board.start}
    queue = deque([board.start])
    while queue:
        state = queue.popleft()
        for action in STEPS:
            end, after = board.move(state, action)
            if end not in ("won", "moved"):
                continue
            before.setdefault(after, []).append(state)
            if after not in seen:
                seen.add(after)
                (queue if end == "moved" else final).append(after)
    found = dict.fromkeys(final, 0)
    queue = deque(final)
    while queue:
        state = queue.popleft()
        for earlier in before.get(state, ()):
            if earlier not in found:
                found[earlier] = found[state] + 1
                queue.append(earlier)
    return found


def optimal(board: Board) -> int:
    """Return the fewest calls that win `board`; -1 where it cannot be won."""
    return distances(board).get(board.start, -1)


def best(board: Board, left: Mapping[State, int], state: State) -> str | None:
    """Return the first action of a shortest win from `state` (`left` = its distances); None where none is left."""
    wins = {action: left.get(after) for action in STEPS if (after := board.move(state, action)[1]) != state}
    known = {action: distance for action, distance in wins.items() if distance is not None}
    return min(known, key=known.__getitem__) if known else None


def chance(board: Board, calls: int) -> float:
    """Return how often uniformly random actions win within `calls`; two blocked moves in a row lose."""

    def after(state: State, action: str, warned: bool, left: int) -> float:
        end, then = board.move(state, action)
        if end == "won":
            return 1.0
        if end == "lost" or (end == "blocked" and warned):
            return 0.0
        return value(then, end == "blocked", left)

    @cache
    def value(state: State, warned: bool, left: int) -> float:
        if left == 0:
            return 0.0
        return sum(after(state, action, warned, left - 1) for action in STEPS) / len(STEPS)

    return value(board.start, False, calls)


def unsure(board: Board, calls: int) -> float:
    """Return what the best player wins who does not know whether up and down are exchanged, both equally likely.

    The belief starts unknown and becomes certain with the first vertical action that the game survives: the engine
    says what it did. From then on the game is won where a shortest win still fits into the calls left.
    """
    left_of = distances(board)

    def certain(state: State, left: int) -> float:
        return float(left_of.get(state, left + 1) <= left)

    def after(state: State, action: str, warned: bool, left: int) -> float:
        end, then = board.move(state, action)
        if end == "won":
            return 1.0
        if end == "lost" or (end == "blocked" and warned):
            return 0.0
        if action != EXCHANGED[action]:
            return certain(then, left)
        return value(then, end == "blocked", left)

    @cache
    def value(state: State, warned: bool, left: int) -> float:
        if left == 0:
            return 0.0
        return max(
            (after(state, action, warned, left - 1) + after(state, EXCHANGED[action], warned, left - 1)) / 2
            for action in STEPS
        )

    return value(board.start, False, calls)


def _next(cell: Cell, action: str) -> Cell:
    return cell[0] + STEPS[action][0], cell[1] + STEPS[action][1]
