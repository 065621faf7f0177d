"""The one loop: play a split once, let the learner learn, save a checkpoint, measure it, commit."""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from claasbench import __version__, draws, record
from claasbench.config import RunConfig, digest
from claasbench.errors import ClaasbenchError, invalid, unknown
from claasbench.learners.base import Learner
from claasbench.policies.base import Policy
from claasbench.rollout import Game, Table, play
from claasbench.scenarios.base import Scenario
from claasbench.store import Store
from claasbench.types import LEARNER, SCORED, Episode, Event, Key, Measure, Place, Stream, Update

NAME = re.compile(r"\w[\w.+-]*")
"""What splits and measures may be called: they become file names."""

INIT = -1
"""The row of the untrained policy."""


def check_stream(stream: Stream) -> None:
    """Refuse a stream that could not be told apart on disk or would break single use (a fault of its scenario)."""
    splits, measures = stream.splits, stream.measures
    names = [split.name for split in splits], [measure.name for measure in measures]
    ids = [task.id for split in splits for task in split.train]
    ids += [task.id for measure in measures for cell in measure.cells for task in cell]
    faults = {
        "no split or no measure": not splits or not measures,
        "two splits or two measures of one name": any(len(set(group)) != len(group) for group in names),
        "a name that is no plain file name": not all(NAME.fullmatch(name) for group in names for name in group),
        "a task id that occurs twice": len(set(ids)) != len(ids),
        "a measure without exactly one cell per split (or one shared cell)": any(
            len(measure.cells) != (1 if measure.shared else len(splits)) for measure in measures
        ),
    }
    for fault, found in faults.items():
        if found:
            raise ClaasbenchError(f"the scenario's stream has {fault}")


def chosen(stream: Stream, names: Sequence[str]) -> list[Measure]:
    """Return the measures that the setting measure.names asks for, in the order of the stream."""
    if not names:
        raise invalid("measure.names", list(names), 'names of measures, "headline" or "all"')
    known = {measure.name: measure for measure in stream.measures}
    wanted: set[str] = set()
    for name in names:
        if name not in known and name not in ("headline", "all"):
            raise unknown("measure.names", name, [*known, "headline", "all"])
        wanted |= {stream.measures[0].name} if name == "headline" else set(known) if name == "all" else {name}
    return [measure for measure in stream.measures if measure.name in wanted]


