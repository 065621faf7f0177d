"""Which episodes a page can hold, and their turns: all that failed, then a seeded sample of the others."""

from __future__ import annotations

import hashlib
import heapq
import json
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from claasbench.report.cautions import where
from claasbench.report.numbers import Method, Section
from claasbench.report.results import Run
from claasbench.store import read_lines
from claasbench.types import LEARNER, SCORED, Json

MOST = 2000
"""Episodes on a page."""
ROOM = 9_000_000
"""Bytes of JSON that all of them may take."""
TEXT = 6000
"""Characters of one text; of a longer one the middle is left out."""
KEY = ("task", "attempt", "measure", "variant")
TRAINING = "training"


@dataclass(frozen=True, slots=True)
class Sample:
    """What a page shows of the recorded episodes."""

    episodes: list[Json]
    recorded: int
    """How many there are in all."""
    failed: int
    """How many of these have no score."""

    @property
    def told(self) -> str:
        """Which episodes these are, in a sentence."""
        shown, lost = len(self.episodes), sum(episode["outcome"] == "failed" for episode in self.episodes)
        if not self.recorded:
            return "No episodes were recorded with these runs: only their done.json files were kept."
        if shown == self.recorded:
            return f"All {shown} recorded episodes."
        kept = f"all {lost}" if lost == self.failed else f"{lost} of the {self.failed}"
        return f"{shown} of {self.recorded} recorded episodes: {kept} that failed, then a seeded sample of the others."


@dataclass(frozen=True, slots=True)
class _Found:
    """One recorded episode, before its turns are read."""

    rank: tuple[bool, str]  # failed ones first, then by a hash
    place: int  # in the order of the study
    method: str
    run: Run
    folder: Path
    row: Json


def sample(sections: Sequence[Section], most: int = MOST, room: int = ROOM) -> Sample:
    """Choose at most `most` episodes that take at most `room` bytes, the same ones every time, in the study's order."""
    counts = {"recorded": 0, "failed": 0}

    def counted() -> Iterator[_Found]:
        for found in _recorded(sections):
            counts["recorded"] += 1
            counts["failed"] += not found.rank[0]
            yield found

    chosen = heapq.nsmallest(most, counted(), key=lambda found: (found.rank, found.place))
    turns = _turns(chosen)
    told, size = {}, 0
    for found in chosen:
        episode = _episode(found, turns[found.place])
        size += len(json.dumps(episode))
        if size > room:
            break
        told[found.place] = episode
    return Sample([told[place] for place in sorted(told)], **counts)


def _recorded(sections: Sequence[Section]) -> Iterator[_Found]:
    place = 0
    for method, run, folder in _folders(sections):
        for row in read_lines(folder / "episodes.jsonl", torn=True):
            key = json.dumps([run.digest, folder.name, *_key(row)])
            rank = (row["status"] in SCORED, hashlib.sha256(key.encode()).hexdigest())
            yield _Found(rank, place, method.short, run, folder, row)
            place += 1


def _folders(sections: Sequence[Section]) -> Iterator[tuple[Method, Run, Path]]:
    for method in (method for section in sections for method in section.methods):
        for run in method.runs:
            names = [row.name for row in run.rows if row and not row.copied]
            yield from ((method, run, run.folder / "splits" / name) for name in names)


def _key(row: Json) -> tuple[Any, ...]:
    return tuple(row.get(name) for name in KEY)


def _turns(chosen: Sequence[_Found]) -> dict[int, list[Json]]:
    """Return the turns of every chosen episode by its place; each file is read once."""
    turns: dict[int, list[Json]] = {found.place: [] for found in chosen}
    files: dict[Path, dict[tuple[Any, ...], int]] = {}
    for found in chosen:
        files.setdefault(found.folder, {})[_key(found.row)] = found.place
    for folder, places in files.items():
        for row in read_lines(folder / "turns.jsonl", torn=True):
            if (place := places.get(_key(row))) is not None:
                turns[place].append(row)
    return turns


def _episode(found: _Found, turns: Sequence[Json]) -> Json:
    row, run = found.row, found.run
    variant = row.get("variant", LEARNER)
    command = ["claasbench", "show", str(run.folder), "--row", found.folder.name, "--task", row["task"]]
    return {
        "method": shown(found.method if variant == LEARNER else f"{found.method} · {variant}"),
        "scenario": shown(run.config["scenario"]["name"]),
        "trial": where(run.trial),
        "show": shown(shlex.join(command), TEXT),
        "row": shown(found.folder.name),
        "measure": shown(row.get("measure", TRAINING)),
        "split": shown(row.get("split", "")),
        "task": shown(row["task"]),
        "attempt": row["attempt"],
        "score": row["score"],
        "outcome": _outcome(row),
        "status": shown(row["status"]),
        "end": shown(row.get("end", "")),
        "strategies": sorted({shown(attack.split("/")[0]) for attack in row.get("attacks", ())}),
        "turns": [_turn(turn) for turn in turns],
    }


def _outcome(row: Json) -> str:
    """Say how an episode went in one word."""
    if row["status"] not in SCORED:
        return "failed"
    return "won" if row["score"] >= 1 else "lost" if row["score"] <= 0 else "in part"


def _turn(turn: Json) -> Json:
    texts = {name: shown(turn[name] or "", TEXT) for name in ("news", "text", "feedback")}
    named = {name: shown(turn[name] or "") for name in ("seat", "finish", "served")}
    return {"reward": turn["reward"], **texts, **named}


def shown(text: str, most: int = 200) -> str:
    """Return text with every sign that cannot be seen spelled out, and without its middle if it is too long."""
    if len(text) > most:
        tail = most // 4
        left_out = len(text) - most
        text = f"{text[: most - tail]}\n[... {left_out} characters left out ...]\n{text[-tail:]}"
    return text if text.isprintable() else "".join(map(_visible, text))


def _visible(char: str) -> str:
    return (
        char
        if char.isprintable() or char in "\n\t"
        else f"\N{LEFT-POINTING ANGLE BRACKET}U+{ord(char):04X}\N{RIGHT-POINTING ANGLE BRACKET}"
    )
