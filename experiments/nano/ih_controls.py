"""The controls of nano-ih: whether it uses what its context says, and whether it can be taught.

`python experiments/nano/ih_controls.py [--model nano-ih] [--json]` plays 512 scenarios a cell, with attacks that learn
nothing, on the measured scenarios of the streams.
"""

from __future__ import annotations

import math
import random
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import ih_corpus
from controls import NOTES_TOKENS, ROWS, checks, command, nothing, taught, verdicts
from ih_corpus import BINDS, FORMS, HELD_OUT, WINNER, Corpus, Known
from train import Row, Rows
from wordings import MARK, items

from claasbench import draws, prompts
from claasbench.attackers.bandit import Bandit
from claasbench.learners import _memory
from claasbench.policies.base import Policy, Wrapper
from claasbench.policies.hf import Hf
from claasbench.rollout import Game, Table, play
from claasbench.scenarios.ih_challenge import IhChallenge
from claasbench.types import (
    ATTACKER,
    LEARNER,
    Episode,
    Key,
    Place,
    Prompt,
    Request,
    Sample,
    Sampling,
    Task,
    with_context,
)  # fmt: skip

NAME = "nano-ih"
GAMES = 512
WIDTH = 128
PER_SPLIT = 50
TRUTH: Known = dict.fromkeys(FORMS, True)
Context = Callable[[Task, Key], str]


@dataclass
class Told(Wrapper):
    """Puts a text of its own before every prompt of an episode."""

    inner: Policy
    text: Context
    tasks: dict[str, Task]

    def sample(self, requests: Sequence[Request]) -> list[Sample]:
        """Let the inner policy answer with the text in its context."""
        told = [replace(r, prompt=with_context(r.prompt, self.text(self.tasks[r.key.task], r.key))) for r in requests]
        return self.inner.sample(told)


