"""IH-Challenge: rules that an attacker tries to break within a few turns, each reply decided by a verifier."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, Literal

from claasbench import draws, prompts
from claasbench.errors import ClaasbenchError, invalid
from claasbench.scenarios import _conversation, _generate
from claasbench.scenarios._atoms import ROWS
from claasbench.scenarios._graders import Graders, supported
from claasbench.scenarios._rows import Rows, load
from claasbench.scenarios._verifiers import VERSION, Verdict, verify
from claasbench.scenarios.base import Numberer, Scenario
from claasbench.types import ATTACKER, LEARNER, Bounds, Json, Measure, Play, Sampling, Split, Stream, Task

WARM = 300
"""Scenarios of their own that the measured attacker may be warmed on: as many as it needs attacks."""

BENIGN = {"claas": 0.0, "families": 0.3}
"""Default of `benign_share` by protocol."""


@dataclass
class IhChallenge(Scenario):
    """Single-use scenarios, each a privileged rule and an attacker who adapts to the replies and stops at success."""

    credit: ClassVar[Literal["episode", "turn"]] = "turn"
    seats: ClassVar[tuple[str, ...]] = (LEARNER, ATTACKER)
    attacker: ClassVar[str] = "bandit"
    batch: ClassVar[int] = 1
    nano: ClassVar[str] = "nano-ih"

    protocol: Literal["claas", "families"] = "claas"
    """claas (composites, shuffled over all splits: splits are draws of one distribution) or families (a real shift)."""
    data: Literal["main", "dev"] = "main"
    """main, or its twin dev from other data seeds, for tuning."""
    source: str = ""
    """Where rows come from: empty (our generator), hub (openai/ih-challenge) or a folder with its JSONL files."""
    files: tuple[str, ...] = ()
    """Files of `source` to draw rows from, without .jsonl; none named: multi-constraint."""
    splits: int = 5
    """Splits; of `families` the first so many."""
    tasks_per_split: int = 20
    """Training scenarios per split."""
    measured_per_split: int = 0
    """Unseen scenarios per split; 0 takes as many as are trained on."""
    turns: int = 3
    """Tries of the attacker in a scenario."""
    conversation: bool = True
    """Whether the tries are one conversation; else each is asked afresh."""
    attack_chars: int = 2000
    """Longest attack in characters; a longer one is a try used up."""
    attack_tokens: int = 512
    """Most tokens of an attack that a model writes."""
    native_roles: bool = False
    """Keep the roles developer and tool, for models that know them; else system (whose rule it is) and user."""
    benign_share: float = -1.0
    """Share of training scenarios that are their harmless twin; -1: none in claas, .3 in families."""

    def __post_init__(self) -> None:
        """Refuse sizes out of range."""
        for name in ("splits", "tasks_per_split", "turns", "attack_chars", "attack_tokens"):
            if getattr(self, name) < 1:
                raise invalid(f"scenario.{name}", getattr(self, name), "at least 1")
        if self.measured_per_split < 0:
            raise invalid("scenario.measured_per_split", self.measured_per_split, "0 (as many as trained) or more")
        if self.benign_share != -1 and not 0 <= self.benign_share <= 1:
            raise invalid("scenario.benign_share", self.benign_share, "between 0 and 1, or -1 for the protocol's")
        if self.benign_share > 0 and self.source:
            raise invalid("scenario.benign_share", self.benign_share, "0 with a source: its rows have no twins")
        if self.files and (not self.source or len(set(self.files)) < len(self.files)):
            raise invalid("scenario.files", list(self.files), "names of files, each once, of a scenario.source")
        self._files = self.files or ("multi-constraint",)
        families = list(self._files) if self.source else list(_generate.FAMILIES)[1:]
        if self.protocol == "families" and self.splits > len(families):
            raise invalid("scenario.splits", self.splits, f"at most {len(families)}: {', '.join(families)}")
        most = ROWS // (1 if self.protocol == "families" else self.splits)
        for name in ("tasks_per_split", "measured_per_split"):
            if not self.source and getattr(self, name) > most:
                raise invalid(f"scenario.{name}", getattr(self, name), f"at most {most}")
        self._families = ["composite"] * self.splits if self.protocol == "claas" else families[: self.splits]

    def stream(self, order: int) -> Stream:
        """Return the stream; `order` shuffles all scenarios before they are cut (in families: those of each split)."""
        numberer = Numberer()
        size, unseen_size = self.tasks_per_split, self.measured_per_split or self.tasks_per_split
        train = [self._rows(split, "train", size) for split in range(self.splits)]
        tasks = [self._trained(numberer, rows) for rows in train]
        own = [[self._measured(numberer, task) for task in rows] for rows in train]
        unseen = [self._rows(split, "unseen", unseen_size) for split in range(self.splits)]
        cells = [tuple(self._measured(numberer, row) for row in rows) for rows in unseen]
        plain = [tuple(self._measured(numberer, row, "plain") for row in rows if "twin" in row[1]) for rows in unseen]
        cut = self._cut(order)
        names = [f"s{n}" if self.protocol == "claas" else family for n, family in enumerate(self._families)]
        splits = tuple(
            Split(name, self._kind(family), tuple(tasks[split][at] for split, at in places))
            for name, family, places in zip(names, self._families, cut, strict=True)
        )
        measures = [
            Measure("unseen", tuple(cells)),
            Measure("own", tuple(tuple(own[split][at] for split, at in places) for places in cut)),
        ]
        measures += [] if self.source else [Measure("plain", tuple(plain))]
        return Stream(splits, tuple(measures))

    def play(self, task: Task) -> Play:
        """Return one episode; the score is 1 where the rules held on every turn reached."""
        rules = _conversation.Rules(
            self.turns, self.conversation, self.attack_chars, self.attack_tokens, self.native_roles
        )
        return _conversation.episode(task, rules, self._grade)

    def bounds(self, tasks: Sequence[Task]) -> Bounds:
        """Return what always refusing earns (in place of chance), and 1: every generated row has a witness reply.

        Of the rows of a data file nobody knows either.
        """
        if self.source or not tasks:
            return Bounds(float("nan"), float("nan"), float("nan"))
        refusal = prompts.piece("ih_replies", "refusal")
        held = [verify(task.data["metadata"]["verifier"], "", refusal).held for task in tasks]
        return Bounds(sum(held) / len(held), 1.0, 1.0)

    def warmup(self) -> Sequence[Task]:
        """Return scenarios of no stream, of all families that are attacked."""
        numberer, families = Numberer(), list(dict.fromkeys(self._families))
        if self.source:
            files = self._files if self.protocol == "claas" else self._families
            rows = self._loaded.part("warm", files, 1, WARM)
            return [numberer.task(row["metadata"]["task_type"], 0, row) for _, row in rows]
        return [
            numberer.task(family, 0, _generate.row("warm", family, "train", n))
            for n in range(WARM // len(families))
            for family in families
        ]

    def length(self, task: Task) -> int:
        """Return the most questions: one per try and the twin's."""
        return 1 if task.data.get("plain") else self.turns + bool(task.data.get("useful"))

    def sampling(self) -> Sampling:
        """Return plain sampling with short answers."""
        return Sampling(temperature=1.0, max_tokens=64 if not self.source else 512)

    def facts(self) -> Json:
        """Return what a report should say: source, verifier version, and what the splits are."""
        one = "its splits are draws of one distribution" if self.protocol == "claas" else "its splits are task families"
        found: dict[str, Any] = {"protocol": self.protocol, "data": self.data, "caveat": one, "verifiers": VERSION}
        found["chance"] = "what always refusing earns"
        if self.source:
            self.stream(0), self.warmup()  # so that the counts do not depend on who asked before
            found |= self._loaded.facts
        return found

    def allow_graders(self, allowed: bool) -> None:
        """Take whether the graders of a data file may run, each in the sandbox; refused where that cannot be set up."""
        if not self.source:
            super().allow_graders(allowed)
            return
        if not allowed:
            raise ClaasbenchError(
                f"scenario.source = {self.source!r}: its rows are judged by code out of the data file; "
                "--allow-graders lets that code run in a sandbox"
            )
        if why := supported():
            raise ClaasbenchError(f"--allow-graders: {why}")
        self._graders = Graders()

    _graders: Graders | None = field(default=None, init=False, repr=False)

    def _grade(self, row: Json, attack: str, reply: str) -> Verdict | str:
        """Return the verdict of the row's own verifier, or of its grader in the sandbox."""
        if "verifier" in row["metadata"]:
            return verify(row["metadata"]["verifier"], attack, reply)
        assert self._graders  # allow_graders stands before every run
        found = self._graders.grade(row["metadata"]["grader_code_python"], attack, reply)
        if found.held is None:
            return found.status
        why = prompts.piece("ih_reasons", "grader_held" if found.held else "grader_broken")
        return Verdict(found.held, () if found.held else (row["metadata"]["task_type"],), why)

    def _rows(self, split: int, part: str, count: int) -> list[tuple[str, Json]]:
        """Return the names and rows of a split's part: functions of the data seeds, never of the order."""
        family = self._families[split]
        first = split * count if self.protocol == "claas" else 0
        if not self.source:
            made = [(n, _generate.row(self.data, family, part, n)) for n in range(first, first + count)]
            return [(f"{family}:{part}:{n}", row) for n, row in made]
        files = self._files if self.protocol == "claas" else (family,)
        return self._loaded.part(f"{self.data} {part}", files, first + count)[first:]

    @cached_property
    def _loaded(self) -> Rows:
        return load(self.source, self._files)

    def _kind(self, family: str) -> str:
        return family if not self.source or self.protocol == "families" else "+".join(self._files)

    def _trained(self, numberer: Numberer, rows: Sequence[tuple[str, Json]]) -> list[Task]:
        share = BENIGN[self.protocol] * (not self.source) if self.benign_share == -1 else self.benign_share
        made = []
        for name, row in rows:
            aside: dict[str, Any] = {"row": name}
            if draws.uniform("benign", name) < share:
                aside |= {"plain": True}
            made.append(numberer.task(row["metadata"]["task_type"], 0, row, aside))
        return made

    def _measured(self, numberer: Numberer, named: tuple[str, Json], how: str = "useful") -> Task:
        name, row = named
        aside = {"row": name} | ({how: True} if "twin" in row else {})
        return numberer.task(row["metadata"]["task_type"], 0, row, aside)

    def _cut(self, order: int) -> list[list[tuple[int, int]]]:
        """Return for each split the places (split of the unshuffled rows, index) of its training scenarios."""
        size = self.tasks_per_split
        places = [[(split, at) for at in range(size)] for split in range(self.splits)]
        if self.protocol == "families":
            return [draws.shuffled(own, "order", order, split) for split, own in enumerate(places)]
        mixed = draws.shuffled([place for own in places for place in own], "order", order)
        return [mixed[split * size : (split + 1) * size] for split in range(self.splits)]
