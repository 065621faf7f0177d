"""One distillation update against the plain way, full logits of student and teacher: seconds and peak memory.

Both ways take the same rows, adapters and micro-batches; each runs in a process of its own, one after the other. With
`--plain-tokens 100000` the plain way takes all rows in one forward, for which 16 rows need more than 24 GiB.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import replace

import torch
from _setup import random_rows
from torch.nn import functional

from claasbench.policies.hf import Hf
from claasbench.training import forward, losses
from claasbench.training.forward import Batch, Scored
from claasbench.training.trainer import Recipe, Trainer


class Plain(Trainer):
    """Keeps the logits of every position of student and teacher, in float32, as a loss over whole sequences does."""

    def _scored(self, made: Batch, k: int) -> Scored:
        with self.weights.at("student") as module:
            student_BLV = self._whole(module, made, context=False)
        with torch.no_grad(), self.weights.at("teacher") as module:
            teacher_BLV = self._whole(module, made, context=True)
        student_TV = self._asked(student_BLV, made, context=False)
        top_TK, ids_TK = student_TV.topk(k)
        logprob_T = student_TV.gather(-1, made.token_T[:, None])[:, 0]
        teacher_TK = self._asked(teacher_BLV, made, context=True).gather(-1, ids_TK)
        entropy_T = -(student_TV.exp() * student_TV).sum(-1).detach()
        return Scored(logprob_T, entropy_T, ids_TK, top_TK, student_BLV[:, 0], teacher_TK)

    def _whole(self, module: torch.nn.Module, made: Batch, context: bool) -> torch.Tensor:
        ids = [[*forward._prompt(row, context), *row.token_ids] for row in made.rows]
        width = max(map(len, ids))
        padded = torch.tensor([own + [0] * (width - len(own)) for own in ids])
        return functional.log_softmax(module(input_ids=padded, use_cache=False).logits.float(), -1)

    def _asked(self, logprobs_BLV: torch.Tensor, made: Batch, context: bool) -> torch.Tensor:
        starts = [len(forward._prompt(row, context)) - 1 for row in made.rows]
        sizes = [len(row.token_ids) for row in made.rows]
        return torch.cat([logprobs_BLV[n, a : a + s] for n, (a, s) in enumerate(zip(starts, sizes, strict=True))])


def one(way: str, options: argparse.Namespace) -> None:
    """Take one update to warm up and `--repeat` more; print seconds per update and the peak in MiB."""
    policy = Hf(options.model, device="cpu")
    recipe = Recipe(micro_tokens=options.plain_tokens if way == "plain" else options.micro_tokens)
    trainer = (Plain if way == "plain" else Trainer)(policy, recipe, 0)
    trainer.weights.copy()
    made = random_rows([options.prompt] * options.rows, options.answer, policy.loaded.module.config.vocab_size)
    batch = [replace(row, old_logprobs=(-5.0,) * options.answer) for row in made]
    loss = losses.Distillation(k=100)
    divergence = trainer.step(batch, [loss])["divergence"]
    start = time.perf_counter()
    for _ in range(options.repeat):
        trainer.step(batch, [loss])
    seconds = (time.perf_counter() - start) / options.repeat
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1024 if sys.platform == "linux" else 2**20)
    print(json.dumps({"seconds": seconds, "peak": peak, "divergence": divergence}))


def measured(way: str, words: Sequence[str]) -> dict[str, float]:
    """Run one way in a process of its own."""
    done = subprocess.run([sys.executable, __file__, *words, "--way", way], capture_output=True, text=True, check=True)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    print(f"{way:6} {found['seconds']:.1f} s, peak {found['peak']:.0f} MiB, divergence {found['divergence']:.6f}")
    return found


def main() -> int:
    """Compare the two ways; exit code 1 where an aim is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="smollm2")
    parser.add_argument("--rows", type=int, default=16)
    parser.add_argument("--prompt", type=int, default=512)
    parser.add_argument("--answer", type=int, default=64)
    parser.add_argument("--micro-tokens", type=int, default=Recipe().micro_tokens)
    parser.add_argument("--plain-tokens", type=int, default=Recipe().micro_tokens)
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--way", default="")
    options = parser.parse_args()
    if options.way:
        one(options.way, options)
        return 0
    ours, plain = (measured(way, sys.argv[1:]) for way in ("ours", "plain"))
    time_ratio, peak_ratio = ours["seconds"] / plain["seconds"], ours["peak"] / plain["peak"]
    print(f"time {time_ratio:.2f}x (aim: <= 0.8), peak memory {peak_ratio:.2f}x (aim: <= 0.5)")
    return 0 if time_ratio <= 0.8 and peak_ratio <= 0.5 else 1


if __name__ == "__main__":
    sys.exit(main())
