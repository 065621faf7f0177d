"""FrozenLake of TextArena: reach the goal of a frozen grid; what the signs mean and what the moves do is not told."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from claasbench.scenarios import _grid
from claasbench.types import Json


def _lake(size: int, holes: int, random_corner: bool = False) -> Json:
    return {"size": size, "num_holes": holes, "randomize_start_goal": random_corner}


@dataclass
class FrozenLake(_grid.GridScenario):
    """Four rooms of frozen lake whose goal, words and size change; each is recognised by its name alone."""

    game: ClassVar[str] = "frozen-lake"
    rooms: ClassVar[Mapping[str, _grid.Room]] = {
        "4x4": _grid.Room("frozen-lake 4x4/3", "control panel A", _lake(4, 3), 10),
        "4x4-mirrored": _grid.Room("frozen-lake 4x4/3 mirrored", "control panel B", _lake(4, 3, True), 10),
        "4x4-exchanged": _grid.Room("frozen-lake 4x4/3 exchanged", "control panel C", _lake(4, 3), 10, exchanged=True),
        "5x5": _grid.Room("frozen-lake 5x5/5", "control panel D", _lake(5, 5), 15),
    }
    oel_rooms: ClassVar[Mapping[str, _grid.Room]] = {
        "3x3": _grid.Room("frozen-lake 3x3/2", "", _lake(3, 2), 5),
    }
    oel_note: ClassVar[str] = (
        "Only 19 boards of this size exist: training and measurement share them all, in main as in dev; "
        "held-out means other seeds, not other boards."
    )
