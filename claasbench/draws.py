"""Every random draw as a pure function of named parts, so that no random state is ever kept."""

import hashlib
import json
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")
Part = str | int


def seed(*parts: Part) -> int:
    """Return 64 bits that depend on `parts` alone: SHA-256 of their JSON list."""
    spelled = json.dumps(parts, separators=(",", ":")).encode()
    return int.from_bytes(hashlib.sha256(spelled).digest()[:8], "big")


def uniform(*parts: Part) -> float:
    """Return a uniform draw in [0, 1) with 53 bits that depends on `parts` alone."""
    return (seed(*parts) >> 11) * 2.0**-53


def choice(options: Sequence[T], *parts: Part) -> T:
    """Return one of `options`, each equally likely."""
    return options[int(uniform(*parts) * len(options))]


def shuffled(items: Sequence[T], *parts: Part) -> list[T]:
    """Return `items` in an order drawn uniformly (sorted by one hash per position)."""
    order = sorted(range(len(items)), key=lambda index: seed(*parts, index))
    return [items[index] for index in order]
