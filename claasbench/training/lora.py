"""Adapters: PEFT's LoRA on all linear layers, injected into the policy's own module; base means adapter off."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from pathlib import Path
from typing import Any

import torch
from peft import LoraConfig, get_peft_model, get_peft_model_state_dict
from safetensors.torch import save_file
from torch import Tensor, nn

from claasbench.models import Loaded
from claasbench.training.weights import BASE, STUDENT, TEACHER, Weights


class Lora(Weights):
    """Adapters of rank `rank`, scaled by alpha / rank; trained in float32."""

    def __init__(self, loaded: Loaded, rank: int, alpha: int, seed: int) -> None:
        super().__init__(loaded)
        self.config = LoraConfig(
            r=rank, lora_alpha=alpha, lora_dropout=0.0, target_modules="all-linear", task_type="CAUSAL_LM"
        )
        with torch.random.fork_rng(), warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # PEFT reads an attribute that transformers has renamed
            torch.manual_seed(seed)  # A is drawn from torch's own generator
            self.peft = get_peft_model(self.module, self.config, adapter_name=STUDENT)
        self._named = self._of(STUDENT)

    @property
    def trained(self) -> dict[str, nn.Parameter]:
        """The student's factors."""
        return self._named

    @property
    def taught(self) -> dict[str, Tensor]:
        """The teacher's factors."""
        return {name: parameter.data for name, parameter in self._of(TEACHER).items()}

    @contextmanager
    def at(self, which: str) -> Iterator[Any]:
        """Switch adapters and back."""
        if which == BASE:
            with self.peft.disable_adapter():
                yield self.module
        elif which == TEACHER and self.teaching:
            self.peft.set_adapter(TEACHER, inference_mode=True)
            try:
                yield self.module
            finally:
                self.peft.set_adapter(STUDENT)
        else:
            yield self.module

    def _fork(self) -> None:
        self.peft.add_adapter(TEACHER, deepcopy(self.config))
        for parameter in self._of(TEACHER).values():
            parameter.requires_grad_(False)
        self.peft.set_adapter(STUDENT)

    def _of(self, adapter: str) -> dict[str, nn.Parameter]:
        mark = f".{adapter}."
        named = self.peft.named_parameters()
        return {name.replace(mark, "."): value for name, value in named if mark in name and "lora_" in name}

    def export(self, folder: Path) -> None:
        """Write adapter_config.json and adapter_model.safetensors as PEFT names them."""
        held = get_peft_model_state_dict(self.peft, adapter_name=STUDENT)
        save_file(
            {name: tensor.detach().cpu().contiguous() for name, tensor in sorted(held.items())},
            folder / "adapter_model.safetensors",
            metadata={"format": "pt"},
        )
        config = self.peft.peft_config[STUDENT].to_dict() | {"inference_mode": True}
        plain = {name: sorted(value) if isinstance(value, set) else value for name, value in sorted(config.items())}
        (folder / "adapter_config.json").write_text(json.dumps(plain, indent=1, default=str) + "\n")
