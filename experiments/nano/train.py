"""Trains a nano model on its corpus of hidden worlds; goes on from its last checkpoint, then runs the controls.

`python experiments/nano/train.py --out DIR` (and `--model nano-ih`); `python experiments/nano/card.py DIR` then puts it
into the package.
"""

from __future__ import annotations

import argparse
import importlib
import json
import math
import os
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from copy import deepcopy
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import torch
from corpus import Doc
from torch import Tensor
from torch.nn import functional
from transformers import GenerationConfig, Qwen3Config, Qwen3ForCausalLM

CHECKED = 256
"""Documents looked at between two lines of the log."""


@dataclass(frozen=True)
class Recipe:
    """What a training depends on, besides the code."""

    steps: int = 11000
    seed: int = 2
    batch: int = 2048  # tokens of a step; half as many in the first two stages
    peak: float = 1e-3
    warmup: int = 100
    recall: int = 1500  # where the stages of the corpus end (see Corpus.STAGES); the last one goes to the end
    drill: int = 3000
    short: int = 5500
    decay: float = 0.25  # the last share of all steps
    hidden: int = 128
    layers: int = 4
    heads: int = 4
    inner: int = 384


@dataclass(frozen=True)
class Row:
    """A document as ids: the question, the answer with its end, and the part of every answer id (see PARTS)."""

    kind: str
    prompt: list[int]
    answer: list[int]
    parts: list[int]


@dataclass(frozen=True)
class Kind:
    """What one model of the family is made from: its modules, the parts of its answers, and where they begin."""

    modules: str
    parts: tuple[str, ...]
    marks: dict[str, int]
    """The piece of an answer that begins a part; an answer begins with part 0."""
    whole: dict[str, int]
    """Kinds of documents whose answers are of one part."""
    about: str
    """What its text is of, as its card says."""
    recipe: Recipe = Recipe()

    def load(self, name: str) -> Any:  # noqa: ANN401 (a module)
        """Return the module `name` of this model."""
        return importlib.import_module(self.modules + name)


KINDS = {
    "nano-grid": Kind(
        "",
        ("perception", "roles", "decision", "extraction"),
        {". Signs: ": 1, " is at (": 2},
        {"look": 0, "find": 0, "recall": 1, "drill": 1, "keys": 1, "extraction": 3},
        "grid games",
    ),
    "nano-ih": Kind(
        "ih_",
        ("thought", "reply", "facts"),
        {"</think>": 1},
        {"recall": 2, "drill": 2, "extraction": 2},
        "rules under attack",
        Recipe(steps=8700, recall=2200, drill=4200, short=4200),
    ),
}
GRID = "nano-grid"


class Rows:
    """Turns documents into rows; step `n` always has the same ones."""

    def __init__(self, name: str = GRID) -> None:
        self.kind = KINDS[name]
        self.source = self.kind.load("corpus").Corpus
        self.tokenizer = self.kind.load("vocabulary").tokenizer()
        self.marks = {self.tokenizer.convert_tokens_to_ids(text): part for text, part in self.kind.marks.items()}

    def row(self, doc: Doc) -> Row:
        """Return a document as ids."""
        chat = [{"role": message.role, "content": message.content} for message in doc.messages]
        text = self.tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True)
        answer = self.tokenizer(doc.answer).input_ids
        whole = self.kind.whole
        part = whole.get(doc.kind, 0)
        parts = []
        for token in answer:
            part = part if doc.kind in whole else self.marks.get(token, part)
            parts.append(part)
        return Row(doc.kind, self.tokenizer(text).input_ids, [*answer, self.tokenizer.eos_token_id], [*parts, part])

    def batch(self, seed: str, tokens: int, stage: int) -> list[Row]:
        """Return documents of about `tokens` ids together."""
        corpus = self.source(seed)
        rows: list[Row] = []
        while tokens > 0:
            rows.append(self.row(corpus.document(stage)))
            tokens -= len(rows[-1].prompt) + len(rows[-1].answer)
        return rows


_ROWS: dict[str, Rows] = {}


def _made(name: str, seed: str, tokens: int, stage: int) -> list[Row]:
    if name not in _ROWS:
        _ROWS[name] = Rows(name)
    return _ROWS[name].batch(seed, tokens, stage)


def stage(recipe: Recipe, step: int) -> int:
    """Return the stage of the corpus that a step belongs to."""
    return sum(step >= end for end in (recipe.recall, recipe.drill, recipe.short))


