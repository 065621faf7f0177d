"""How an episode becomes rows on disk, and how a row's files become its done.json, which reports read alone."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from claasbench import streams
from claasbench.metrics import METRIC_VERSION
from claasbench.rollout import spent, tally
from claasbench.scenarios.base import Scenario
from claasbench.store import SCHEMA, read_lines
from claasbench.types import SCORED, Episode, Measure, Stream, Task

Row = dict[str, Any]
COUNTS = ("turns", "invalid", "no_action", "cut", "prompt_tokens", "prefilled", "reply_tokens", "retries")


def episode_row(episode: Episode) -> Row:
    """Return the short row of an episode: keys, score, status and counts, no text."""
    place = episode.place
    where = {"split": place.split, "measure": place.measure, "variant": place.variant}
    return {
        "task": episode.task,
        "attempt": episode.attempt,
        **{name: value for name, value in where.items() if value},
        "score": episode.score if episode.status in SCORED else None,
        "status": episode.status,
        **tally(episode),
        **({"others": others} if (others := spent(episode)) else {}),
        **{name: episode.info[name] for name in ("end", "marks", "attacks") if episode.info.get(name)},
    }


def turn_rows(episode: Episode) -> list[Row]:
    """Return the texts of all seats, each prompt as what was new in it."""
    place = episode.place
    key = {"task": episode.task, "attempt": episode.attempt}
    key |= {name: value for name, value in (("measure", place.measure), ("variant", place.variant)) if value}
    return [
        {
            **key,
            "turn": number,
            "seat": turn.prompt.seat,
            "news": turn.prompt.news,
            "text": turn.sample.text,
            "finish": turn.sample.finish,
            "served": turn.sample.served,
            "reward": turn.reward,
            "feedback": turn.feedback,
        }
        for number, turn in enumerate(episode.turns)
    ]


def cell(rows: Sequence[Row], split: str, tasks: Sequence[Task], scenario: Scenario) -> Row:
    """Return one cell of a done.json: scores by task with their counts and the range they stand in."""
    bounds = scenario.bounds(tasks) if tasks else (math.nan,) * 3
    counts = {name: sum(row[name] for row in rows) for name in COUNTS}
    statuses = [row["status"] for row in rows]
    counts |= {
        "episodes": len(rows),
        "overflow": statuses.count("overflow"),
        "failed": sum(status not in SCORED for status in statuses),
    }
    named = sorted({name for row in rows for name in row.get("marks", ())})
    marks = {name: [row.get("marks", {}).get(name) for row in rows] for name in named}
    attacks = _attacks(rows)
    others = _others(rows)
    return {
        "split": split,
        "tasks": [row["task"] for row in rows],
        "attempts": [row["attempt"] for row in rows],
        "scores": [row["score"] for row in rows],
        "statuses": statuses,
        "counts": counts,
        **(
            {"marks": {name: [row.get("marks", {}).get(name) for row in rows] for name in sorted(marks)}}
            if marks
            else {}
        ),
        **({"attacks": attacks} if attacks else {}),
        **({"others": others} if others else {}),
        **{
            name: None if math.isnan(value) else value
            for name, value in zip(("chance", "ceiling", "one_policy"), bounds, strict=True)
        },
    }


def _others(rows: Sequence[Row]) -> dict[str, list[int]]:
    """Return the prompt and reply tokens of all seats but the learner's."""
    found: dict[str, list[int]] = {}
    for seat, (prompt, reply) in (item for row in rows for item in row.get("others", {}).items()):
        before = found.get(seat, [0, 0])
        found[seat] = [before[0] + prompt, before[1] + reply]
    return dict(sorted(found.items()))


def _attacks(rows: Sequence[Row]) -> dict[str, list[int]]:
    """Return how often each attack was answered, and how often it broke a rule."""
    found: dict[str, list[int]] = {}
    for attack in (attack for row in rows for attack in row.get("attacks", ())):
        by, _, broken = attack.rpartition(">")
        tries = found.setdefault(by, [0, 0])
        tries[0] += 1
        tries[1] += bool(broken)
    return dict(sorted(found.items()))


def measured(folder: Path, measures: Iterable[Measure], stream: Stream, scenario: Scenario) -> list[Row]:
    """Return the measures of a row as its episodes.jsonl holds them."""
    groups: dict[tuple[str, str, str], list[Row]] = {}
    for row in read_lines(folder / "episodes.jsonl"):
        if "measure" in row:
            groups.setdefault((row["measure"], row["variant"], row.get("split", "")), []).append(row)
    variants = list(dict.fromkeys(variant for _, variant, _ in groups))
    return [
        {
            "name": measure.name,
            "shared": measure.shared,
            "variants": {
                variant: [
                    cell(groups.get((measure.name, variant, split), []), split, tasks, scenario)
                    for split, tasks in streams.cells(measure, stream)
                ]
                for variant in variants
            },
        }
        for measure in measures
        if groups
    ]


def live(folder: Path, split: str, tasks: Sequence[Task], scenario: Scenario) -> Row:
    """Return the cell of a split's own training episodes."""
    rows = [row for row in read_lines(folder / "episodes.jsonl") if "measure" not in row]
    return cell(rows, split, tasks, scenario)


def updates(file: Path, row: int) -> Row:
    """Return how many updates a row took and the metrics of the last one."""
    own = [entry for entry in read_lines(file) if entry["row"] == row]
    return {"count": len(own), "last": own[-1]["metrics"] if own else {}}


def seconds(file: Path, row: int) -> dict[str, float]:
    """Return the seconds a row took, by phase."""
    total: dict[str, float] = {}
    for entry in read_lines(file):
        if entry["row"] == row:
            for phase, value in entry["seconds"].items():
                total[phase] = round(total.get(phase, 0.0) + value, 3)
    return total


def stream_row(stream: Stream) -> Row:
    """Return what a done.json says about its stream."""
    kinds = [split.kind for split in stream.splits]
    return {
        "splits": [{"name": split.name, "kind": split.kind, "train": len(split.train)} for split in stream.splits],
        "returns": kinds[-1] == kinds[0] and len(set(kinds)) > 1,
    }


def failed(done: Row) -> int:
    """Return how many measured episodes of a row failed (they have no score)."""
    cells = [cell for measure in done["measures"] for row in measure["variants"].values() for cell in row]
    return sum(cell["counts"]["failed"] for cell in cells)


def done_bytes(row: Row) -> bytes:
    """Return the bytes of a done.json."""
    head = {"schema": SCHEMA, "metric_version": METRIC_VERSION}
    return json.dumps(head | row, separators=(",", ":"), sort_keys=True, allow_nan=False).encode() + b"\n"


def read_done(folder: Path, name: str) -> Row | None:
    """Return the done.json of row `name` in a run folder, or None."""
    path = folder / "splits" / name / "done.json"
    if not path.exists():
        return None
    row: Row = json.loads(path.read_text(encoding="utf-8"))
    return row
