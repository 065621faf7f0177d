"""The trainer: scores rows, takes steps on the weights of a policy's own module, saves them with the optimizer."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, Protocol

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.nn import functional

from claasbench.errors import ClaasbenchError
from claasbench.models import refused
from claasbench.policies.base import Policy
from claasbench.training import forward
from claasbench.training.forward import Batch, Scored
from claasbench.training.weights import STUDENT, TEACHER, Full, Weights
from claasbench.types import Row


class Loss(Protocol):
    """What a step minimises: sums over a micro-batch, divided by the denominator of the whole batch."""

    @property
    def name(self) -> str:
        """What the mean is called in the log."""
        ...

    @property
    def k(self) -> int:
        """How many of the student's likeliest ids it looks at, together with a teacher; 0: no teacher."""
        ...

    def denominator(self, batch: Batch) -> float:
        """Return what the sum of the whole batch is divided by; it adds up over micro-batches."""
        ...

    def __call__(self, batch: Batch, out: Scored) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the sum of a micro-batch, and sums to log, which are divided by the same denominator."""
        ...


@dataclass(frozen=True, slots=True)
class Recipe:
    """How weights are trained."""

    tune: Literal["lora", "full"] = "lora"
    rank: int = 32
    alpha: int = 64
    lr: float = 1e-5
    weight_decay: float = 0.01
    clip_norm: float = 1.0
    micro_tokens: int = 2048
    head_lr: float = 0.0  # of a value head; 0: there is none


class Trainer:
    """Trains the policy's module; `version` counts the steps taken, `skipped` those whose gradient was not finite."""

    def __init__(self, policy: Policy, recipe: Recipe, seed: int) -> None:
        if policy.loaded is None:
            raise ClaasbenchError(f"policy {type(policy).__name__} has no weights to train")
        self.policy = policy
        self.recipe = recipe
        self.version = 0
        self.skipped = 0
        self.weights = self._weights(seed)
        self.device = policy.loaded.module.device
        self._check()
        config = policy.loaded.module.config.get_text_config()
        self.limit: int = getattr(config, "max_position_embeddings", None) or 1 << 30
        self.head = self._head() if recipe.head_lr else None
        groups: list[dict[str, Any]] = [{"params": list(self.weights.trained.values())}]
        if self.head:
            groups.append({"params": list(self.head.parameters()), "lr": recipe.head_lr})
        self.optimizer = torch.optim.AdamW(groups, lr=recipe.lr, weight_decay=recipe.weight_decay)
        policy.adopt(self.weights.at)
        self.publish()

    def _check(self) -> None:
        """Refuse a model that rows side by side would mislead, before anything is played."""
        assert self.policy.loaded is not None
        with torch.no_grad():
            try:
                forward.score(self.policy.loaded.module, forward.batch([Row((0,), (0,))] * 2, self.device))
            except ClaasbenchError as error:
                raise refused(self.policy.loaded.name, str(error)) from None

    def _weights(self, seed: int) -> Weights:
        loaded = self.policy.loaded
        assert loaded is not None
        if self.recipe.tune == "full":
            return Full(loaded)
        from claasbench.training.lora import Lora  # PEFT takes seconds to import

        return Lora(loaded, self.recipe.rank, self.recipe.alpha, seed)

    def _head(self) -> nn.Linear:
        """Return a linear value of the hidden state, zero at first; it stands outside of the module's tree."""
        width = self.weights.module.config.get_text_config().hidden_size
        head = nn.Linear(width, 1, device=self.device)
        nn.init.zeros_(head.weight)
        nn.init.zeros_(head.bias)
        return head

    def publish(self) -> str:
        """Let the policy answer with the weights as they are now; returns how it names them."""
        served = f"v{self.version}-{self.weights.content()[:12]}"
        self.policy.refresh(served)
        return served

    @torch.no_grad()
    def score(self, rows: Sequence[Row], which: str = STUDENT) -> list[list[float]]:
        """Return the log-prob of every action token of `rows` under the weights of `which`."""
        found: list[list[float]] = [[] for _ in rows]
        forward.checked(rows, self.limit)
        with self.weights.at(which) as module:
            for piece in forward.pieces(rows, self.recipe.micro_tokens):
                made = forward.batch([rows[at] for at in piece], self.device)
                logprobs = forward.score(module, made).logprob_T
                sizes = [len(rows[at].token_ids) for at in piece]
                for at, own in zip(piece, torch.split(logprobs, sizes), strict=True):
                    found[at] = own.tolist()
        return found

    @torch.no_grad()
    def values(self, rows: Sequence[Row]) -> list[float]:
        """Return what the value head says at the last prompt token of each row, under the student's weights."""
        found = [0.0] * len(rows)
        forward.checked(rows, self.limit)
        for piece in forward.pieces(rows, self.recipe.micro_tokens):
            out = self._scored(forward.batch([rows[at] for at in piece], self.device), 0)
            assert out.value_B is not None
            for at, value in zip(piece, out.value_B.tolist(), strict=True):
                found[at] = value
        return found

    def step(
        self, rows: Sequence[Row], losses: Sequence[Loss], starts: Sequence[Sequence[float]] | None = None
    ) -> dict[str, float]:
        """Take one step on `rows` and return what to log; `starts` are log-probs at the start of a repeated batch.

        A step whose gradient is not finite changes nothing but `skipped`.
        """
        forward.checked(rows, self.limit)
        pieces = forward.pieces(rows, self.recipe.micro_tokens)
        batches = [self._batch(rows, piece, starts) for piece in pieces]
        whole = {loss.name: sum(loss.denominator(made) for made in batches) for loss in losses}
        sums: dict[str, float] = defaultdict(float)
        for made in batches:
            out = self._scored(made, max(loss.k for loss in losses))
            total = torch.zeros((), device=self.device)
            for loss in losses:
                value, more = loss(made, out)
                total = total + value / max(whole[loss.name], 1e-8)
                for name, part in ({loss.name: value.detach()} | more).items():
                    sums[name] += float(part) / max(whole[loss.name], 1e-8)
            torch.autograd.backward(total)
            sums["entropy"] += float(out.entropy_T.sum()) / sum(len(row.token_ids) for row in rows)
        return dict(sums) | self._descend()

    def _batch(self, rows: Sequence[Row], piece: Sequence[int], starts: Sequence[Sequence[float]] | None) -> Batch:
        chosen = None if starts is None else [starts[at] for at in piece]
        return forward.batch([rows[at] for at in piece], self.device, chosen)

    def _scored(self, made: Batch, k: int) -> Scored:
        with self.weights.at(STUDENT) as module:
            out = forward.score(module, made, k)
        if self.head:  # the scale of hidden states varies between models and layers, so it is taken away first
            hidden_BD = functional.layer_norm(out.hidden_BD.detach().float(), out.hidden_BD.shape[-1:])
            out = replace(out, value_B=self.head(hidden_BD)[:, 0])
        if not k:
            return out
        with torch.no_grad(), self.weights.at(TEACHER) as module:
            return replace(out, teacher_TK=forward.score(module, made, 0, out.top_ids_TK, context=True).top_TK)

    def _descend(self) -> dict[str, float]:
        # Apart, so that a large gradient of the head does not shrink that of the policy.
        norm = float(nn.utils.clip_grad_norm_(self.weights.trained.values(), self.recipe.clip_norm))
        apart = float(nn.utils.clip_grad_norm_(self.head.parameters(), self.recipe.clip_norm)) if self.head else 0.0
        if math.isfinite(norm + apart):
            self.optimizer.step()
            self.version += 1
        else:
            self.skipped += 1
        self.optimizer.zero_grad()
        return {"grad_norm": norm, "skipped": float(self.skipped)}

    def save(self, folder: Path) -> None:
        """Write weights, optimizer and counters; equal states give equal bytes."""
        self.weights.save(folder)
        if self.head:
            save_file(self.head.state_dict(), folder / "head.safetensors")
        tensors: dict[str, Tensor] = {}
        for name, parameter in self._parameters().items():
            for key, value in self.optimizer.state.get(parameter, {}).items():
                tensors[f"{key}/{name}"] = value.detach().cpu().contiguous()
        save_file(tensors, folder / "optimizer.safetensors")
        counts = {"version": self.version, "skipped": self.skipped, "base": self._base()}
        (folder / "trainer.json").write_text(json.dumps(counts, sort_keys=True) + "\n")

    def load(self, folder: Path) -> None:
        """Restore what save wrote and publish it; the weights of another base model are a ClaasbenchError."""
        counts = json.loads((folder / "trainer.json").read_text())
        if counts["base"] != self._base():
            raise ClaasbenchError(f"{folder} holds weights trained on another base model ({counts['base'][:12]})")
        self.weights.load(folder)
        if self.head:
            self.head.load_state_dict(load_file(folder / "head.safetensors"))
        held: dict[str, dict[str, Any]] = defaultdict(dict)
        for name, tensor in load_file(folder / "optimizer.safetensors").items():
            key, _, owner = name.partition("/")
            held[owner][key] = tensor
        for name, parameter in self._parameters().items():
            if name in held:
                state = {key: tensor.to(parameter.device) for key, tensor in held[name].items()}
                self.optimizer.state[parameter] = {**state, "step": held[name]["step"]}
        self.version, self.skipped = counts["version"], counts["skipped"]
        self.publish()

    def _parameters(self) -> dict[str, nn.Parameter]:
        own = self.head.named_parameters() if self.head else ()
        return self.weights.trained | {f"head.{name}": parameter for name, parameter in own}

    def _base(self) -> str:
        assert self.policy.loaded is not None
        return self.policy.loaded.content
