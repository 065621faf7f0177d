"""Whose weights a module shows: the student's, the teacher's or the base's; here as frozen copies of the module."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from contextlib import nullcontext
from copy import deepcopy
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from claasbench.errors import ClaasbenchError
from claasbench.models import Loaded

STUDENT, TEACHER, BASE = "student", "teacher", "base"


class Weights(ABC):
    """The module of a policy, seen at one set of weights at a time."""

    def __init__(self, loaded: Loaded) -> None:
        self.loaded = loaded
        self.module: Any = loaded.module
        self.teaching = False
        """Whether a teacher of its own exists; until then it is the student."""

    @property
    @abstractmethod
    def trained(self) -> dict[str, nn.Parameter]:
        """The student's parameters by name."""

    @property
    @abstractmethod
    def taught(self) -> dict[str, Tensor]:
        """The teacher's parameters by the same names."""

    @abstractmethod
    def at(self, which: str) -> Any:  # noqa: ANN401 (a context manager of the module)
        """Return a context in which the module it gives answers with the weights of `which`."""

    @abstractmethod
    def _fork(self) -> None:
        """Make room for a teacher."""

    @abstractmethod
    def export(self, folder: Path) -> None:
        """Write the student as others load it: a PEFT folder, or a whole model."""

    def copy(self) -> None:
        """Make the teacher what the student is now."""
        if not self.teaching:
            self._fork()
            self.teaching = True
        self.follow(1.0)

    @torch.no_grad()
    def follow(self, rate: float) -> None:
        """Move the teacher by `rate` of the way to the student (an exponential moving average, in float32).

        For adapters it averages the factors A and B, which is the average of BA only while A stands still.
        """
        taught = self.taught
        for name, parameter in self.trained.items():
            taught[name].lerp_(parameter.detach().to(taught[name].dtype), rate)

    def content(self) -> str:
        """Return the SHA-256 (hex) of the base and the student's weights."""
        hasher = hashlib.sha256(self.loaded.content.encode())
        for name, parameter in sorted(self.trained.items()):
            hasher.update(name.encode() + parameter.detach().cpu().contiguous().view(torch.uint8).numpy().tobytes())
        return hasher.hexdigest()

    def save(self, folder: Path) -> None:
        """Write student and teacher; equal weights give equal bytes."""
        tensors = {STUDENT: dict(self.trained)} | ({TEACHER: self.taught} if self.teaching else {})
        for which, named in tensors.items():
            held = {name: tensor.detach().cpu().contiguous() for name, tensor in sorted(named.items())}
            save_file(held, folder / f"{which}.safetensors")

    def load(self, folder: Path) -> None:
        """Restore what save wrote; weights of another shape are a ClaasbenchError."""
        self._restore(folder / f"{STUDENT}.safetensors", self.trained)
        if (folder / f"{TEACHER}.safetensors").is_file():
            self.copy()
            self._restore(folder / f"{TEACHER}.safetensors", self.taught)

    def _restore(self, file: Path, named: Any) -> None:  # noqa: ANN401 (parameters or tensors by name)
        try:
            held = load_file(file)
        except Exception as error:  # noqa: BLE001 (safetensors raises its own kinds)
            raise ClaasbenchError(f"{file} cannot be read as weights: {error}") from None
        if held.keys() != named.keys() or any(held[name].shape != named[name].shape for name in held):
            raise ClaasbenchError(f"{file} holds weights of another model or of other adapter settings")
        with torch.no_grad():
            for name, tensor in held.items():
                named[name].copy_(tensor)


class Full(Weights):
    """The whole module in float32; for models small enough to be held two or three times."""

    def __init__(self, loaded: Loaded) -> None:
        super().__init__(loaded)
        self.copies = {BASE: deepcopy(self.module).requires_grad_(False)}
        self.module.float().requires_grad_(True)
        self._named = dict(self.module.named_parameters())

    @property
    def trained(self) -> dict[str, nn.Parameter]:
        """All parameters; tied ones once."""
        return self._named

    @property
    def taught(self) -> dict[str, Tensor]:
        """The teacher's copy."""
        return {name: parameter.data for name, parameter in self.copies[TEACHER].named_parameters()}

    def at(self, which: str) -> Any:  # noqa: ANN401
        """Give the module or a copy."""
        return nullcontext(self.copies.get(which, self.module))

    def _fork(self) -> None:
        self.copies[TEACHER] = deepcopy(self.module).requires_grad_(False)

    def export(self, folder: Path) -> None:
        """Write a model folder that transformers and vLLM load."""
        self.module.save_pretrained(folder)
        self.loaded.tokenizer.save_pretrained(folder)
