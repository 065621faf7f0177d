"""Makes the manifests of the text games: `make_manifests.py` writes them, `--check` compares them with the files.

Boards come from the engine, seed by seed upwards, so the result depends on nothing but the constants below.
"""

import argparse
import itertools
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from claasbench import draws
from claasbench.scenarios import _solve
from claasbench.scenarios._engine import TEXTARENA, Engine, board
from claasbench.scenarios._grid import OEL_ROUNDS, GridScenario, Room
from claasbench.scenarios._manifest import FOLDER, board_hash, seal
from claasbench.scenarios.frozen_lake import FrozenLake
from claasbench.scenarios.sokoban import Sokoban

GAMES: tuple[type[GridScenario], ...] = (FrozenLake, Sokoban)

DATA_SEEDS = {"main": 710_000_000, "dev": 820_000_000}
"""Where `shift` begins to look for boards; every room has a stretch of its own."""
STRETCH = 1_000_000
SIZES = {"train": 32, "measured": 64, "again": 32}

HELD_OUT, EXTRACTION_TASKS, DEPLOY_TASKS = 128, 25, 20 * 64
OEL_TEST, OEL_EXTRACTION, OEL_DEPLOY = 468_460_046, 468_460_046, 505_209_463
OEL_DEV = 930_000_000

INNERMOST = re.compile(r"\[\s+([^\[\]{}]*?)\s+\]")

Rows = tuple[str, ...]
Drawn = list[tuple[int, Rows]]


def draw(game: str, room: Room, seed: int) -> Rows:
    """Return the board that the engine makes of `seed`."""
    return board(Engine(game, room.settings, seed).opening[-1].text)


def suits(name: str, room: Room, rows: Rows) -> bool:
    """Return whether a board belongs to a room of `shift`: its start, and a win within the calls."""
    if name.endswith("mirrored") and rows[0][-1] != "P":
        return False
    return 0 <= _solve.optimal(_solve.parse(rows)) <= room.calls


def shift_sets(game: type[GridScenario], room: str, data: str, used: set[Rows]) -> dict[str, Drawn]:
    """Return the sets of a room of `shift`: new boards only, drawn in one go and then dealt, so that sets are alike."""
    names = [name for name in SIZES if name != "again" or room == next(iter(game.rooms))]
    need = sum(SIZES[name] for name in names)
    seed = DATA_SEEDS[data] + STRETCH * list(game.rooms).index(room)
    found: Drawn = []
    while len(found) < need:
        rows = draw(game.game, game.rooms[room], seed)
        if rows not in used and suits(room, game.rooms[room], rows):
            used = used | {rows}
            found.append((seed, rows))
        seed += 1
    dealt = iter(draws.shuffled(found, "manifest", game.game, room, data))
    return {f"{data}/{name}": [next(dealt) for _ in range(SIZES[name])] for name in names}


def boards_of(sets: dict[str, Drawn]) -> set[Rows]:
    """Return all boards of some sets."""
    return {rows for drawn in sets.values() for _, rows in drawn}


def shift(game: type[GridScenario]) -> dict[str, dict[str, Drawn]]:
    """Return all sets of `shift` by room.

    No board comes twice inside main or inside dev, nor in main and dev of one room. The two do share boards across
    the plain and the exchanged room: only some 334 boards of that size exist.
    """
    rooms: dict[str, dict[str, Drawn]] = {room: {} for room in game.rooms}
    for data in DATA_SEEDS:
        used: set[Rows] = set()
        for room, sets in rooms.items():
            found = shift_sets(game, room, data, used | boards_of(sets))
            used |= boards_of(found)
            sets |= found
    return rooms


