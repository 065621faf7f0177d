"""Exact chances and ceilings of the text games, against published counts, the engine and a random player."""

import itertools
import math

import pytest

from claasbench import draws
from claasbench.scenarios import _solve
from claasbench.scenarios._engine import Engine, board
from claasbench.scenarios._manifest import board_hash, load
from claasbench.scenarios.frozen_lake import FrozenLake
from claasbench.scenarios.sokoban import Sokoban
from claasbench.types import Sample

GAMES = (FrozenLake, Sokoban)
STREAMS = list(itertools.product(GAMES, ("shift", "drift", "return", "oel"), ("main", "dev")))


def win(scenario, task, choose):
    """Play `task` with `choose(prompt)` to the end and return the score."""
    play = scenario.play(task)
    prompt = next(play)
    while True:
        try:
            prompt = play.send(Sample(choose(prompt)))
        except StopIteration as stop:
            return stop.value.score


def distinct(tasks):
    return {tuple(task.data["board"]) for task in tasks}


# --- the reference's 128 maps


@pytest.mark.parametrize(
    ("game", "maps", "chance", "solvable"), [(FrozenLake, 19, 0.016891, 128), (Sokoban, 121, 0.1640, 113)]
)
def test_the_held_out_maps_of_oel(game, maps, chance, solvable):
    scenario = game("oel")
    (cell,) = scenario.stream(0).measures[0].cells
    assert len(cell) == 128
    assert len(distinct(cell)) == maps
    boards = [_solve.parse(task.data["board"]) for task in cell]
    exact = math.fsum(_solve.chance(board, 5) for board in boards) / 128
    assert exact == pytest.approx(chance, abs=10 ** -len(str(chance).split(".")[1]))
    assert sum(0 <= _solve.optimal(board) <= 5 for board in boards) == solvable
    bounds = scenario.bounds(cell)
    assert bounds.chance == pytest.approx(exact, abs=1e-9)
    assert bounds.ceiling == bounds.one_policy == solvable / 128


def test_the_lake_of_oel_is_always_four_moves_long():
    entries = load("frozen-lake", "oel").boards.values()
    assert len(entries) == 19
    assert {entry.optimal for entry in entries} == {4}


# --- manifests