@dataclass
class Runner:
    """One run of one configuration in one folder; `events()` does the work and tells about it."""

    config: RunConfig
    resolved: dict[str, Any]
    scenario: Scenario
    learner: Learner
    seats: dict[str, Policy]
    store: Store
    stop: bool = False
    """Set from outside: stop at the end of the unit under way."""
    _pending: int = 0  # units since the last commit
    _seconds: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Build the stream and hand the policies to the learner."""
        self.stream = self.scenario.stream(self.config.trial.order)
        self.measures = chosen(self.stream, self.config.measure.names)
        self.learner.setup(self.seats, self.config.trial.seed)
        self.cursor = dict(self.store.cursor)

    def events(self) -> Iterator[Event]:
        """Run from the last commit to the end, or to a stop between two units."""
        if self.cursor:
            self.learner.load(self.store.live / "learner")
            yield Event("resume", self._where(), note="; ".join(self.store.repaired))
        else:
            self._commit(row=INIT, phase="measure", batch=0)
        yield Event("start", self._where(), total=len(self.stream.splits))
        work = {"train": self._train, "end": self._end_split, "measure": self._row}
        while self.cursor["phase"] != "done" and not self._stopping():
            yield from work[self.cursor["phase"]](self.cursor["row"])
        if self._pending:
            self._commit(**self.cursor)
        yield Event("end" if self.cursor["phase"] == "done" else "stop", self._where())

    def _train(self, row: int) -> Iterator[Event]:
        """One unit: play one batch with everything frozen, then let the learner look at it."""
        split, width, number = self.stream.splits[row], self.config.stream.batch, self.cursor["batch"]
        batch = split.train[number * width : (number + 1) * width]
        seats = self.seats | {LEARNER: self.learner.policy}
        games = [Game(task, Place(split.name, row), 0, seats) for task in batch]
        episodes: list[Episode] = []
        yield Event("play", self._where(), number * width, len(split.train), note="training")
        for episode in self._play("train", row, games, width):
            episodes.append(episode)
            yield Event("episode", self._where(), number * width + len(episodes), len(split.train), episode)
        scored = [episode.experience for episode in episodes if episode.status in SCORED]
        yield from self._learn(self.learner.observe(scored))
        more = (number + 1) * width < len(split.train)
        yield from self._unit_done(row=row, phase="train" if more else "end", batch=number + 1 if more else 0)

    def _end_split(self, row: int) -> Iterator[Event]:
        """One unit per step that the learner yields at the end of a split."""
        for event in self._learn(self.learner.end_split(self.stream.splits[row].name)):
            yield event
            yield from self._unit_done(**self.cursor)
            if self._stopping():
                return
        self.cursor["phase"] = "measure"

    def _row(self, row: int) -> Iterator[Event]:
        """One unit: save the checkpoint of `row`, measure it (or copy an equal row), and write its done.json."""
        name = record.row_name(row, self.stream)
        state = self._checkpoint(name)
        equal = self._equal_row(row, state)
        last = row == len(self.stream.splits) - 1
        if equal:
            yield Event("copy", name, note=equal["name"])
        elif self.config.measure.rows == "all" or row == INIT or last:
            yield from self._measure(row, name)
        self._write_seconds(row)
        self.store.write(f"splits/{name}/done.json", record.done_bytes(self._done(row, name, state, equal)))
        if notes := self.learner.notes():
            self.store.write(f"splits/{name}/notes.md", notes.encode())
        self._commit(row=row if last else row + 1, phase="done" if last else "train", batch=0)
        yield Event("row", name, row + 1, len(self.stream.splits))

    def _measure(self, row: int, name: str) -> Iterator[Event]:
        """Play every cell of every measure, one lockstep queue per variant."""
        for variant, policy in self.learner.variants().items():
            seats = self.seats | {LEARNER: policy}
            games = [
                Game(task, Place(split, row, measure.name, variant), attempt, seats)
                for measure in self.measures
                for split, tasks in record.cells(measure, self.stream)
                for task in tasks
                for attempt in range(self.config.measure.attempts)
            ]
            doing = "measuring" if variant == LEARNER else f"measuring {variant}"
            yield Event("play", name, total=len(games), note=doing)
            for done, episode in enumerate(self._play("measure", row, games, self.config.measure.width), 1):
                yield Event("episode", name, done, len(games), episode)

    def _play(self, table: str, row: int, games: Sequence[Game], width: int) -> Iterator[Episode]:
        """Play `games`, write each episode down as it comes, and count the time."""
        folder = f"splits/{record.row_name(row, self.stream)}"
        rules = Table(self.scenario, self.config.sampling[table], self._draw(table))
        start = time.perf_counter()
        for episode in play(rules, games, width):
            self.store.append(f"{folder}/episodes.jsonl", [record.episode_row(episode)])
            self.store.append(f"{folder}/turns.jsonl", record.turn_rows(episode))
            self._clock("play" if table == "train" else table, start)
            yield episode
            start = time.perf_counter()

    def _draw(self, table: str) -> Callable[[Key], int]:
        """Return the seed of an answer: measured draws know neither order nor row, so all rows share them."""
        trial = self.config.trial
        parts = ("train", trial.order, trial.seed) if table == "train" else ("measure", trial.seed)
        return lambda key: draws.seed(*parts, *key)

    def _learn(self, steps: Iterator[Update]) -> Iterator[Event]:
        """Run the learner's steps, write each down, and count the time."""
        start = time.perf_counter()
        for update in steps:
            # NaN and infinities have no place in JSON: such a metric is written as null
            metrics = {name: value if abs(value) < float("inf") else None for name, value in update.metrics.items()}
            where = {"row": self.cursor["row"], "phase": self.cursor["phase"], "name": update.name}
            self.store.append("updates.jsonl", [where | {"metrics": metrics}])
            self._clock("learn", start)
            yield Event("update", self._where(), update=update)
            start = time.perf_counter()
        self._clock("learn", start)

    def _checkpoint(self, name: str) -> str:
        """Save the learner into the row's folder and return the hash of its state."""
        start = time.perf_counter()
        hasher = hashlib.sha256()
        with self.store.scratch() as folder:
            self.learner.save(folder)
            for path in sorted(p for p in folder.rglob("*") if p.is_file()):
                hasher.update(path.relative_to(folder).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
            self.store.adopt(f"splits/{name}/checkpoint", folder)
        self._clock("save", start)
        return hasher.hexdigest()

    def _equal_row(self, row: int, state: str) -> dict[str, Any] | None:
        """Return the done.json of an earlier measured row with the same learner state."""
        for earlier in range(INIT, row):
            done = record.read_done(self.store.folder, record.row_name(earlier, self.stream))
            if done and done["state"] == state and done["measures"] and not record.failed(done):
                return done
        return None

    def _done(self, row: int, name: str, state: str, equal: dict[str, Any] | None) -> dict[str, Any]:
        """Return the done.json of a row, read back from what its units wrote."""
        folder = self.store.folder
        own = folder / "splits" / name
        split = None if row == INIT else self.stream.splits[row]
        return {
            "claasbench": __version__,
            "row": row,
            "name": name,
            "copied": (equal["copied"] or equal["name"]) if equal else None,
            "state": state,
            "served": self.learner.policy.served,
            "digest": digest(self.config.tables(), self.resolved),
            "config": self.config.tables(),
            "resolved": self.resolved,
            **record.stream_row(self.stream),
            "live": record.live(own, split.name, split.train, self.scenario) if split else None,
            "measures": equal["measures"] if equal else record.measured(own, self.measures, self.stream, self.scenario),
            "updates": record.updates(folder / "updates.jsonl", row),
            "seconds": record.seconds(folder / "timing.jsonl", row),
        }

    def _unit_done(self, **cursor: Any) -> Iterator[Event]:  # noqa: ANN401 (row, phase, batch)
        """Move the cursor past a unit and commit when enough units have gathered."""
        self.cursor = cursor
        self._pending += 1
        if self._pending >= self.config.checkpoint.every:
            self._write_seconds(cursor["row"])
            self._commit(**cursor)
            yield Event("commit", self._where())

    def _commit(self, **cursor: Any) -> None:  # noqa: ANN401 (row, phase, batch)
        def save(folder: Path) -> None:
            (folder / "learner").mkdir()
            self.learner.save(folder / "learner")

        self.store.commit(cursor, save)
        self.cursor, self._pending = dict(cursor), 0

    def _write_seconds(self, row: int) -> None:
        if self._seconds:
            self.store.append("timing.jsonl", [{"row": row, "ended": time.time(), "seconds": self._seconds}])
        self._seconds = {}

    def _clock(self, phase: str, start: float) -> None:
        self._seconds[phase] = self._seconds.get(phase, 0.0) + time.perf_counter() - start

    def _where(self) -> str:
        return record.row_name(self.cursor["row"], self.stream) if self.cursor else ""

    def _stopping(self) -> bool:
        return self.stop or self.store.stop_asked()
