"""Share of prompt tokens that are really computed, padding included, in games of five turns."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from _setup import arguments, bench, footer

from claasbench.policies.base import Wrapper
from claasbench.policies.hf import Hf
from claasbench.scenarios.base import Scenario
from claasbench.types import Outcome, Play, Request, Sample, Task

TURNS = 5


class Guided(Wrapper):
    """Lets the model answer but plays the best move, so that every game lasts its turns."""

    def __init__(self, inner: Hf) -> None:
        self.inner = inner
        self.computed = 0  # everything a prefill forward computes, padding too
        inner.loaded.module.register_forward_pre_hook(self._count, with_kwargs=True)

    def _count(self, module: object, positional: object, named: dict[str, Any]) -> None:
        rows, width = named["input_ids"].shape
        self.computed += rows * width if width > 1 else 0  # one column is a step of an answer

    def sample(self, requests: Sequence[Request]) -> list[Sample]:
        """Return the model's samples with the move of the view as their text."""
        samples = self.inner.sample(requests)
        moves = [str((request.prompt.view or {})["oracle"]) for request in requests]
        return [replace(sample, text=move) for sample, move in zip(samples, moves, strict=True)]


@dataclass(frozen=True)
class Short:
    """A scenario whose games are left after TURNS turns."""

    whole: Scenario
    credit: str

    def play(self, task: Task) -> Play:
        """Return the beginning of one episode."""
        game = self.whole.play(task)
        prompt = next(game)
        for turn in range(1, TURNS + 1):
            sample = yield prompt
            if turn < TURNS:
                prompt = game.send(sample)
        return Outcome(None, 0.0)


def main() -> int:
    """Print tokens computed in prefill over the sum of prompt lengths; exit code 1 above the target."""
    parser = arguments(__doc__ or "")
    parser.add_argument("--width", type=int, default=32)
    parser.add_argument("--max-tokens", type=int, default=8)
    parser.add_argument("--target", type=float, default=0.5)
    options = parser.parse_args()
    setup = bench(options.scenario, options.episodes, None, options.seed)
    short = Short(setup.scenario, setup.scenario.credit)
    setup = replace(setup, scenario=short, sampling=replace(setup.sampling, max_tokens=options.max_tokens))
    player = Guided(Hf(options.model, device=options.device))
    episodes, *_ = setup.play(player, options.width)
    games = [[turn.sample for turn in episode.turns] for episode in episodes]
    prompt = sum(len(sample.prompt_ids or ()) for game in games for sample in game)
    needed = sum(sample.prefilled for game in games for sample in game)
    for turn in range(TURNS):
        ids = [len(game[turn].prompt_ids or ()) for game in games]
        missing = [game[turn].prefilled for game in games]
        print(f"turn {turn + 1}: {sum(missing)} of {sum(ids)} prompt tokens needed ({sum(missing) / sum(ids):.1%})")
    share = player.computed / prompt
    print(f"{len(games)} games of {TURNS} turns: {needed / prompt:.1%} needed, {share:.1%} computed with padding")
    print(f"share {share:.3f}, target <= {options.target:g}")
    print(footer(options))
    return int(share > options.target)


if __name__ == "__main__":
    sys.exit(main())
