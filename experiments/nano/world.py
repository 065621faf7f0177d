"""Hidden worlds: a lake whose signs and move names mean something else each time, and the expert who knows part of it.

In every world one sign wins and one loses; either the one that stands once on the board or the one that is repeated.
A panel's name hides what its moves do. The expert answers as well as what has been revealed allows: a sign of which
nothing is known is floor to it, and where no sign is known to win it heads for the one that stands alone.
"""

from __future__ import annotations

import random
import string
from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from claasbench.scenarios._engine import Line, Result
from claasbench.scenarios._solve import STEPS, Cell

WINS, LOSES, UNKNOWN = "wins", "loses", "unknown"
PLAYER = "P"
SIGNS = [letter for letter in string.ascii_uppercase if letter != PLAYER]
FLOOR, EDGE = "floor", "edge"
HERE = "here"

KEYS: dict[str, dict[str, str]] = {
    "as named": {},
    "up and down exchanged": {"up": "down", "down": "up"},
    "left and right exchanged": {"left": "right", "right": "left"},
}
"""What a panel's moves do: the move names that mean another one."""
NAMED = "as named"

ACTIONS = "Available Actions: " + ", ".join(f"[{word}]" for word in (*STEPS, "w", "a", "s", "d"))
WALL = "You tried to move {move} but hit a wall!"
INVALID = (
    "You attempted an invalid move. Reason: {reason} "
    "Please resubmit a valid move and remember to follow the game rules to avoid penalties."
)


@dataclass(frozen=True)
class World:
    """What is hidden: the sign that wins, the sign that loses, and what the moves of each panel do (see KEYS)."""

    winner: str
    loser: str
    panels: Mapping[str, str]

    @property
    def signs(self) -> tuple[str, str]:
        """The sign that wins and the sign that loses."""
        return self.winner, self.loser

    def role(self, sign: str) -> str:
        """Return what stepping onto `sign` does."""
        return {self.winner: WINS, self.loser: LOSES}.get(sign, UNKNOWN)


@dataclass(frozen=True)
class Layout:
    """A board of `size` x `size` cells: where its signs are, and where a game starts."""

    size: int
    start: Cell
    signs: Mapping[Cell, str]

    def where(self, sign: str) -> list[Cell]:
        """Return the cells of `sign` in reading order."""
        return sorted(cell for cell, found in self.signs.items() if found == sign)

    def names(self) -> list[str]:
        """Return the signs in the order in which a reader meets them."""
        return list(dict.fromkeys(self.signs[cell] for cell in sorted(self.signs)))

    def single(self) -> list[str]:
        """Return the signs, the rarest first; ties as a reader meets them."""
        counts = Counter(self.signs.values())
        return sorted(self.names(), key=counts.__getitem__)

    def next(self, cell: Cell, move: str) -> Cell | None:
        """Return the cell one step on; None beyond the edge."""
        row, column = cell[0] + STEPS[move][0], cell[1] + STEPS[move][1]
        return (row, column) if 0 <= row < self.size and 0 <= column < self.size else None

    def distances(self, goals: Iterable[Cell], closed: Iterable[Cell]) -> dict[Cell, int]:
        """Return the steps from every cell to the nearest of `goals` without entering `closed`."""
        found = dict.fromkeys(goals, 0)
        shut = set(closed)
        queue = deque(found)
        while queue:
            cell = queue.popleft()
            for move in STEPS:
                before = self.next(cell, move)
                if before is not None and before not in found and before not in shut:
                    found[before] = found[cell] + 1
                    queue.append(before)
        return found

    def drawn(self, player: Cell) -> str:
        """Return the board as the engine draws it."""
        rule = "+" + "-----+" * self.size
        shown = {**self.signs, player: PLAYER}
        rows = ["|" + "".join(f"  {shown.get((r, c), ' ')}  |" for c in range(self.size)) for r in range(self.size)]
        return "\n".join([rule, *(line for row in rows for line in (row, rule))])


class Lake:
    """The engine of one game in one world: says what TextArena's FrozenLake would say if its signs were these."""

    def __init__(self, layout: Layout, world: World) -> None:
        self.layout = layout
        self.world = world
        self.player = layout.start
        self.warned = self.done = False
        self.won = self.invalid = False
        self.reason = ""
        self.opening = [self._board()]

    def act(self, move: str) -> list[Line]:
        """Play one move (already translated by the panel) and return what the engine says."""
        to = self.layout.next(self.player, move)
        if to is None:
            return self._refused(move)
        self.warned = False
        self.player = to
        said = [Line("GAME_ACTION_DESCRIPTION", f"You moved {move} to position ({to[0]}, {to[1]}).")]
        role = self.world.role(self.layout.signs.get(to, ""))
        if role == WINS:
            self.done, self.won, self.reason = True, True, "Congratulations! You reached the goal!"
        if role == LOSES:
            share = f"You completed {round(self._journey() * 100)}% of the journey to the goal."
            self.done, self.reason = True, f"You fell into a hole! Game over. {share}"
        return [*said, self._board()]

    def result(self) -> Result:
        """Return how the game ended."""
        return Result(self.won, self.invalid, self.reason)

    def _refused(self, move: str) -> list[Line]:
        reason = WALL.format(move=move)
        if self.warned:
            self.done, self.invalid, self.reason = True, True, f"Invalid Move: {reason}"
            return [self._board()]
        self.warned = True
        return [Line("GAME_ADMIN", INVALID.format(reason=reason)), self._board()]

    def _board(self) -> Line:
        return Line("GAME_BOARD", f"Current Board:\n\n{self.layout.drawn(self.player)}\n\n{ACTIONS}")

    def _journey(self) -> float:
        goal = self.layout.where(self.world.winner)[0]
        start = self.layout.start
        whole = abs(goal[0] - start[0]) + abs(goal[1] - start[1])
        gone = abs(self.player[0] - start[0]) + abs(self.player[1] - start[1])
        return max(min(gone / whole, 0.95), 0.1)


