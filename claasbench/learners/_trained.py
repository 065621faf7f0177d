"""What all learners that train weights share: how the weights are trained, and their state on disk."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from claasbench.errors import invalid
from claasbench.learners.base import Learner
from claasbench.policies.base import Policy

if TYPE_CHECKING:
    from claasbench.training.trainer import Trainer

NANO: Mapping[str, Any] = {"tune": "full", "lr": 3e-4}
"""On a model of a million parameters an adapter at 1e-5 does nothing visible."""


@dataclass
class Trained(Learner):
    """Opens a trainer on the learner's policy."""

    preset: str = ""
    """A set of defaults: paper (those shown here) or nano; by default the one of the model."""
    tune: Literal["lora", "full"] = "lora"
    """lora: adapters on all linear layers; full: all weights, for small models."""
    rank: int = 32
    """Rank of the adapters."""
    alpha: int = 64
    """Adapters are scaled by alpha / rank."""
    lr: float = 1e-5
    """Learning rate of AdamW, constant."""
    weight_decay: float = 0.01
    """Decay of AdamW; on adapters it pulls towards the base model."""
    clip_norm: float = 1.0
    """Largest norm of a gradient."""
    micro_tokens: int = 2048
    """Most ids of one forward; a longer row goes alone."""

    needs: ClassVar[frozenset[str]] = frozenset({"logprobs", "weights"})
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {"paper": {}, "nano": NANO}
    head_lr: float = field(default=0.0, init=False)
    """Learning rate of a value head; 0: there is none."""

    def __post_init__(self) -> None:
        """Refuse settings out of range."""
        self.at_least(1, "rank", "alpha", "micro_tokens")
        self.at_least(0, "weight_decay")
        self.above_zero("lr", "clip_norm")

    def at_least(self, least: int, *names: str) -> None:
        """Refuse settings below `least`."""
        for name in names:
            if getattr(self, name) < least:
                raise invalid(f"learner.{name}", getattr(self, name), f"{least} or more")

    def above_zero(self, *names: str) -> None:
        """Refuse settings that are not positive."""
        for name in names:
            if not getattr(self, name) > 0:
                raise invalid(f"learner.{name}", getattr(self, name), "above 0")

    def share(self, *names: str) -> None:
        """Refuse settings outside of 0 to 1."""
        for name in names:
            if not 0 <= getattr(self, name) <= 1:
                raise invalid(f"learner.{name}", getattr(self, name), "0 to 1")

    def setup(self, seats: Mapping[str, Policy], seed: int) -> None:
        """Open a trainer."""
        from claasbench.training.trainer import Recipe, Trainer  # torch stays out of every command but run

        super().setup(seats, seed)
        self.seed = seed
        recipe = Recipe(**{entry.name: getattr(self, entry.name) for entry in fields(Recipe)})
        self.trainer: Trainer = Trainer(self.policy, recipe, seed)

    def save(self, folder: Path) -> None:
        """Write weights and optimizer."""
        self.trainer.save(folder)

    def load(self, folder: Path) -> None:
        """Restore what save wrote."""
        self.trainer.load(folder)
