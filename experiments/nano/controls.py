"""The controls of a nano model: whether it uses what its context says, and whether it can be taught.

`python experiments/nano/controls.py [--model nano-grid] [--json]` plays 512 games a cell on the streams' own boards.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import corpus
import torch
from corpus import Corpus
from train import Row, Rows, losses
from wordings import HELD_OUT, MARK, PANELS, ROLES, items
from world import LOSES, WINS, Known, Layout, World

from claasbench import draws, prompts
from claasbench.learners import _memory
from claasbench.policies.base import Policy, Wrapper
from claasbench.policies.hf import Hf
from claasbench.rollout import Game, Table, play
from claasbench.scenarios.frozen_lake import FrozenLake
from claasbench.types import (
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
)

GAMES = 512
WIDTH = 128
ROOMS = 3
"""The 4x4 rooms, which are the first splits of the stream."""
TRUTH = World(
    "G", "H", {"control panel A": "as named", "control panel B": "as named", "control panel C": "up and down exchanged"}
)
EXCHANGED = World("H", "G", TRUTH.panels)
NOTES_TOKENS = 256
STEPS, ROWS, RATE = 150, 16, 5e-4


@dataclass
class Told(Wrapper):
    """Puts a text of its own before every prompt of an episode."""

    inner: Policy
    text: Callable[[Key], str]

    def sample(self, requests: Sequence[Request]) -> list[Sample]:
        """Let the inner policy answer with the text in its context."""
        told = [replace(r, prompt=with_context(r.prompt, self.text(r.key))) for r in requests]
        return self.inner.sample(told)


@dataclass
class Controls:
    """Plays cells with one policy and keeps what came out."""

    policy: Policy
    cells: dict[str, dict[str, Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.streams = [FrozenLake(data=data).stream(0) for data in ("main", "dev")]
        self.tasks = [task for room in range(ROOMS) for task in self.room(room)]

    def told(self, text: Callable[[Key], str]) -> Policy:
        """Return the policy that reads `text` before every prompt."""
        return Told(self.policy, text)

    def room(self, split: int, train: bool = False) -> list[Task]:
        """Return the measured (or training) boards of a room, main and dev."""
        if train:
            return [task for stream in self.streams for task in stream.splits[split].train]
        return [task for stream in self.streams for task in stream.measures[0].cells[split]]

    def play(self, policy: Policy, tasks: Sequence[tuple[Task, int]], name: str, greedy: bool = False) -> list[Episode]:
        """Play one game per task and attempt."""
        sampling = Sampling(temperature=0.0 if greedy else 1.0, max_tokens=64)
        table = Table(FrozenLake(), sampling, lambda key: draws.seed("controls", name, *key))
        place = Place("controls", 0)
        games = [Game(task, place, attempt, {LEARNER: policy}) for task, attempt in tasks]
        return list(play(table, games, WIDTH))

    def cell(self, name: str, text: Callable[[Key], str], greedy: bool = False) -> list[Episode]:
        """Play GAMES games with a context and note the success with its standard error."""
        began = time.monotonic()
        spread = [(self.tasks[n % len(self.tasks)], n // len(self.tasks)) for n in range(GAMES)]
        episodes = self.play(self.told(text), spread, "cell", greedy)
        scores = [episode.score or 0.0 for episode in episodes]
        mean = sum(scores) / len(scores)
        turns = [turn for episode in episodes for turn in episode.turns]
        self.cells[name] = {
            "success": mean,
            "error": math.sqrt(mean * (1 - mean) / len(scores)),
            "games": len(scores),
            "rooms": self.rooms(episodes),
            "no_action": sum(episode.info["no_action"] for episode in episodes) / len(turns),
            "invalid": sum(episode.info["invalid"] for episode in episodes) / len(turns),
            "reply_tokens": sum(len(turn.sample.token_ids or ()) for turn in turns) / len(turns),
            "seconds": time.monotonic() - began,
        }
        print(
            f"{name:32} {mean:6.1%} ± {self.cells[name]['error']:.1%}  {self.cells[name]['seconds']:.0f} s",
            file=sys.stderr,
        )
        return episodes

    def rooms(self, episodes: Sequence[Episode]) -> list[float]:
        """Return the success in each room."""
        where = {task.id: room for room in range(ROOMS) for task in self.room(room)}
        own = [[e.score or 0.0 for e in episodes if where[e.task] == room] for room in range(ROOMS)]
        return [sum(scores) / len(scores) for scores in own]


def nothing(key: Key) -> str:
    """Return no context."""
    return ""


def known(world: World) -> Known:
    """Return all that is true of `world`."""
    return Known({world.winner: WINS, world.loser: LOSES}, dict(world.panels))


def knowledge(draw: Callable[[random.Random], list[str]]) -> Callable[[Key], str]:
    """Return a context per episode: facts in words that `draw` chooses."""

    def text(key: Key) -> str:
        return prompts.fill("knowledge", knowledge=items(draw(random.Random(f"{key.task}/{key.attempt}"))))

    return text


def facts(world: World, wordings: dict[str, tuple[str, ...]] = ROLES) -> Callable[[random.Random], list[str]]:
    """Return what draws the facts of `world` in any wording and order."""

    def draw(rng: random.Random) -> list[str]:
        said = [rng.choice(wordings[WINS]).format(world.winner), rng.choice(wordings[LOSES]).format(world.loser)]
        said += [PANELS[keys][0].format(panel) for panel, keys in world.panels.items() if keys != "as named"]
        rng.shuffle(said)
        return said

    return draw


def irrelevant(rng: random.Random) -> list[str]:
    """Draw facts about signs and panels that the boards do not have."""
    source = Corpus("")
    source.rng = rng
    return source.facts(source.beside(TRUTH, *TRUTH.panels))


def run(controls: Controls) -> None:
    """Play all cells."""
    plain = controls.cell("none", nothing)
    controls.cell("none, greedy", nothing, greedy=True)
    for name, draw in {
        "knowledge": facts(TRUTH),
        "knowledge, roles alone": facts(replace(TRUTH, panels={})),
        "knowledge, held-out words": facts(TRUTH, HELD_OUT),
        "wrong knowledge": facts(EXCHANGED),
        "irrelevant": irrelevant,
    }.items():
        controls.cell(name, knowledge(draw))
    controls.cell("knowledge, greedy", knowledge(facts(TRUTH)), greedy=True)
    games = [_memory.remembered(e.experience) for e in plain]

    def two(key: Key) -> str:
        rng = random.Random(f"two/{key.task}/{key.attempt}")
        return _memory.rendered([games[rng.randrange(len(games))] for _ in range(2)])

    controls.cell("two transcripts", two)
    extracted(controls)


def extracted(controls: Controls) -> None:
    """Let the model take notes on 8 games of its own, eight times over, and play with each set of notes."""
    boards = [task for room in range(ROOMS) for task in controls.room(room, train=True)]
    rng = random.Random("extraction")
    sets = [[(rng.choice(boards), 1000 * n + m) for m in range(8)] for n in range(8)]
    played = controls.play(controls.policy, [game for one in sets for game in one], "extraction")
    sampling = Sampling(temperature=1.0, max_tokens=NOTES_TOKENS)
    notes: list[list[str]] = [[] for _ in sets]
    for m in range(8):
        requests = []
        for n, said in enumerate(notes):
            messages = corpus.extraction(played[8 * n + m].experience, "\n".join(said))
            key = Key(f"set {n}", 0, "extractor", m)
            requests.append(Request(key, Prompt(messages), draws.seed("notes", n, m), sampling))
        for said, sample in zip(notes, controls.policy.sample(requests), strict=True):
            said += [line for line in sample.text.splitlines() if line.startswith(MARK)]
        controls.policy.close([request.key for request in requests])
    lines = [line.removeprefix(MARK) for said in notes for line in said]
    verdicts = [verdict(line) for line in lines]
    controls.cells["extraction"] = {
        "items": len(lines),
        **{name: verdicts.count(name) for name in ("true", "false", "neither")},
        "notes": ["\n".join(said) for said in notes],
    }
    where = {task.id: n for n, task in enumerate(controls.tasks)}

    def text(key: Key) -> str:
        said = notes[(where[key.task] + key.attempt) % len(notes)]
        return prompts.fill("knowledge", knowledge="\n".join(said)) if said else ""

    controls.cell("own notes on 8 games", text)


def verdict(item: str) -> str:
    """Judge a note by the rules of the game: true, false, or neither."""
    said = {by.format(sign): TRUTH.role(sign) == role for role, many in ROLES.items() for by in many for sign in "GH"}
    panels = {
        by.format(panel): TRUTH.panels[panel] == keys
        for keys, many in PANELS.items()
        for by in many
        for panel in TRUTH.panels
    }
    found = {**said, **panels}.get(item)
    return "neither" if found is None else "true" if found else "false"


def teachable(model: str, permuted: bool) -> Policy:
    """Return the model after STEPS supervised steps of ROWS answers without context: of the truth, or of any world."""
    policy = Hf(model, device="cpu")
    spelled, source = Rows(), Corpus(f"teach/{permuted}")
    boards = [(task, layout(task)) for room in range(ROOMS) for task in Controls(policy).room(room, train=True)]

    def batch() -> Iterator[Row]:
        for task, board in source.rng.choices(boards, k=ROWS):
            world = source.rng.choice((TRUTH, EXCHANGED)) if permuted else TRUTH
            game = source.game(world, task.data["room"], known(world), on=board)
            step = source.rng.randrange(len(game.steps))
            yield spelled.row(source.asked(game, step, known(world), "", "taught"))

    return taught(policy, batch)


def taught(policy: Policy, batch: Callable[[], Iterator[Row]]) -> Policy:
    """Return the policy after STEPS supervised steps on the rows that `batch` draws for each."""
    module = policy.loaded.module
    optimizer = torch.optim.AdamW(module.parameters(), lr=RATE, weight_decay=0.0)
    module.train()
    for _ in range(STEPS):
        rows = list(batch())
        optimizer.zero_grad()
        losses(module, rows)[0].mean().backward()
        torch.nn.utils.clip_grad_norm_(module.parameters(), 1.0)
        optimizer.step()
    module.eval()
    return policy


def layout(task: Task) -> Layout:
    """Return the board of a task."""
    cells = {(r, c): sign for r, row in enumerate(task.data["board"]) for c, sign in enumerate(row)}
    (start,) = (cell for cell, sign in cells.items() if sign == "P")
    return Layout(len(task.data["board"]), start, {cell: sign for cell, sign in cells.items() if sign in "GH"})


def checks(cells: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return each aim with what was found and whether it was met."""
    success = {name: cell["success"] for name, cell in cells.items() if "success" in cell}
    none, gain = success["none"], success["knowledge"] - success["none"]
    found = {
        "knowledge - none": (gain, gain >= 0.30, "at least +30"),
        "irrelevant - none": (success["irrelevant"] - none, abs(success["irrelevant"] - none) <= 0.05, "within 5"),
        "wrong - none": (success["wrong knowledge"] - none, success["wrong knowledge"] <= none - 0.05, "at most -5"),
        "greedy - none": (success["none, greedy"] - none, abs(success["none, greedy"] - none) <= 0.08, "within 8"),
        "two transcripts - none": (
            success["two transcripts"] - none,
            success["two transcripts"] >= none + 0.10,
            "at least +10",
        ),
        "none": (none, 0.15 <= none <= 0.45, "15 to 45"),
        "own notes, share of the gain": (
            (success["own notes on 8 games"] - none) / gain if gain else 0.0,
            gain > 0 and success["own notes on 8 games"] - none >= gain / 2,
            "at least 50",
        ),
        "taught the truth - none": (
            success["taught the truth"] - none,
            success["taught the truth"] >= none + 0.30,
            "at least +30",
        ),
        "taught any world - none": (
            success["taught any world"] - none,
            success["taught any world"] < none + 0.30,
            "below +30",
        ),
    }
    return {name: {"found": value, "aim": aim, "met": bool(met)} for name, (value, met, aim) in found.items()}


