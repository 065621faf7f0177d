"""The one loop: play a split once, let the learner learn, save a checkpoint, measure it, commit."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from claasbench import __version__, draws, record, streams
from claasbench.config import RunConfig, digest
from claasbench.learners.base import Learner
from claasbench.opponents import Opponents, warm_draw
from claasbench.policies.base import Policy
from claasbench.rollout import Game, Table, play
from claasbench.scenarios.base import Scenario
from claasbench.store import Store
from claasbench.types import ATTACKER, LEARNER, SCORED, Episode, Event, Key, Place, Task, Update

INIT = -1
"""The row of the untrained policy."""

PINNED = "splits/init/attacker"
"""Where a run keeps the state that its measured attacker starts from."""


def _hash(folder: Path) -> str:
    """Return one hash over the names and bytes of all files of a folder."""
    hasher = hashlib.sha256()
    for path in sorted(p for p in folder.rglob("*") if p.is_file()):
        hasher.update(path.relative_to(folder).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return hasher.hexdigest()


@dataclass
class Runner:
    """One run of one configuration in one folder; `events()` does the work and tells about it."""

    config: RunConfig
    resolved: dict[str, Any]
    scenario: Scenario
    learner: Learner
    seats: dict[str, Policy]
    store: Store
    opponents: Opponents | None = None
    stop: bool = False
    """Set from outside: stop at the end of the unit under way."""
    _pending: int = 0  # units since the last commit
    _seconds: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Build the stream and hand the policies to the learner."""
        self.stream = self.scenario.stream(self.config.trial.order)
        self.measures = streams.chosen(self.stream, self.config.measure.names)
        self.learner.setup(self.seats, self.config.trial.seed)
        if self.opponents:
            self.opponents.setup(self.seats)
        self.cursor = dict(self.store.cursor)

    def events(self) -> Iterator[Event]:
        """Run from the last commit to the end, or to a stop between two units."""
        if self.cursor:
            self.learner.load(self.store.live / "learner")
            if self.opponents:
                self.opponents.live.load(self.store.live / "attacker")
                if self.cursor["phase"] != "warm":
                    self.opponents.load(self.store.folder / PINNED)
            yield Event("resume", self._where(), note="; ".join(self.store.repaired))
        else:
            self._commit(row=INIT, phase="warm" if self.opponents else "measure", batch=0)
        yield Event("start", self._where(), total=len(self.stream.splits))
        work = {"warm": self._warm, "train": self._train, "end": self._end_split, "measure": self._row}
        while self.cursor["phase"] != "done" and not self._stopping():
            yield from work[self.cursor["phase"]](self.cursor["row"])
        if self._pending:
            self._commit(**self.cursor)
        yield Event("end" if self.cursor["phase"] == "done" else "stop", self._where())

    def _warm(self, row: int) -> Iterator[Event]:
        """One unit: warm the measured attacker against the untrained policy and pin its state."""
        assert self.opponents  # the phase exists only with an attacker
        tasks, start = self.scenario.warmup(), time.perf_counter()
        rules = Table(self.scenario, self.config.sampling["measure"], warm_draw)
        seats = self._seats(self.seats[LEARNER], measured=True)

        def played(tasks: Sequence[Task]) -> Iterator[Episode]:
            return play(rules, [Game(task, Place("warm", row), 0, seats) for task in tasks], len(tasks))

        yield Event("play", self._where(), total=len(tasks), note="warming the attacker")
        for done, episode in enumerate(self.opponents.warm(tasks, played), 1):
            yield Event("episode", self._where(), done, len(tasks), episode)
        with self.store.scratch() as folder:
            self.opponents.save(folder)
            self.store.adopt(PINNED, folder)
        self._clock("warm", start)
        self._commit(row=row, phase="measure", batch=0)

    def _seats(self, policy: Policy, *, measured: bool) -> dict[str, Policy]:
        """Return who plays: `policy` for the learner, and the live or the measured attacker."""
        seats = self.seats | {LEARNER: policy}
        return seats | {ATTACKER: self.opponents.policy(measured)} if self.opponents else seats

    def _train(self, row: int) -> Iterator[Event]:
        """One unit: play one batch with everything frozen, then let the learner look at it."""
        split, width, number = self.stream.splits[row], self.config.stream.batch, self.cursor["batch"]
        batch = split.train[number * width : (number + 1) * width]
        seats = self._seats(self.learner.policy, measured=False)
        games = [Game(task, Place(split.name, row), 0, seats) for task in batch]
        episodes: list[Episode] = []
        yield Event("play", self._where(), number * width, len(split.train), note="training")
        for episode in self._play("train", row, games, width):
            episodes.append(episode)
            yield Event("episode", self._where(), number * width + len(episodes), len(split.train), episode)
        scored = [episode for episode in episodes if episode.status in SCORED]
        if self.opponents:
            self.opponents.live.observe(scored)
        yield from self._learn(self.learner.observe([episode.experience for episode in scored]))
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
        name = streams.row_name(row, self.stream)
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
            seats = self._seats(policy, measured=True)
            games = [
                Game(task, Place(split, row, measure.name, variant), attempt, seats)
                for measure in self.measures
                for split, tasks in streams.cells(measure, self.stream)
                for task in tasks
                for attempt in range(self.config.measure.attempts)
            ]
            doing = "measuring" if variant == LEARNER else f"measuring {variant}"
            yield Event("play", name, total=len(games), note=doing)
            for done, episode in enumerate(self._play("measure", row, games, self.config.measure.width), 1):
                yield Event("episode", name, done, len(games), episode)

    def _play(self, table: str, row: int, games: Sequence[Game], width: int) -> Iterator[Episode]:
        """Play `games`, write each episode down as it comes, and count the time."""
        folder = f"splits/{streams.row_name(row, self.stream)}"
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
        with self.store.scratch() as folder:
            self.learner.save(folder)
            state = _hash(folder)
            self.store.adopt(f"splits/{name}/checkpoint", folder)
        self._clock("save", start)
        return state

    def _equal_row(self, row: int, state: str) -> dict[str, Any] | None:
        """Return the done.json of an earlier measured row with the same learner state."""
        for earlier in range(INIT, row):
            done = record.read_done(self.store.folder, streams.row_name(earlier, self.stream))
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
            **self._pinned(),
            "digest": digest(self.config.tables(), self.resolved),
            "config": self.config.tables(),
            "resolved": self.resolved,
            **record.stream_row(self.stream),
            "live": record.live(own, split.name, split.train, self.scenario) if split else None,
            "measures": equal["measures"] if equal else record.measured(own, self.measures, self.stream, self.scenario),
            "updates": record.updates(folder / "updates.jsonl", row),
            "seconds": record.seconds(folder / "timing.jsonl", row),
        }

    def _pinned(self) -> dict[str, Any]:
        """Return which state the measured attacker starts from, and how many attacks it has learned from."""
        if not self.opponents:
            return {}
        return {"attacker": {"state": _hash(self.store.folder / PINNED), "attacks": self.opponents.attacks}}

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
            if self.opponents:
                (folder / "attacker").mkdir()
                self.opponents.live.save(folder / "attacker")

        self.store.commit(cursor, save)
        self.cursor, self._pending = dict(cursor), 0

    def _write_seconds(self, row: int) -> None:
        if self._seconds:
            self.store.append("timing.jsonl", [{"row": row, "ended": time.time(), "seconds": self._seconds}])
        self._seconds = {}

    def _clock(self, phase: str, start: float) -> None:
        self._seconds[phase] = self._seconds.get(phase, 0.0) + time.perf_counter() - start

    def _where(self) -> str:
        return streams.row_name(self.cursor["row"], self.stream) if self.cursor else ""

    def _stopping(self) -> bool:
        return self.stop or self.store.stop_asked()