def batches(recipe: Recipe, first: int, name: str = GRID) -> Iterator[tuple[int, list[Row]]]:
    """Yield the rows of every step from `first` on, made ahead by another process."""
    with ProcessPoolExecutor(1) as pool:
        ahead: dict[int, Future[list[Row]]] = {}
        for step in range(first, recipe.steps):
            for coming in range(step, min(step + 4, recipe.steps)):
                if coming not in ahead:
                    now = stage(recipe, coming)
                    tokens = recipe.batch // 2 if now < 2 else recipe.batch
                    ahead[coming] = pool.submit(_made, name, f"{recipe.seed}/{coming}", tokens, now)
            yield step, ahead.pop(step).result()


def groups(rows: Sequence[Row]) -> Iterator[list[Row]]:
    """Cut rows into forwards of similar lengths."""
    ordered = sorted(rows, key=lambda row: len(row.prompt) + len(row.answer))
    group: list[Row] = []
    for row in ordered:
        if group and len(row.prompt) + len(row.answer) > 1.5 * (len(group[0].prompt) + len(group[0].answer)):
            yield group
            group = []
        group.append(row)
    yield group


def losses(module: Qwen3ForCausalLM, rows: Sequence[Row]) -> tuple[Tensor, Tensor, Tensor]:
    """Return the loss, the part and whether the likeliest id is right, per answer id of `rows` one after another."""
    width = max(len(row.prompt) + len(row.answer) for row in rows)
    ids = torch.zeros((len(rows), width), dtype=torch.long)
    asked = torch.zeros((len(rows), width), dtype=torch.bool)
    for at, row in enumerate(rows):
        size = len(row.prompt) + len(row.answer)
        ids[at, :size] = torch.tensor(row.prompt + row.answer)
        asked[at, len(row.prompt) - 1 : size - 1] = True
    hidden = module.model(input_ids=ids, use_cache=False).last_hidden_state[asked]
    logits = module.lm_head(hidden).float()
    target = ids.roll(-1, 1)[asked]
    parts = torch.tensor([part for row in rows for part in row.parts])
    return functional.cross_entropy(logits, target, reduction="none"), parts, logits.argmax(-1) == target


def model(recipe: Recipe, vocab: int) -> Qwen3ForCausalLM:
    """Return the untrained model."""
    torch.manual_seed(recipe.seed)
    config = Qwen3Config(
        vocab_size=math.ceil(vocab / 64) * 64,
        hidden_size=recipe.hidden,
        intermediate_size=recipe.inner,
        num_hidden_layers=recipe.layers,
        num_attention_heads=recipe.heads,
        num_key_value_heads=recipe.heads,
        head_dim=32,
        max_position_embeddings=4096,
        tie_word_embeddings=True,
        initializer_range=0.08,
        bos_token_id=None,
        eos_token_id=1,
        pad_token_id=0,
    )
    return Qwen3ForCausalLM(config)


def rate(recipe: Recipe, step: int) -> float:
    """Return the learning rate as a share of its peak: warm-up, plateau, line to a twentieth."""
    left = (recipe.steps - step) / (recipe.decay * recipe.steps)
    return min(1.0, (step + 1) / recipe.warmup, max(left, 0.05))


@torch.no_grad()
def check(module: Qwen3ForCausalLM, rows: Sequence[Row], names: Sequence[str]) -> dict[str, float]:
    """Return, per kind and part, how often every id of the part is the likeliest (the share of whole parts)."""
    right = defaultdict(list)
    for group in groups(rows):
        _, parts, hits = losses(module, group)
        at = 0
        for row in group:
            own, hit = parts[at : at + len(row.parts)], hits[at : at + len(row.parts)]
            at += len(row.parts)
            for part in sorted(set(row.parts)):
                right[f"{row.kind}/{names[part]}"].append(bool(hit[own == part].all()))
    return {name: sum(found) / len(found) for name, found in sorted(right.items())}


