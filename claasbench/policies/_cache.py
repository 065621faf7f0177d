"""Keys and values: of a batch while it answers, and of one episode between two of its turns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True, eq=False)
class Past:
    """Keys and values (one tensor HTD per layer: heads, ids, width) of the first `ids` of a sequence.

    Those of the ids that `shared` holds are there, for all who begin alike; the tensors here are of the rest.
    """

    ids: tuple[int, ...]
    keys: list[Tensor]
    values: list[Tensor]
    shared: Past | None = None

    def span(self, layer: int, start: int, stop: int) -> tuple[Tensor, Tensor]:
        """Return keys and values HTD of the ids from `start` to `stop`."""
        base = len(self.shared.ids) if self.shared else 0
        own = slice(max(start - base, 0), max(stop - base, 0))
        keys, values = self.keys[layer][:, own], self.values[layer][:, own]
        if self.shared is None or start >= base:
            return keys, values
        far_keys, far_values = self.shared.span(layer, start, min(stop, base))
        return torch.cat([far_keys, keys], dim=1), torch.cat([far_values, values], dim=1)

    def head(self, length: int) -> Past:
        """Return a copy of the first `length` ids that shares nothing."""
        spans = [self.span(layer, 0, length) for layer in range(len(self.keys))]
        return Past(self.ids[:length], [keys.clone() for keys, _ in spans], [values.clone() for _, values in spans])


def common(left: Sequence[int], right: Sequence[int]) -> int:
    """Return the length of the longest common prefix."""
    for at, (one, other) in enumerate(zip(left, right, strict=False)):
        if one != other:
            return at
    return min(len(left), len(right))


@dataclass(frozen=True, slots=True)
class Seed:
    """Where known keys and values enter a buffer: the ids `start` to `stop` of `past`, from `column` on."""

    past: Past
    column: int
    start: int
    stop: int


class Buffer:
    """Keys and values of a batch, BHTD per layer, allocated once for all columns a call can need.

    All rows write the same columns, so nothing is copied per token. A model takes it as its `cache`: attention
    layers only call `update`; masks and positions are handed to the model, so it asks for nothing else.
    """

    def __init__(self, columns: int, seeds: Sequence[Seed | None], shared: Past | None = None) -> None:
        self.columns = columns
        self.height = len(seeds)
        self.seeds = seeds
        self.shared = shared  # what all rows begin with; its columns are not here
        self.keys: list[Tensor] = []
        self.values: list[Tensor] = []
        self.rows = slice(0, len(seeds))
        self.span = slice(0, 0)

    @property
    def start(self) -> int:
        """The number of ids before the first column."""
        return len(self.shared.ids) if self.shared else 0

    def aim(self, rows: slice, span: slice) -> None:
        """Say which rows and columns the next forward computes."""
        self.rows, self.span = rows, span

    def update(self, keys: Tensor, values: Tensor, layer: int, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:  # noqa: ANN401
        """Take what a layer computed (BHQD) and return all it may attend to (BHTD)."""
        if layer == len(self.keys):  # the first forward tells each layer's shape
            spans = [seed.past.span(layer, seed.start, seed.stop) if seed else None for seed in self.seeds]
            self.keys.append(self._opened(keys, [span[0] if span else None for span in spans]))
            self.values.append(self._opened(values, [span[1] if span else None for span in spans]))
        self.keys[layer][self.rows, :, self.span] = keys
        self.values[layer][self.rows, :, self.span] = values
        seen = slice(0, self.span.stop)
        return self.keys[layer][self.rows, :, seen], self.values[layer][self.rows, :, seen]

    def get_seq_length(self, layer: int = 0) -> int:
        """Return the number of columns before those being computed (a model's name for it)."""
        return int(self.span.start)

    def release(self) -> None:
        """Let go of the seeds, once a forward has copied them."""
        self.seeds = ()

    def take(self, row: int, span: slice, ids: tuple[int, ...]) -> Past:
        """Return a copy of one row's columns `span`; with what all rows share they hold `ids`."""
        cut = (row, slice(None), span)
        keys, values = ([kept[cut].clone() for kept in both] for both in (self.keys, self.values))
        return Past(ids, keys, values, self.shared)

    def move(self, source: int, target: int, stop: int) -> None:
        """Overwrite row `target` with the first `stop` columns of row `source`."""
        for kept in (*self.keys, *self.values):
            kept[target, :, :stop] = kept[source, :, :stop]

    def _opened(self, like: Tensor, known: Sequence[Tensor | None]) -> Tensor:
        # Zeros: columns left of a row's first id are masked, but 0 x NaN of whatever lay in memory would be NaN.
        made = like.new_zeros((self.height, like.shape[1], self.columns, like.shape[3]))
        for row, (seed, tensor) in enumerate(zip(self.seeds, known, strict=True)):
            if seed is not None and tensor is not None:
                made[row, :, seed.column : seed.column + tensor.shape[1]] = tensor
        return made