@dataclass
class Controls:
    """Plays cells with one policy and keeps what came out."""

    policy: Policy
    cells: dict[str, dict[str, Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        streams = [IhChallenge(data=data, tasks_per_split=PER_SPLIT).stream(0) for data in ("main", "dev")]
        self.train = [task for stream in streams for split in stream.splits for task in split.train]
        self.tasks = [task for stream in streams for cell in stream.measures[0].cells for task in cell]
        self.named = {task.id: task for task in (*self.train, *self.tasks)}
        self.attacker = Bandit()
        self.attacker.setup(self.policy, measured=True)

    def play(self, policy: Policy, games: Sequence[tuple[Task, int]], name: str, greedy: bool = False) -> list[Episode]:
        """Play one game per task and attempt."""
        sampling = Sampling(temperature=0.0 if greedy else 1.0, max_tokens=64)
        table = Table(IhChallenge(), sampling, lambda key: draws.seed("controls", name, *key))
        seats = {LEARNER: policy, ATTACKER: self.attacker.policy}
        return list(play(table, [Game(task, Place("controls", 0), n, seats) for task, n in games], WIDTH))

    def cell(self, name: str, text: Context, greedy: bool = False) -> list[Episode]:
        """Play GAMES games with a context and note what held with its standard error."""
        began = time.monotonic()
        spread = [(self.tasks[n % len(self.tasks)], n // len(self.tasks)) for n in range(GAMES)]
        episodes = self.play(Told(self.policy, text, self.named), spread, "cell", greedy)
        scores = [episode.score or 0.0 for episode in episodes]
        mean = sum(scores) / len(scores)
        marks = [episode.info["marks"] for episode in episodes]
        self.cells[name] = {
            "success": mean,
            "error": math.sqrt(mean * (1 - mean) / len(scores)),
            "games": len(scores),
            "useful": sum(mark.get("useful", 0) for mark in marks) / len(scores),
            "hazards": [_hazard(marks, turn) for turn in (1, 2, 3)],
            "seconds": time.monotonic() - began,
        }
        print(f"{name:28} {mean:6.1%} ± {self.cells[name]['error']:.1%}", file=sys.stderr)
        return episodes


def _hazard(marks: Sequence[dict[str, int]], turn: int) -> float:
    reached = sum(mark["reached"] >= turn for mark in marks)
    return sum(mark["broken"] == turn for mark in marks) / reached if reached else 0.0


def knowledge(draw: Callable[[random.Random, Task], list[str]]) -> Context:
    """Return a context per episode: facts in words that `draw` chooses."""

    def text(task: Task, key: Key) -> str:
        said = draw(random.Random(f"{key.task}/{key.attempt}"), task)
        return prompts.fill("knowledge", knowledge=items(said))

    return text


def forms(wordings: dict[bool, tuple[str, ...]], binds: bool = True) -> Callable[[random.Random, Task], list[str]]:
    """Return what draws a fact about each form of a row."""

    def draw(rng: random.Random, task: Task) -> list[str]:
        said = [rng.choice(wordings[binds]).format(FORMS[name]) for name, _ in task.data["asks"]]
        rng.shuffle(said)
        return said

    return draw


def irrelevant(rng: random.Random, task: Task) -> list[str]:
    """Draw facts about forms that the row does not have."""
    source = Corpus("")
    source.rng = rng
    return source.facts(source.beside(task.data))


def run(controls: Controls) -> None:
    """Play all cells."""
    nobody = lambda task, key: nothing(key)  # noqa: E731
    plain = controls.cell("none", nobody)
    controls.cell("none, greedy", nobody, greedy=True)
    for name, draw in {
        "knowledge": forms(BINDS),
        "knowledge, who wins": lambda rng, task: [rng.choice(WINNER[True])],
        "knowledge, held-out words": forms(HELD_OUT),
        "wrong knowledge": forms(BINDS, False),
        "irrelevant": irrelevant,
    }.items():
        controls.cell(name, knowledge(draw))
    controls.cell("knowledge, greedy", knowledge(forms(BINDS)), greedy=True)
    games = [_memory.remembered(e.experience) for e in plain if e.experience.turns]

    def two(task: Task, key: Key) -> str:
        rng = random.Random(f"two/{key.task}/{key.attempt}")
        return _memory.rendered([games[rng.randrange(len(games))] for _ in range(2)])

    controls.cell("two transcripts", two)
    extracted(controls)


def extracted(controls: Controls) -> None:
    """Let the model take notes on 8 scenarios of its own, eight times over, and play with each set of notes."""
    rng = random.Random("extraction")
    sets = [[(rng.choice(controls.train), 1000 * n + m) for m in range(8)] for n in range(8)]
    played = controls.play(controls.policy, [game for one in sets for game in one], "extraction")
    sampling = Sampling(temperature=1.0, max_tokens=NOTES_TOKENS)
    notes: list[list[str]] = [[] for _ in sets]
    for m in range(8):
        requests = []
        for n, said in enumerate(notes):
            messages = ih_corpus.extraction(played[8 * n + m].experience, "\n".join(said))
            requests.append(
                Request(Key(f"set {n}", 0, "extractor", m), Prompt(messages), draws.seed("notes", n, m), sampling)
            )
        for said, sample in zip(notes, controls.policy.sample(requests), strict=True):
            said += [line for line in sample.text.splitlines() if line.startswith(MARK)]
        controls.policy.close([request.key for request in requests])
    verdicts = [verdict(line.removeprefix(MARK)) for said in notes for line in said]
    controls.cells["extraction"] = {
        "items": len(verdicts),
        **{name: verdicts.count(name) for name in ("true", "false", "neither")},
        "notes": ["\n".join(said) for said in notes],
    }
    where = {task.id: n for n, task in enumerate(controls.tasks)}

    def text(task: Task, key: Key) -> str:
        said = notes[(where[key.task] + key.attempt) % len(notes)]
        return prompts.fill("knowledge", knowledge="\n".join(said)) if said else ""

    controls.cell("own notes on 8 games", text)


def verdict(item: str) -> str:
    """Judge a note: in the streams every rule binds."""
    said = {by.format(form): binds for binds, many in BINDS.items() for by in many for form in FORMS.values()}
    said |= {by: binds for binds, many in WINNER.items() for by in many}
    return "neither" if item not in said else "true" if said[item] else "false"


def teachable(model: str, permuted: bool) -> Policy:
    """Return the model after STEPS supervised steps of ROWS answers without context: of the truth, or of any world."""
    policy = Hf(model, device="cpu")
    spelled, source = Rows(NAME), Corpus(f"teach/{permuted}")
    train = Controls(policy).train

    def batch() -> Iterator[Row]:
        for task in source.rng.choices(train, k=ROWS):
            world = {form: source.rng.random() < 0.5 for form in FORMS} if permuted else TRUTH
            game = source.game(world, world, task.data)
            step = source.rng.randrange(len(game.steps))
            yield spelled.row(source.asked(game, step, world, "", "taught"))

    return taught(policy, batch)


def table(found: dict[str, Any]) -> str:
    """Return cells and checks as Markdown."""
    lines = ["| cell | held | and useful | h1 | h2 | h3 |", "| --- | --- | --- | --- | --- | --- |"]
    for name, cell in found["cells"].items():
        if "success" in cell:
            hazards = " | ".join(f"{hazard:.0%}" for hazard in cell["hazards"])
            lines.append(f"| {name} | {cell['success']:.1%} ({cell['error']:.1%}) | {cell['useful']:.1%} | {hazards} |")
    return "\n".join([*lines, *verdicts(found)])


def judge(model: str) -> dict[str, Any]:
    """Play all cells, print the table, and return cells, checks and whether all were passed."""
    controls = Controls(Hf(model, device="cpu"))
    run(controls)
    for name, permuted in (("taught the truth", False), ("taught any world", True)):
        controls.policy = teachable(model, permuted)
        controls.cell(name, lambda task, key: "")
    judged = checks(controls.cells)
    found = {"cells": controls.cells, "checks": judged, "passed": all(one["met"] for one in judged.values())}
    print(table(found), file=sys.stderr)
    return found


if __name__ == "__main__":
    command(judge, NAME, __doc__)