class Training:
    """A model in training, its checkpoint in `out` and its log beside it."""

    def __init__(self, recipe: Recipe, out: Path, name: str = GRID) -> None:
        self.recipe = recipe
        self.out = out
        self.name = name
        self.rows = Rows(name)
        self.module = model(recipe, len(self.rows.tokenizer))
        self.optimizer = torch.optim.AdamW(
            self.module.parameters(), lr=recipe.peak, betas=(0.9, 0.95), weight_decay=0.01, fused=True
        )
        self.state = {"step": 0, "tokens": 0, "seconds": 0.0}
        self.sums: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
        held = self.rows.source("check")
        self.checked = [self.rows.row(held.document(n % 2 * 2 + 1)) for n in range(CHECKED)]
        out.mkdir(parents=True, exist_ok=True)
        if (out / "checkpoint.pt").is_file():
            self.load()

    def run(self, minutes: float) -> None:
        """Train for at most `minutes` or to the last step; log and save every minute and at the end."""
        began = logged = time.monotonic()
        for step, batch in batches(self.recipe, self.state["step"], self.name):
            self.step(step, batch)
            now = time.monotonic()
            over = now - began > 60 * minutes or step + 1 == self.recipe.steps
            if over or now - logged > 60:
                self.state["seconds"] += now - logged
                logged = now
                self.log()
                self.save()
            if over:
                return

    def step(self, step: int, batch: Sequence[Row]) -> None:
        """Take one step: the mean over all answer ids of the batch."""
        for group in self.optimizer.param_groups:
            group["lr"] = self.recipe.peak * rate(self.recipe, step)
        total = sum(len(row.parts) for row in batch)
        for rows in groups(batch):
            each, parts, _ = losses(self.module, rows)
            (each.sum() / total).backward()
            for part in parts.unique().tolist():
                own = each.detach()[parts == part]
                sums = self.sums[self.rows.kind.parts[part]]
                sums[0] += float(own.sum())
                sums[1] += len(own)
        torch.nn.utils.clip_grad_norm_(self.module.parameters(), 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.state["step"] = step + 1
        self.state["tokens"] += sum(len(row.prompt) + len(row.parts) for row in batch)

    def log(self) -> None:
        """Write one line: where the training is, the mean loss of each part since the last line, and the check."""
        means = {name: total / count for name, (total, count) in self.sums.items()}
        self.sums.clear()
        line = {**self.state, "loss": means, "right": check(self.module, self.checked, self.rows.kind.parts)}
        text = json.dumps(line, default=float)
        print(text, flush=True)
        with (self.out / "log.jsonl").open("a") as log:
            log.write(text + "\n")

    def save(self) -> None:
        """Write the checkpoint, whole or not at all."""
        saved = {"module": self.module.state_dict(), "optimizer": self.optimizer.state_dict(), "state": self.state}
        torch.save(saved, self.out / "checkpoint.new")
        os.replace(self.out / "checkpoint.new", self.out / "checkpoint.pt")

    def load(self) -> None:
        """Go on from the checkpoint."""
        saved = torch.load(self.out / "checkpoint.pt", weights_only=True)
        self.module.load_state_dict(saved["module"])
        self.optimizer.load_state_dict(saved["optimizer"])
        self.state = saved["state"]

    def export(self, folder: Path) -> None:
        """Write the model as transformers and vLLM load it: bfloat16 weights, tokenizer and template."""
        copy = deepcopy(self.module).to(torch.bfloat16)
        copy.generation_config = GenerationConfig(eos_token_id=self.rows.tokenizer.eos_token_id)
        copy.save_pretrained(folder)
        self.rows.tokenizer.save_pretrained(folder)


def main() -> None:
    """Train, export, run the controls, and say what they found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--model", choices=list(KINDS), default=GRID)
    parser.add_argument("--minutes", type=float, default=240, help="stop after so many; run again to go on")
    for field in fields(Recipe):
        parser.add_argument(f"--{field.name}", type=type(field.default), help="by default, the model's own")
    given = vars(parser.parse_args())
    out, minutes, name = given.pop("out"), given.pop("minutes"), given.pop("model")
    recipe = replace(KINDS[name].recipe, **{key: value for key, value in given.items() if value is not None})
    training = Training(recipe, out, name)
    training.run(minutes)
    training.export(out / "model")
    (out / "recipe.json").write_text(json.dumps({"model": name, **vars(recipe)}, indent=1) + "\n")
    if training.state["step"] == training.recipe.steps:
        controls = training.rows.kind.load("controls")  # it needs this module
        (out / "controls.json").write_text(json.dumps(controls.judge(str(out / "model")), indent=1) + "\n")


if __name__ == "__main__":
    main()
