"""Our update against TRL's on the same rows: losses of three updates must agree, relatively; seconds are compared.

`pip install trl==1.16.0` first; it is needed for this alone. Two updates are compared: GRPOTrainer's clipped policy
loss (loss_type bnpo, delta 3) with our PolicyGradient, and the experimental SDPOTrainer's top-k divergence with a tail
bucket and our Distillation. All answers have one length, as TRL's SDPO takes a mean of means over rows. Neither side
generates: TRL's trainers are given prepared rows. Each side runs in a process of its own, one after the other.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from _setup import random_rows
from torch import Tensor, nn

from claasbench.policies.hf import Hf
from claasbench.training import losses
from claasbench.training.trainer import Recipe, Trainer
from claasbench.types import Row

K = 100
UPDATES = 3
Step = Callable[[], float]


def rows(options: argparse.Namespace, vocabulary: int) -> list[Row]:
    """Return random rows whose prompts differ in length by a factor of two, with advantages of both signs."""
    lengths = [options.prompt * (options.rows + n) // (2 * options.rows) for n in range(options.rows)]
    made = random_rows(lengths, options.answer, vocabulary)
    return [replace(row, advantage=((1.0, -0.3)[n % 2],) * options.answer) for n, row in enumerate(made)]


def recipe(options: argparse.Namespace) -> Recipe:
    """Return how both sides train."""
    return Recipe(tune=options.tune, lr=options.lr)


def ours(options: argparse.Namespace, method: str) -> Step:
    """Return an update of ours; old log-probs are those at the start."""
    policy = Hf(options.model, device="cpu")
    trainer = Trainer(policy, recipe(options), 0)
    trainer.weights.copy()
    assert policy.loaded is not None
    made = rows(options, policy.loaded.module.config.vocab_size)
    starts = trainer.score(made)
    made = [replace(row, old_logprobs=tuple(old)) for row, old in zip(made, starts, strict=True)]
    loss: Any = losses.PolicyGradient() if method == "policy" else losses.Distillation(k=K)
    given = starts if method == "policy" else None
    return lambda: trainer.step(made, [loss], given)[loss.name]


def theirs(options: argparse.Namespace, method: str) -> Step:
    """Return an update of TRL's, with torch's AdamW and the same clipping."""
    policy = Hf(options.model, device="cpu")
    assert policy.loaded is not None
    module, tokenizer = policy.loaded.module, policy.loaded.tokenizer
    module.set_attn_implementation("sdpa")
    made = rows(options, module.config.vocab_size)
    with tempfile.TemporaryDirectory() as folder:
        module.save_pretrained(folder)
        module.config._name_or_path = folder  # the SDPO trainer loads its teacher from there
        module = _adapted(module) if options.tune == "lora" else module
        trainer = (_grpo if method == "policy" else _sdpo)(options, module, tokenizer, folder)
    trainer._prepare_inputs = lambda inputs: inputs
    trainer.current_gradient_accumulation_steps = -(-options.rows // options.per_forward)
    trainer.model.train()
    ours = recipe(options)
    trained = [parameter for parameter in trainer.model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=ours.lr, weight_decay=ours.weight_decay)
    batches = [made[at : at + options.per_forward] for at in range(0, len(made), options.per_forward)]
    inputs = [_inputs(batch) for batch in batches]
    with torch.no_grad():
        for each in inputs:
            each["old_per_token_logps"] = _logprobs(trainer.model, each)

    def step() -> float:
        total = sum(float(trainer.training_step(trainer.model, dict(each), None)) for each in inputs)
        nn.utils.clip_grad_norm_(trained, ours.clip_norm)
        optimizer.step()
        optimizer.zero_grad()
        return total

    return step


def _common(options: argparse.Namespace, folder: str) -> dict[str, Any]:
    return {
        "output_dir": folder,
        "per_device_train_batch_size": options.per_forward,
        "gradient_accumulation_steps": -(-options.rows // options.per_forward),
        "num_generations": 2,
        "temperature": 1.0,
        "use_cpu": True,
        "bf16": False,
        "gradient_checkpointing": False,
        "report_to": [],
        "beta": 0.0,
    }


def _adapted(module: Any) -> Any:  # noqa: ANN401
    """Return the module with an adapter whose first factors are drawn as ours are."""
    from peft import LoraConfig, get_peft_model

    with torch.random.fork_rng():
        torch.manual_seed(0)
        config = LoraConfig(r=32, lora_alpha=64, target_modules="all-linear", task_type="CAUSAL_LM")
        return get_peft_model(module, config)


def _actors(tokenizer: Any) -> dict[str, Any]:  # noqa: ANN401
    from datasets import Dataset

    return {
        "reward_funcs": lambda completions, **_: [0.0] * len(completions),
        "train_dataset": Dataset.from_list([{"prompt": "a", "privileged_context": "b"}] * 64),
        "processing_class": tokenizer,
    }


def _grpo(options: argparse.Namespace, module: Any, tokenizer: Any, folder: str) -> Any:  # noqa: ANN401
    from trl import GRPOConfig, GRPOTrainer

    args = GRPOConfig(**_common(options, folder), loss_type="bnpo", epsilon=0.2, delta=3.0)
    return GRPOTrainer(module, args=args, **_actors(tokenizer))


def _sdpo(options: argparse.Namespace, module: Any, tokenizer: Any, folder: str) -> Any:  # noqa: ANN401
    from trl.experimental.sdpo import SDPOConfig, SDPOTrainer

    args = SDPOConfig(
        **_common(options, folder),
        distillation_mode="topk_logits",
        distillation_topk=K,
        distillation_alpha=0.5,
        distillation_add_tail=True,
        teacher_model_kind="base",
    )
    return SDPOTrainer(module, args=args, **_actors(tokenizer))


def _inputs(batch: Sequence[Row]) -> dict[str, Tensor]:
    """Return rows as TRL wants them: prompts padded on the left."""
    answers = torch.tensor([row.token_ids for row in batch])
    prompts, prompt_mask = _left([row.prompt_ids for row in batch])
    contexts, context_mask = _left([row.context_ids or () for row in batch])
    return {
        "prompt_ids": prompts,
        "prompt_mask": prompt_mask,
        "completion_ids": answers,
        "completion_mask": torch.ones_like(answers),
        "advantages": torch.tensor([row.advantage[0] for row in batch if row.advantage]),
        "num_items_in_batch": torch.tensor(answers.numel()),
        "teacher_input_ids": torch.cat([contexts, answers], 1),
        "teacher_attention_mask": torch.cat([context_mask, torch.ones_like(answers)], 1),
    }


def _left(texts: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
    width = max(map(len, texts))
    ids = torch.tensor([[0] * (width - len(text)) + list(text) for text in texts])
    return ids, torch.tensor([[0] * (width - len(text)) + [1] * len(text) for text in texts])


def _logprobs(model: Any, inputs: dict[str, Tensor]) -> Tensor:  # noqa: ANN401
    answers = inputs["completion_ids"]
    ids = torch.cat([inputs["prompt_ids"], answers], 1)
    mask = torch.cat([inputs["prompt_mask"], inputs["completion_mask"]], 1)
    logits = model(input_ids=ids, attention_mask=mask, logits_to_keep=answers.shape[1] + 1).logits[:, :-1]
    found: Tensor = logits.log_softmax(-1).gather(-1, answers[..., None])[..., 0]
    return found


def one(side: str, method: str, options: argparse.Namespace) -> None:
    """Take the updates of one side; print their losses and the seconds of the fastest."""
    step = (ours if side == "ours" else theirs)(options, method)
    found, seconds = [], []
    for _ in range(UPDATES):
        start = time.perf_counter()
        found.append(step())
        seconds.append(time.perf_counter() - start)
    print(json.dumps({"losses": found, "seconds": min(seconds)}))


def measured(method: str, words: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Run both sides, each in a process of its own."""
    for side in ("ours", "trl"):
        call = [sys.executable, str(Path(__file__)), *words, "--side", side, "--method", method]
        done = subprocess.run(call, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"{side} failed:\n{done.stderr[-2000:]}")
        found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        print(f"{method:7} {side:5} {found['seconds']:.2f} s, losses {' '.join(f'{x:.6f}' for x in found['losses'])}")
        yield found


def main() -> int:
    """Compare both updates; exit code 1 where losses differ or ours is slower."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="nano-grid")
    parser.add_argument("--tune", default="full", choices=["full", "lora"])
    parser.add_argument("--lr", type=float, default=3e-5)
    parser.add_argument("--rows", type=int, default=16)
    parser.add_argument("--prompt", type=int, default=256, help="ids of the longest prompt; the shortest has half")
    parser.add_argument("--answer", type=int, default=40)
    parser.add_argument("--per-forward", type=int, default=8, help="rows of one forward of TRL's (its default is 8)")
    parser.add_argument("--side", default="", help=argparse.SUPPRESS)
    parser.add_argument("--method", default="", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.side:
        one(options.side, options.method, options)
        return 0
    met = True
    for method in ("policy", "sdpo"):
        mine, peer = measured(method, sys.argv[1:])
        apart = max(abs(a - b) / abs(b) for a, b in zip(mine["losses"], peer["losses"], strict=True))
        ratio = mine["seconds"] / peer["seconds"]
        print(f"{method:7} losses of {UPDATES} updates apart by {apart:.1e} (aim: <= 1e-4), time {ratio:.2f}x (<= 1.0)")
        met = met and apart <= 1e-4 and ratio <= 1.0
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
