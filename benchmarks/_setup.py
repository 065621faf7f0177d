"""What the speed benchmarks share: the games, how they are played, and what was measured on which versions."""

from __future__ import annotations

import argparse
import platform
import time
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version

import torch

from claasbench import draws, registry, rollout
from claasbench.attackers.base import Attacker
from claasbench.policies.base import Policy
from claasbench.scenarios.base import Scenario
from claasbench.types import ATTACKER, LEARNER, Episode, Key, Place, Row, Sampling, Task


def arguments(description: str) -> argparse.ArgumentParser:
    """Return a parser with the flags all benchmarks know."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--scenario", default="frozen-lake")
    parser.add_argument("--model", default="smollm2")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--episodes", type=int, default=32)
    parser.add_argument("--seed", type=int, default=0)
    return parser


@dataclass(frozen=True, slots=True)
class Bench:
    """A scenario with the first tasks of its first split and one way to sample."""

    scenario: Scenario
    tasks: tuple[Task, ...]
    sampling: Sampling
    seed: int

    def play(self, policy: Policy, width: int) -> tuple[list[Episode], float, float]:
        """Return the episodes of `policy`, `width` at a time, and the seconds they took: wall and CPU."""
        table = rollout.Table(self.scenario, self.sampling, self._draw)
        seats = {LEARNER: policy}
        if self.scenario.attacker:
            attacker: Attacker = registry.find("attackers", self.scenario.attacker)()
            attacker.setup(policy, measured=True)
            seats[ATTACKER] = attacker.policy
        games = [rollout.Game(task, Place("benchmark", -1), 0, seats) for task in self.tasks]
        wall, cpu = time.perf_counter(), time.process_time()
        episodes = list(rollout.play(table, games, width))
        return episodes, time.perf_counter() - wall, time.process_time() - cpu

    def _draw(self, key: Key) -> int:
        return draws.seed("benchmark", self.seed, *key)


def bench(name: str, episodes: int, sampling: Sampling | None, seed: int) -> Bench:
    """Return `episodes` tasks of scenario `name`; its own sampling where none is given."""
    scenario: Scenario = registry.find("scenarios", name)()
    tasks = [task for split in scenario.stream(0).splits for task in split.train][:episodes]
    if len(tasks) < episodes:
        raise SystemExit(f"{name} has {len(tasks)} training tasks, not {episodes}")
    return Bench(scenario, tuple(tasks), sampling or scenario.sampling(), seed)


def random_rows(prompts: Sequence[int], answer: int, vocabulary: int) -> list[Row]:
    """Return rows of random ids with prompts of these lengths; the teacher's prompt begins with other ids."""
    torch.manual_seed(0)

    def ids(count: int) -> tuple[int, ...]:
        return tuple(torch.randint(0, vocabulary, (count,)).tolist())

    made = [(ids(length), ids(answer)) for length in prompts]
    return [Row(prompt, reply, (*ids(64), *prompt[64:])) for prompt, reply in made]


def counts(episodes: Sequence[Episode]) -> str:
    """Return how much was played."""
    rows = [rollout.tally(episode) for episode in episodes]
    total = {name: sum(row[name] for row in rows) for name in ("turns", "prompt_tokens", "prefilled", "reply_tokens")}
    return ", ".join(f"{number} {name.replace('_', ' ')}" for name, number in total.items())


def footer(options: argparse.Namespace) -> str:
    """Return the settings and versions a number belongs to."""
    settings = " ".join(f"--{name.replace('_', '-')} {value}" for name, value in sorted(vars(options).items()))
    packages = " ".join(f"{name} {version(name)}" for name in ("torch", "transformers", "textarena"))
    threads = torch.get_num_threads()
    return f"settings: {settings}\nversions: Python {platform.python_version()} {packages}, {threads} threads"