@pytest.mark.parametrize(("game", "family"), list(itertools.product(GAMES, ("shift", "oel"))))
def test_manifest_rows_are_what_the_solver_and_the_engine_say(game, family):
    rooms = game.rooms if family == "shift" else game.oel_rooms
    for name, shelf in load(game.game, family).shelves.items():
        rows = [row for group in shelf.sets.values() for row in group]
        for seed, entry in rows[:: max(1, len(rows) // 8)]:
            made = board(Engine(game.game, rooms[name].settings, seed).opening[-1].text)
            assert made == entry.board
            assert board_hash(game.game, shelf.settings, made) == entry.hash
            solved = _solve.parse(made)
            assert entry.optimal == _solve.optimal(solved)
            assert entry.chance == pytest.approx(_solve.chance(solved, shelf.calls), abs=1e-9)


@pytest.mark.parametrize("game", GAMES)
def test_every_board_of_shift_can_be_won(game):
    for protocol, data in itertools.product(("shift", "drift", "return"), ("main", "dev")):
        scenario = game(protocol, data)
        stream = scenario.stream(0)
        for tasks in (*(split.train for split in stream.splits), *stream.measures[0].cells):
            bounds = scenario.bounds(tasks)
            assert (bounds.ceiling, bounds.one_policy) == (1.0, 1.0)
            assert 0 < bounds.chance < 0.25


def test_bounds_of_nothing_are_unknown():
    assert all(math.isnan(value) for value in FrozenLake().bounds([]))


# --- play


@pytest.mark.parametrize(("game", "protocol", "data"), STREAMS)
def test_the_oracle_reaches_every_ceiling(game, protocol, data):
    few = data == "dev" or protocol == "drift"  # drift measures the boards of shift
    scenario = game(protocol, data, measured_per_split=16 if few else 0)
    for cell in scenario.stream(0).measures[0].cells:
        wins = sum(win(scenario, task, lambda prompt: prompt.view["oracle"]) for task in cell)
        assert wins == scenario.bounds(cell).ceiling * len(cell)


@pytest.mark.parametrize(
    ("game", "protocol", "cell", "attempts"),
    [(FrozenLake, "oel", 0, 12), (FrozenLake, "shift", 2, 16), (Sokoban, "oel", 0, 3), (Sokoban, "shift", 1, 3)],
)
def test_a_random_player_wins_as_often_as_the_exact_chance(game, protocol, cell, attempts):
    scenario = game(protocol)
    tasks = scenario.stream(0).measures[0].cells[cell]

    def player(task, attempt):
        turns = itertools.count()
        return lambda prompt: draws.choice(prompt.view["actions"], "random player", task.id, attempt, next(turns))

    wins = sum(win(scenario, task, player(task, attempt)) for task in tasks for attempt in range(attempts))
    chances = [scenario.bounds([task]).chance for task in tasks]
    expected = attempts * math.fsum(chances)
    error = math.sqrt(attempts * math.fsum(p * (1 - p) for p in chances))
    assert abs(wins - expected) <= 3 * error


@pytest.mark.parametrize("game", GAMES)
def test_the_solver_moves_as_the_engine_does(game):
    """Walk at random and compare every board the engine shows with the solver's state."""
    for name, room in game.rooms.items():
        seeds = [seed for seed, _ in load(game.game, "shift").shelves[name].sets["main/train"][:6]]
        for seed in seeds:
            engine = Engine(game.game, room.settings, seed)
            rows = board(engine.opening[-1].text)
            solved = _solve.parse(rows)
            state = solved.start
            for turn in range(20):
                action = draws.choice(list(_solve.STEPS), "walk", seed, turn)
                said = engine.act(f"[{action}]")
                end, state = solved.move(state, action)
                assert (end == "blocked") == any(line.type == "GAME_ADMIN" for line in said) or engine.done
                if engine.done:
                    assert (end == "won") == engine.result().won
                    break
                if end == "moved":
                    shown = _solve.parse([row.replace("√", "X") for row in board(said[-1].text)])
                    assert shown.start == state


# --- not knowing up from down


def brute_force_unsure(solved, calls):
    """Best mean over both mappings of every policy that maps what it saw to an action, by trying all of them."""

    def value(worlds, left):
        """`worlds`: (mapping, state, warned, alive) of the games that look the same so far."""
        if left == 0 or not worlds:
            return 0.0
        return max(outcome(worlds, action, left) for action in _solve.STEPS)

    def outcome(worlds, action, left):
        total, seen = 0.0, {}
        for exchanged, state, warned in worlds:
            real = _solve.EXCHANGED[action] if exchanged else action
            end, after = solved.move(state, real)
            total += end == "won"
            if end == "moved" or (end == "blocked" and not warned):
                seen.setdefault((end, real), []).append((exchanged, after, end == "blocked"))
        return total + sum(value(group, left - 1) for group in seen.values())

    return value([(False, solved.start, False), (True, solved.start, False)], calls) / 2


@pytest.mark.parametrize(
    ("rows", "calls"),
    [
        (["P..", "H..", "..G"], 4),  # no call to spare: a bump that tells the mapping costs the game
        (["P..", "H..", "..G"], 5),
        (["H.H", "PH.", "..G"], 4),  # a hole above and the way below: asking may kill
        (["H.H", "P..", "H.G"], 6),
        (["P.H", ".H.", "..G"], 5),
    ],
)
def test_not_knowing_the_mapping_equals_trying_everything(rows, calls):
    solved = _solve.parse(rows)
    assert _solve.unsure(solved, calls) == pytest.approx(brute_force_unsure(solved, calls))


def test_drift_costs_nothing_where_a_call_is_to_spare():
    """The first row is left by a safe cell below it, so either mapping moves down or bumps, and both tell."""
    for room in ("4x4", "4x4-exchanged"):
        for _, entry in load("frozen-lake", "shift").shelves[room].sets["main/measured"]:
            assert _solve.unsure(_solve.parse(entry.board), 10) == entry.unsure == 1.0
            assert _solve.unsure(_solve.parse(entry.board), 6) < 1.0
