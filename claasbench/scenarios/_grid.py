"""What FrozenLake and Sokoban share: the protocols, and how manifests become streams, bounds and facts."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, NamedTuple, TypeVar

from claasbench import draws
from claasbench.errors import ClaasbenchError, invalid, unknown
from claasbench.scenarios import _engine, _play, _texts
from claasbench.scenarios._manifest import Entry, Manifest, load
from claasbench.scenarios.base import Numberer, Scenario
from claasbench.types import Bounds, Json, Measure, Play, Sampling, Split, Stream, Task

T = TypeVar("T")

PROTOCOLS = ("shift", "drift", "return", "oel")
DATA = ("main", "dev")
OEL_ROUNDS = 3
OEL_SAMPLING = Sampling(temperature=0.7, top_p=0.8, top_k=20, max_tokens=1024)
HELD_OUT = "held-out"


@dataclass(frozen=True, slots=True)
class Room:
    """A task family: `settings` are the engine's, `name` is how a prompt calls the room."""

    kind: str
    name: str
    settings: Json
    calls: int
    exchanged: bool = False
    """Up and down trade places between the model and the engine."""


class Part(NamedTuple):
    """One split of a protocol: its name, its room, and the manifest's set of training tasks."""

    split: str
    room: str
    train: str


@dataclass
class GridScenario(Scenario):
    """A stream of rooms that hide their rules; the prompts are one user message with the whole log."""

    nano: ClassVar[str] = "nano-grid"

    game: ClassVar[str]
    rooms: ClassVar[Mapping[str, Room]]
    """The rooms of `shift` by the name of their split, in the order of training."""
    oel_rooms: ClassVar[Mapping[str, Room]]
    """The one room of `oel`."""
    oel_note: ClassVar[str] = ""

    protocol: str = "shift"
    """shift (named rooms), drift (rooms without names), return (ends with the first room) or oel (the reference's)."""
    data: str = "main"
    """main, or its twin dev from other data seeds, for tuning."""
    splits: int = 0
    """Splits to keep, from the first; 0 keeps all."""
    tasks_per_split: int = 0
    """Training tasks per split; 0 takes all of the manifest (32; oel: 25 for extraction and 1280 more a round)."""
    measured_per_split: int = 0
    """Measured tasks per split (oel: in all); 0 takes all of the manifest (64; oel: 128)."""
    prompts: str = ""
    """A TOML file whose texts (prompt, room, goal, lost, invalid, budget) replace ours."""

    def __post_init__(self) -> None:
        if self.protocol not in PROTOCOLS:
            raise unknown("scenario.protocol", self.protocol, PROTOCOLS)
        if self.data not in DATA:
            raise unknown("scenario.data", self.data, DATA)
        self._plan = _first(self._parts(), self.splits, "splits")

    def stream(self, order: int) -> Stream:
        """Return the stream; `order` permutes training tasks inside their split (not in `oel`)."""
        _engine.check()
        numberer = Numberer()
        trains = [self._tasks(numberer, part.room, part.train, "tasks_per_split") for part in self._plan]
        measured = self._plan[:1] if self._oel else self._plan
        cells = [self._tasks(numberer, part.room, "measured", "measured_per_split") for part in measured]
        splits = [
            Split(part.split, self._rooms[part.room].kind, tuple(self._ordered(train, order, part.split)))
            for part, train in zip(self._plan, trains, strict=True)
        ]
        return Stream(tuple(splits), (Measure(HELD_OUT, tuple(cells), shared=self._oel),))

    def play(self, task: Task) -> Play:
        """Return one episode; success is the goal reached within the calls."""
        return _play.episode(task, self._loaded_texts)

    def bounds(self, tasks: Sequence[Task]) -> Bounds:
        """Return the exact means of uniformly random play, of shortest play, and of one policy over all splits.

        Where rooms have names, one policy can know each room, so the last two are equal. In `drift` the room with up
        and down exchanged looks like the one without: there the last is the mean, over both mappings, of the best
        policy that does not know which it faces and may spend calls on finding out.
        """
        if not tasks:
            return Bounds(math.nan, math.nan, math.nan)
        entries = [self._manifest.boards[task.data["hash"]] for task in tasks]
        chance = _mean(entry.chance for entry in entries)
        ceiling = _mean(0 <= task.data["optimal"] <= task.data["calls"] for task in tasks)
        doubtful = self.protocol == "drift" and any(self._rooms[part.room].exchanged for part in self._plan)
        return Bounds(chance, ceiling, _mean(entry.unsure for entry in entries) if doubtful else ceiling)

    def length(self, task: Task) -> int:
        """Return the calls of the task's room."""
        calls: int = task.data["calls"]
        return calls

    def sampling(self) -> Sampling:
        """Return the sampling of the reference for `oel`, plain sampling with short answers otherwise."""
        return OEL_SAMPLING if self._oel else Sampling(temperature=1.0, max_tokens=64)

    def facts(self) -> Json:
        """Return versions and hashes, how many boards there are and how many measured ones were trained on."""
        stream = self.stream(0)
        train = {task.data["hash"] for split in stream.splits for task in split.train}
        measured = [task.data["hash"] for cell in stream.measures[0].cells for task in cell]
        facts = {
            "textarena": _engine.TEXTARENA,
            "protocol": self.protocol,
            "data": self.data,
            "manifest": self._manifest.sha256,
            "prompts": self._loaded_texts.digest,
            "boards_train": len(train),
            "boards_measured": len(set(measured)),
            "seen_share": _mean(board in train for board in measured),
        }
        return facts | ({"note": self.oel_note} if self._oel and self.oel_note else {})

    @property
    def _oel(self) -> bool:
        return self.protocol == "oel"

    @property
    def _rooms(self) -> Mapping[str, Room]:
        return self.oel_rooms if self._oel else self.rooms

    @cached_property
    def _manifest(self) -> Manifest:
        return load(self.game, "oel" if self._oel else "shift")

    @cached_property
    def _loaded_texts(self) -> _texts.Texts:
        return _texts.load(self._oel, self.prompts)

    def _parts(self) -> list[Part]:
        if self._oel:
            (room,) = self.oel_rooms
            return [Part(f"round-{r}", room, f"round-{r}") for r in range(1, OEL_ROUNDS + 1)]
        parts = [Part(room, room, "train") for room in self.rooms]
        first = parts[0].room
        return parts + [Part(f"{first}-again", first, "again")] * (self.protocol == "return")

    def _tasks(self, numberer: Numberer, room: str, group: str, setting: str) -> tuple[Task, ...]:
        place = self._rooms[room]
        shelf = self._manifest.shelves[room]
        if (shelf.settings, shelf.calls) != (place.settings, place.calls):
            raise ClaasbenchError(
                f"the manifest of {self.game} {room} was made for {shelf.settings}, {shelf.calls} calls"
            )
        rows = _first(shelf.sets[f"{self.data}/{group}"], getattr(self, setting), setting)
        return tuple(numberer.task(place.kind, seed, self._data(place, entry)) for seed, entry in rows)

    def _data(self, room: Room, entry: Entry) -> Json:
        return {
            "game": self.game,
            "settings": room.settings,
            "board": list(entry.board),
            "hash": entry.hash,
            "calls": room.calls,
            "room": "" if self.protocol == "drift" else room.name,
            "exchanged": room.exchanged,
            "optimal": entry.optimal,
            "parser": "oel" if self._oel else "brackets",
        }

    def _ordered(self, tasks: Sequence[Task], order: int, split: str) -> Sequence[Task]:
        return tasks if self._oel else draws.shuffled(tasks, "order", self.game, order, split)


def _first(items: Sequence[T], count: int, setting: str) -> Sequence[T]:
    if not 0 <= count <= len(items):
        raise invalid(f"scenario.{setting}", count, f"0 (all) to {len(items)}")
    return items[:count] if count else items


def _mean(values: Iterable[float]) -> float:
    items = list(values)
    return math.fsum(items) / len(items)
