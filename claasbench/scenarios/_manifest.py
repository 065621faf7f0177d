"""The shipped lists of boards: seed, settings, hash, optimal length and chance of every task, sealed by one hash."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

from claasbench.errors import ClaasbenchError
from claasbench.types import Json, content_hash

FOLDER = files(__package__) / "_manifests"
MADE_BY = "experiments/textgames/make_manifests.py"


class Entry(NamedTuple):
    """A board and the exact values of play on it; `unsure` as in _solve.unsure."""

    board: tuple[str, ...]
    hash: str
    optimal: int
    chance: float
    unsure: float


@dataclass(frozen=True, slots=True)
class Shelf:
    """One room: its settings and call budget, and per set of tasks the seeds with their boards."""

    settings: Json
    calls: int
    sets: Mapping[str, tuple[tuple[int, Entry], ...]]


@dataclass(frozen=True, slots=True)
class Manifest:
    """One game and protocol family; `boards` finds an entry by its hash."""

    sha256: str
    shelves: Mapping[str, Shelf]
    boards: Mapping[str, Entry]


def board_hash(game: str, settings: Json, board: Sequence[str]) -> str:
    """Return 16 hex digits over what a board is: its game, the engine's settings and its rows."""
    return content_hash([game, settings, list(board)])[:16]


def seal(body: Json) -> str:
    """Return the hash that seals the body of a manifest."""
    return content_hash(body)


@cache
def load(game: str, family: str) -> Manifest:
    """Return the manifest of a game and protocol family; one that was changed is refused."""
    name = f"{game}-{family}.json"
    body: dict[str, Any] = json.loads((FOLDER / name).read_text(encoding="utf-8"))
    expected = body.pop("sha256")
    if (found := seal(body)) != expected:
        raise ClaasbenchError(
            f"manifest {name} was changed: its rows hash to {found[:16]}, expected {expected[:16]}; {MADE_BY} makes it"
        )
    shelves = {}
    boards: dict[str, Entry] = {}
    for room, shelf in body["rooms"].items():
        entries = [Entry(tuple(rows.split("/")), *values) for rows, *values in shelf["boards"]]
        boards |= {entry.hash: entry for entry in entries}
        sets = {key: tuple((seed, entries[index]) for seed, index in rows) for key, rows in shelf["sets"].items()}
        shelves[room] = Shelf(shelf["settings"], shelf["calls"], sets)
    return Manifest(expected, shelves, boards)