@dataclass
class Known:
    """What has been revealed: roles by sign, and what the moves of panels do by their names."""

    roles: dict[str, str] = field(default_factory=dict)
    panels: dict[str, str] = field(default_factory=dict)

    def role(self, sign: str) -> str:
        """Return the known role of `sign`, or that it is unknown."""
        return self.roles.get(sign, UNKNOWN)


@dataclass(frozen=True)
class Plan:
    """What the expert would do: the sign and cell it heads for, and the directions that are equally good."""

    sign: str
    cell: Cell
    moves: Sequence[str]


def plan(layout: Layout, player: Cell, known: Known) -> Plan:
    """Return the best moves given what is known, along a shortest way that enters no sign known to lose."""
    losers = [cell for cell, sign in layout.signs.items() if known.role(sign) == LOSES]
    order = layout.single()
    wanted = [s for s in order if known.role(s) == WINS] + [s for s in order if known.role(s) == UNKNOWN] + order
    sign = wanted[0]
    reach = {cell: layout.distances([cell], losers) for cell in layout.where(sign)}
    cell = min(reach, key=lambda cell: (reach[cell].get(player, 99), cell))
    left = reach[cell]
    after = {move: left.get(to, 99) for move in STEPS if (to := layout.next(player, move)) is not None}
    shortest = min(after.values())
    return Plan(sign, cell, [move for move, steps in after.items() if steps == shortest])


@dataclass(frozen=True)
class Choice:
    """Where the expert goes: its plan, the bearing of its target as it writes it, and the direction of the step."""

    plan: Plan
    bearing: str
    move: str


def choose(rng: random.Random, layout: Layout, player: Cell, known: Known) -> Choice:
    """Return a choice: a coin orders the words of the bearing, and of equally good moves the first of them is taken.

    So chance is in one word that knows nothing of the signs beside the player, and the step follows from what is
    written: the likeliest answers without knowledge are no better than drawn ones.
    """
    found = plan(layout, player, known)
    return Choice(found, *toss(rng, bearing(player, found.cell), found.moves))


def toss(rng: random.Random, words: list[str], moves: Sequence[str]) -> tuple[str, str]:
    """Return the words of a bearing in any order, and the first of them that is a good move (else any good one)."""
    words = rng.sample(words, len(words))
    ranked = [word for word in words if word in moves]
    return " ".join(words) or HERE, ranked[0] if ranked else rng.choice(moves)


def reply(layout: Layout, player: Cell, known: Known, panel: str, keys: str, chosen: Choice) -> str:
    """Return the answer: what is seen, what is known, where to, what the moves do, and the step by its name here."""
    signs = ", ".join(f"{sign} {known.role(sign)}" for sign in layout.names())
    goal, move = chosen.plan, chosen.move
    aim = f"{goal.sign} is at ({goal.cell[0]}, {goal.cell[1]}): {chosen.bearing}"
    onto = what(layout, player, move)
    name = KEYS[keys].get(move, move)
    return f"{seen(layout, player)} Signs: {signs}. {aim}. {moves(panel, keys)}. I step {move} onto {onto}: [{name}]"


def moves(panel: str, keys: str) -> str:
    """Return what the moves do here; naming the panel first makes the fact about it easy to find."""
    return f"Moves at {panel}: {keys}" if panel else f"Moves: {keys}"


def seen(layout: Layout, player: Cell) -> str:
    """Return what is seen from `player`: where that is, and what lies around."""
    around = ", ".join(f"{way} {what(layout, player, way)}" for way in STEPS)
    return f"I am at ({player[0]}, {player[1]}). Around me: {around}."


def what(layout: Layout, player: Cell, move: str) -> str:
    """Return what lies one step on: a sign, floor or the edge."""
    to = layout.next(player, move)
    return EDGE if to is None else layout.signs.get(to, FLOOR)


def bearing(source: Cell, target: Cell) -> list[str]:
    """Return where `target` lies, seen from `source`: up to two directions."""
    rows, columns = target[0] - source[0], target[1] - source[1]
    vertical = "down" if rows > 0 else "up" if rows < 0 else ""
    horizontal = "right" if columns > 0 else "left" if columns < 0 else ""
    return [word for word in (vertical, horizontal) if word]