def oel_seeds() -> dict[str, list[int]]:
    """Return the reference's seeds: 128 held-out maps, and per round its extraction and deploy games."""
    seeds = {"main/measured": [OEL_TEST + 1000 * i for i in range(HELD_OUT)]}
    for r in range(1, OEL_ROUNDS + 1):
        extraction = [OEL_EXTRACTION + 500_000 * r + 1000 * (HELD_OUT + j) for j in range(EXTRACTION_TASKS)]
        deploy = [OEL_DEPLOY + 10**7 * (r - 1) + 1000 * t for t in range(64, 64 + DEPLOY_TASKS)]
        seeds[f"main/round-{r}"] = extraction + deploy
    return seeds


def oel(game: type[GridScenario]) -> dict[str, dict[str, Drawn]]:
    """Return all sets of `oel`: main as the reference draws it, dev of our seeds without main's boards.

    Only 19 boards exist on the 3x3 lake, so its dev keeps them.
    """
    ((name, room),) = game.oel_rooms.items()
    sets = {key: [(seed, draw(game.game, room, seed)) for seed in seeds] for key, seeds in oel_seeds().items()}
    fresh = _fresh(game.game, room, set() if game is FrozenLake else boards_of(sets))
    dev = {key.replace("main", "dev"): [next(fresh) for _ in drawn] for key, drawn in sets.items()}
    return {name: sets | dev}


def _fresh(game: str, room: Room, used: set[Rows]) -> Iterator[tuple[int, Rows]]:
    seed = OEL_DEV
    while True:
        rows = draw(game, room, seed)
        if rows not in used:
            yield seed, rows
        seed += 1000


def shelf(game: type[GridScenario], room: Room, sets: dict[str, Drawn]) -> dict[str, Any]:
    """Return a room as a manifest holds it: every distinct board once, and per set rows of seed and board number."""
    numbers: dict[Rows, int] = {}
    rows_of = {
        key: [[seed, numbers.setdefault(rows, len(numbers))] for seed, rows in drawn] for key, drawn in sets.items()
    }
    # Without its name, a room looks like any other with the engine's settings; only the exchange then sets it apart.
    doubtful = {other.exchanged for other in game.rooms.values() if other.settings == room.settings} == {True, False}
    boards = [entry(game.game, room, rows, doubtful) for rows in numbers]
    return {"settings": room.settings, "calls": room.calls, "boards": boards, "sets": rows_of}


def entry(game: str, room: Room, rows: Rows, doubtful: bool) -> list[Any]:
    """Return the row of a board: cells, hash, optimal length, chance, and the best without knowing up from down."""
    solved = _solve.parse(rows)
    best = _solve.optimal(solved)
    unsure = _solve.unsure(solved, room.calls) if doubtful else float(0 <= best <= room.calls)
    chance = round(_solve.chance(solved, room.calls), 9)
    return ["/".join(rows), board_hash(game, room.settings, rows), best, chance, unsure]


def manifest(game: type[GridScenario], family: str) -> str:
    """Return the text of a manifest: JSON with one board or one task a line."""
    rooms = game.rooms if family == "shift" else game.oel_rooms
    drawn = shift(game) if family == "shift" else oel(game)
    shelves = {name: shelf(game, rooms[name], sets) for name, sets in drawn.items()}
    body = {"game": game.game, "family": family, "textarena": TEXTARENA, "rooms": shelves}
    text = json.dumps({"sha256": seal(body), **body}, indent=0)
    return INNERMOST.sub(lambda row: "[" + re.sub(r"\s+", "", row[1]) + "]", text) + "\n"


def main() -> int:
    """Write the manifests, or compare them with the files; the exit code counts the files that differ."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare with the files instead of writing them")
    check = parser.parse_args().check
    differing = 0
    for game, family in itertools.product(GAMES, ("shift", "oel")):
        path = Path(str(FOLDER)) / f"{game.game}-{family}.json"
        text = manifest(game, family)
        if check:
            same = path.is_file() and path.read_text(encoding="utf-8") == text
            differing += not same
            print(f"{path.name}: {'as made' if same else 'differs'}")
        else:
            path.write_text(text, encoding="utf-8")
            print(f"{path.name}: written, {len(text)} bytes")
    return differing


if __name__ == "__main__":
    sys.exit(main())
