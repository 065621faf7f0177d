"""Sokoban of TextArena: push every box onto a target; what the signs mean and how boxes move is not told."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from claasbench.scenarios import _grid
from claasbench.types import Json


def _room(rows: int, columns: int, boxes: int) -> Json:
    return {"dim_room": [rows, columns], "num_boxes": boxes}


@dataclass
class Sokoban(_grid.GridScenario):
    """Three rooms of boxes: a small one, a larger one, and one with two boxes."""

    game: ClassVar[str] = "sokoban"
    rooms: ClassVar[Mapping[str, _grid.Room]] = {
        "6x6": _grid.Room("sokoban 6x6/1", "control desk A", _room(6, 6, 1), 10),
        "7x7": _grid.Room("sokoban 7x7/1", "control desk B", _room(7, 7, 1), 10),
        "6x6-two-boxes": _grid.Room("sokoban 6x6/2", "control desk C", _room(6, 6, 2), 15),
    }
    oel_rooms: ClassVar[Mapping[str, _grid.Room]] = {
        "6x6": _grid.Room("sokoban 6x6/1", "", _room(6, 6, 1), 5),
    }
    oel_note: ClassVar[str] = (
        "Boards are neither filtered nor kept apart, as in the reference: some cannot be solved within five calls "
        "(see the ceiling), and some measured ones are also trained on (see the seen share); dev leaves out main's."
    )
