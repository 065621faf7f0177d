"""Hidden worlds of the other game: which sign is pushed and which one it has to be pushed onto."""

from __future__ import annotations

import random
import re
from dataclasses import dataclass

from world import FLOOR, NAMED, SIGNS, UNKNOWN, WINS, bearing, moves, toss

from claasbench.scenarios import _solve
from claasbench.scenarios._engine import Engine, Line, board
from claasbench.scenarios._play import Log
from claasbench.scenarios._solve import STEPS, Cell
from claasbench.scenarios._texts import Texts
from claasbench.types import Prompt

MOVES = "moves"
WALL = "wall"
SIZES = ((5, 5), (5, 6), (7, 6))
"""Rows and columns; the streams have other ones."""
FACTS = (
    "Push {0} onto {1} to win.",
    "{0} moves when it is stepped onto. {1} wins when {0} is on it.",
    "The game is won when {0} is on {1}.",
)
"""What there is to know: {0} is what is pushed, {1} where it has to be."""

_ROW = re.compile(r"^(?:[#_OXP√] )+[#_OXP√]$", re.MULTILINE)


@dataclass(frozen=True)
class Turn:
    """One turn of a game of boxes: the question and the best answer, for one who knows and for one who does not."""

    prompt: Prompt
    box: str
    target: str
    knowing: str
    ignorant: str


def turn(rng: random.Random, texts: Texts, room: str) -> Turn:
    """Draw a turn: a fresh board of the engine, signs renamed, after a few moves of a shortest win."""
    while True:
        box, target = rng.sample(SIGNS, 2)
        if {box, target} not in ({"X", "O"}, {"G", "H"}):
            break
    names = str.maketrans({"X": box, "O": target})
    engine = Engine("sokoban", {"dim_room": list(rng.choice(SIZES)), "num_boxes": 1}, rng.randrange(2**31))
    rows = board(engine.opening[-1].text)
    ground = _solve.parse(rows)
    left = _solve.distances(ground)
    state = ground.start
    log = Log(texts, room, [renamed(line, names) for line in engine.opening])
    prompt = log.prompt(log.introduction)
    for _ in range(rng.randrange(min(left[state], 6))):
        move = rng.choice(best(ground, left, state))
        state = ground.move(state, move)[1]
        prompt = log.add(f"[{move}]", [renamed(line, names) for line in engine.act(f"[{move}]")])
    signs = dict.fromkeys(state.boxes, box) | dict.fromkeys(ground.goals, target)
    words = bearing(state.player, next(iter(state.boxes)))
    answers = [
        answer(ground, state, room, signs, roles, toss(rng, words, ways))
        for roles, ways in (
            ({box: MOVES, target: WINS}, best(ground, left, state)),
            ({}, towards(ground, state)),
        )
    ]
    return Turn(prompt, box, target, *answers)


def renamed(line: Line, names: dict[int, str]) -> Line:
    """Return a line of the engine with the signs of its board renamed."""
    return Line(line.type, _ROW.sub(lambda row: row[0].translate(names), line.text))


def best(ground: _solve.Board, left: dict[_solve.State, int], state: _solve.State) -> list[str]:
    """Return the first moves of shortest wins."""
    after = {move: left.get(to, 99) for move in STEPS if (to := ground.move(state, move)[1]) != state}
    return [move for move, steps in after.items() if steps == min(after.values())]


def towards(ground: _solve.Board, state: _solve.State) -> list[str]:
    """Return the first steps of shortest ways onto the box's cell, for one who takes every sign for floor."""
    (goal,) = state.boxes
    found: dict[Cell, int] = {goal: 0}
    queue = [goal]
    for cell in queue:
        for row, column in STEPS.values():
            to = (cell[0] + row, cell[1] + column)
            if to in ground.floor and to not in found:
                found[to] = found[cell] + 1
                queue.append(to)
    after = {move: found.get(shifted(state.player, move), 99) for move in STEPS}
    return [move for move, steps in after.items() if steps == min(after.values())]


def shifted(cell: Cell, move: str) -> Cell:
    """Return the cell one step on."""
    return cell[0] + STEPS[move][0], cell[1] + STEPS[move][1]


def answer(
    ground: _solve.Board,
    state: _solve.State,
    room: str,
    signs: dict[Cell, str],
    roles: dict[str, str],
    chosen: tuple[str, str],
) -> str:
    """Return the answer with a bearing and a direction."""
    words, way = chosen
    here = {move: shifted(state.player, move) for move in STEPS}
    seen = {move: signs.get(cell, FLOOR) if cell in ground.floor else WALL for move, cell in here.items()}
    names = list(dict.fromkeys(signs[cell] for cell in sorted(signs) if cell != state.player))
    (goal,) = state.boxes
    around = ", ".join(f"{move} {what}" for move, what in seen.items())
    known = ", ".join(f"{sign} {roles.get(sign, UNKNOWN)}" for sign in names)
    place = f"I am at ({state.player[0]}, {state.player[1]}). Around me: {around}."
    aim = f"{signs[goal]} is at ({goal[0]}, {goal[1]}): {words}"
    return f"{place} Signs: {known}. {aim}. {moves(room, NAMED)}. I step {way} onto {seen[way]}: [{way}]"
