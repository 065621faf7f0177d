"""What a finished run holds: its rows, their cells, and the scores, counts and bounds of each."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from claasbench.types import LEARNER, NOTHING, Bounds, Json

COUNTS = (
    "episodes", "turns", "invalid", "no_action", "cut", "overflow",
    "prompt_tokens", "prefilled", "reply_tokens", "retries", "failed",
)  # fmt: skip
UNTUNED = "untuned"


class Trial(NamedTuple):
    """What may differ between two runs of one method."""

    order: int
    seed: int


class Measured(NamedTuple):
    """What a checkpoint is measured on, with which variant of its learner; shared: one task list for all splits."""

    measure: str
    variant: str
    shared: bool


class Part(NamedTuple):
    """A split of the stream: its name, its task kind and how many tasks it trains."""

    name: str
    kind: str
    train: int


@dataclass(frozen=True)  # no slots: a report asks for the same means many times
class Cell:
    """The episodes of one measured cell, or the live ones of one split; `units` are (task, attempt) pairs."""

    split: str
    units: tuple[tuple[str, int], ...]
    scores: tuple[float, ...]  # NaN: the machinery failed, not the model
    counts: Mapping[str, int]
    bounds: Bounds
    marks: Mapping[str, tuple[int | None, ...]] = field(default_factory=dict)
    """What else a scenario says of each episode (of an attacked one: turns `reached`, the one `broken`, `useful`)."""
    others: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """By seat but the learner's: tokens of prompts and of replies."""
    attacks: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """By what the attacker calls an attack: how often it was answered, and how often a rule broke."""

    @cached_property
    def scored(self) -> list[float]:
        """The scores of the episodes that did not fail."""
        return [score for score in self.scores if not math.isnan(score)]

    @cached_property
    def success(self) -> float:
        """The mean score, NaN without any."""
        return mean(self.scored)

    @cached_property
    def by_task(self) -> dict[str, float]:
        """The mean over the attempts of each task, NaN where none has a score."""
        found: dict[str, list[float]] = {}
        for (task, _), score in zip(self.units, self.scores, strict=True):
            scores = found.setdefault(task, [])
            if not math.isnan(score):
                scores.append(score)
        return {task: mean(scores) for task, scores in found.items()}

    @property
    def n_failed(self) -> int:
        """How many episodes carry no score."""
        return len(self.scores) - len(self.scored)


@dataclass(frozen=True, slots=True)
class Row:
    """One done.json: a checkpoint (index -1: the untrained policy) with its live and its measured cells."""

    index: int
    name: str
    copied: str | None
    live: Cell | None
    cells: Mapping[Measured, tuple[Cell | None, ...]]  # None: nothing was measured there
    updates: int
    learned: Mapping[str, float | None]  # the metrics of the last update
    seconds: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Run:
    """One run folder; `rows` starts with the untrained one and holds None for each that is not there."""

    folder: Path
    digest: str
    config: Json
    resolved: Json
    versions: Mapping[str, object]  # of whatever could change a number without changing the digest
    parts: tuple[Part, ...]
    returns: bool
    rows: tuple[Row | None, ...]
    opponent: str = ""
    """The hash of the measured attacker, where there is one."""

    @property
    def name(self) -> str:
        """The last two parts of the folder: method and trial in the default layout."""
        return "/".join(self.folder.resolve().parts[-2:])

    @property
    def method(self) -> str:
        """The learner's name."""
        return str(self.config["learner"]["name"])

    @property
    def model(self) -> str:
        """The model's name in the configuration."""
        return str(self.config["policy"]["model"])

    @property
    def tuned(self) -> str:
        """The study on the dev stream that chose the learner's settings, `untuned`, or `-` for one without any."""
        known = "-" if self.resolved["sees"] == NOTHING else UNTUNED
        return str(self.config["learner"].get("tuned", known))

    @property
    def trial(self) -> Trial:
        """The order and seed."""
        return Trial(self.config["trial"]["order"], self.config["trial"]["seed"])

    @property
    def row_names(self) -> list[str]:
        """Names of all rows, whether they are there or not."""
        return ["init", *(f"{k:02d}-{part.name}" for k, part in enumerate(self.parts))]

    @property
    def live(self) -> list[Cell | None]:
        """The live cell of each split, None where its row is not there."""
        return [row.live if row else None for row in self.rows[1:]]

    @property
    def measured(self) -> list[Measured]:
        """What was measured in any row: headline measure first, and in each measure the learner itself first."""
        found = dict.fromkeys(key for row in self.rows if row for key in row.cells)
        order = {name: k for k, name in enumerate(dict.fromkeys(key.measure for key in found))}
        return sorted(found, key=lambda key: (order[key.measure], key.variant != LEARNER))

    def grid(self, measured: Measured) -> list[list[Cell | None]]:
        """Cells by row (untrained first) and column; None where nothing was measured."""
        width = 1 if measured.shared else len(self.parts)
        return [list(row.cells.get(measured) or [None] * width) if row else [None] * width for row in self.rows]


def mean(values: Sequence[float]) -> float:
    """Mean of values, NaN if there is none or if one is NaN."""
    return math.fsum(values) / len(values) if values else math.nan