def table(found: dict[str, Any]) -> str:
    """Return cells and checks as Markdown."""
    lines = ["| cell | success | plain | mirrored | exchanged |", "| --- | --- | --- | --- | --- |"]
    for name, cell in found["cells"].items():
        if "success" in cell:
            rooms = " | ".join(f"{room:.0%}" for room in cell["rooms"])
            lines.append(f"| {name} | {cell['success']:.1%} ({cell['error']:.1%}) | {rooms} |")
    return "\n".join([*lines, *verdicts(found)])


def verdicts(found: dict[str, Any]) -> list[str]:
    """Return the lines of a table that say which checks were met, and what became of the notes."""
    lines = ["", "| check, in points | found | aim | |", "| --- | --- | --- | --- |"]
    for name, check in found["checks"].items():
        lines.append(
            f"| {name} | {100 * check['found']:.1f} | {check['aim']} | {'met' if check['met'] else 'missed'} |"
        )
    notes = found["cells"]["extraction"]
    said = f"Of its {notes['items']} notes, {notes['true']} are true and {notes['false']} false by the rule table."
    return [*lines, "", said]


def judge(model: str) -> dict[str, Any]:
    """Play all cells, print the table, and return cells, checks and whether all were passed."""
    controls = Controls(Hf(model, device="cpu"))
    run(controls)
    for name, permuted in (("taught the truth", False), ("taught any world", True)):
        controls.policy = teachable(model, permuted)
        controls.cell(name, nothing)
    judged = checks(controls.cells)
    found = {"cells": controls.cells, "checks": judged, "passed": all(one["met"] for one in judged.values())}
    print(table(found), file=sys.stderr)
    return found


def command(judge: Callable[[str], dict[str, Any]], model: str, description: str | None) -> None:
    """Judge the model that the command line names."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--model", default=model)
    parser.add_argument("--json", action="store_true", help="print cells, checks and `passed` as JSON")
    given = parser.parse_args()
    found = judge(given.model)
    if given.json:
        print(json.dumps(found, indent=1))


if __name__ == "__main__":
    command(judge, "nano-grid", __doc__)
