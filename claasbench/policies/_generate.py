"""Batched answering: what is known is reused, what is shared is computed once, and who has finished leaves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from claasbench import draws
from claasbench.errors import InfraError
from claasbench.policies._cache import Buffer, Past, Seed, common
from claasbench.policies._draw import draw
from claasbench.types import Finish, Sampling

OVERHEAD = 64
"""What one more forward costs in prefill, in tokens of padding it may save (reading all weights once)."""

SHARED = 64
"""Fewest ids that rows must have in common for their keys and values to be kept once."""

BUDGET = 8192
"""Most tokens, padding included, in one prefill forward; a longer single prompt goes alone."""


@dataclass(frozen=True, slots=True)
class Engine:
    """What answers: the module (transformers), the ids that end an answer, and ids to text."""

    module: Any
    ends: frozenset[int]
    text: Callable[[Sequence[int]], str]


@dataclass(slots=True)
class Row:
    """One answer in the making; `past` holds keys and values of the first `known` prompt ids, and at the end all."""

    prompt: tuple[int, ...]
    seed: int
    sampling: Sampling
    room: int  # most ids to generate, at least 1
    stop: tuple[str, ...] = ()
    past: Past | None = None
    known: int = 0
    prefilled: int = 0
    token_ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    finish: Finish = "length"


@torch.inference_mode()
def generate(engine: Engine, rows: Sequence[Row], kept: Sequence[Past]) -> None:
    """Complete `rows` side by side: ids, log-probs, finish, prefilled and past; `kept` may lend their prefixes."""
    for row in rows:
        if row.known == 0:
            _borrow(row, kept)
    shared = _shared(engine, rows)
    start = len(shared.ids) if shared else 0
    batch = sorted(rows, key=lambda row: len(row.prompt) - row.known)
    # Prompts end in the same column, `width`; so every row writes the same columns and starts with its own padding.
    width = max(len(row.prompt) for row in batch) - start
    seeds = [
        Seed(row.past, width + start - len(row.prompt), start, row.known) if row.past and row.known > start else None
        for row in batch
    ]
    buffer = Buffer(width + max(row.room for row in batch), seeds, shared)
    groups = _groups([len(row.prompt) - row.known for row in batch])
    logits = [_prefill(engine, buffer, batch, group, width) for group in groups]
    buffer.release()
    for row in batch:
        row.past = None
    _decode(engine, buffer, batch, torch.cat(logits), width)


def reuse(row: Row, past: Past) -> int:
    """Return how many prompt ids `past` saves: all but the last, whose logits are needed, may be known."""
    return common(past.ids, row.prompt[:-1])


def _borrow(row: Row, kept: Sequence[Past]) -> None:
    """Start an episode on the longest prefix (system and memory) that another one has computed already."""
    for past in kept:
        if (known := reuse(row, past)) > row.known:
            row.past, row.known = past, known


def _shared(engine: Engine, rows: Sequence[Row]) -> Past | None:
    """Return what all `rows` begin with, computed or copied once, where that is long enough to be worth it."""
    prefix = rows[0].prompt[:-1]
    for row in rows[1:]:
        prefix = prefix[: common(prefix, row.prompt[:-1])]
    held = [past for past in {row.past.shared for row in rows if row.past} if past and _begins(prefix, past.ids)]
    if held:
        shared = max(held, key=lambda past: len(past.ids))
    elif len(rows) == 1 or len(prefix) < SHARED:
        return None
    else:
        shared = _computed(engine, rows, prefix)
    for row in rows:
        if row.known < len(shared.ids):
            row.past, row.known = shared, len(shared.ids)
    return shared


def _begins(ids: Sequence[int], prefix: Sequence[int]) -> bool:
    return len(prefix) <= len(ids) and common(ids, prefix) == len(prefix)


def _computed(engine: Engine, rows: Sequence[Row], prefix: tuple[int, ...]) -> Past:
    for row in rows:
        if row.past and row.known >= len(prefix):
            return row.past.head(len(prefix))
    buffer = Buffer(len(prefix), [None])
    lone = Row(prefix, 0, rows[0].sampling, 1)
    _prefill(engine, buffer, [lone], slice(0, 1), len(prefix))
    rows[0].prefilled += lone.prefilled
    return buffer.take(0, slice(0, len(prefix)), prefix)


def _groups(todo: Sequence[int]) -> list[slice]:
    """Cut rows, sorted by what they have to compute, into forwards: least padding plus OVERHEAD per forward."""
    best: list[tuple[int, int]] = [(0, 0)]  # cost of the first n rows, and where their last group starts
    for stop in range(1, len(todo) + 1):
        sizes = [(start, (stop - start) * todo[stop - 1]) for start in range(stop)]
        fitting = [(start, size) for start, size in sizes if size <= BUDGET or start == stop - 1]
        best.append(min((best[start][0] + size + OVERHEAD, start) for start, size in fitting))
    groups = []
    stop = len(todo)
    while stop:
        groups.append(slice(best[stop][1], stop))
        stop = best[stop][1]
    return groups[::-1]


def _prefill(engine: Engine, buffer: Buffer, batch: Sequence[Row], group: slice, width: int) -> Tensor:
    """Compute the prompts of one group and return the logits BV after them.

    All rows of a group compute as many last ids as the neediest: known ones are computed again (and counted) rather
    than padded around, which keeps every row in one piece.
    """
    rows = batch[group]
    start = buffer.start
    own = [row.prompt[start:] for row in rows]
    size = max(len(row.prompt) - row.known for row in rows)
    for row, ids in zip(rows, own, strict=True):
        row.prefilled += min(size, len(ids))
    device = engine.module.device
    ids_BQ = torch.tensor([[0] * (size - len(ids)) + list(ids[-size:]) for ids in own], device=device)
    pad_B11 = torch.tensor([width - len(ids) for ids in own], device=device)[:, None, None]
    keys_T = torch.arange(width, device=device)
    queries_Q1 = keys_T[width - size :, None]
    # Padding sees itself: a query that may attend to nothing gives NaN.
    mask_BQT = ((keys_T <= queries_Q1) & (keys_T >= pad_B11)) | (keys_T == queries_Q1)
    buffer.aim(group, slice(width - size, width))
    return _forward(engine, buffer, ids_BQ, (queries_Q1.T - pad_B11[:, 0]).clamp(min=0) + start, mask_BQT)


def _forward(engine: Engine, buffer: Buffer, ids_BQ: Tensor, positions_BQ: Tensor, mask_BQT: Tensor) -> Tensor:
    """Return the logits BV at the last column."""
    logits_B1V: Tensor = engine.module(
        input_ids=ids_BQ,
        position_ids=positions_BQ,
        attention_mask=mask_BQT[:, None],
        cache=buffer,
        use_cache=True,
        shared=buffer.shared,
        logits_to_keep=1,
    ).logits
    return logits_B1V[:, -1]


def _decode(engine: Engine, buffer: Buffer, batch: Sequence[Row], logits_BV: Tensor, width: int) -> None:
    """Draw and compute one id per row and step until all rows have finished."""
    alive = list(batch)
    device = logits_BV.device
    columns_T = torch.arange(buffer.columns, device=device)
    for step in range(max(row.room for row in batch)):
        _draw(logits_BV, alive, step)
        stop = width + step  # columns computed so far
        _retire(engine, buffer, alive, stop)
        if not alive:
            return
        buffer.aim(slice(0, len(alive)), slice(stop, stop + 1))
        pad_B1 = torch.tensor([width + buffer.start - len(row.prompt) for row in alive], device=device)[:, None]
        ids_B1 = torch.tensor([row.token_ids[-1:] for row in alive], device=device)
        mask_B1T = (columns_T[: stop + 1] >= pad_B1)[:, None]
        logits_BV = _forward(engine, buffer, ids_B1, stop - pad_B1 + buffer.start, mask_B1T)


def _draw(logits_BV: Tensor, rows: Sequence[Row], step: int) -> None:
    """Append one id to each row: rows that sample alike are drawn together."""
    if logits_BV.isnan().any():
        raise InfraError("the model's logits are not numbers")
    alike: dict[Sampling, list[int]] = {}
    for at, row in enumerate(rows):
        alike.setdefault(row.sampling, []).append(at)
    for sampling, places in alike.items():
        chosen_BV = logits_BV if len(alike) == 1 else logits_BV[places]
        uniforms = [draws.uniform(rows[at].seed, step) for at in places]
        for at, token, logprob in zip(places, *draw(chosen_BV, uniforms, sampling), strict=True):
            rows[at].token_ids.append(token)
            rows[at].logprobs.append(logprob)


def _retire(engine: Engine, buffer: Buffer, alive: list[Row], stop: int) -> None:
    """Take the rows that have finished out of the batch; the last row moves into the gap."""
    for at in reversed(range(len(alive))):
        row = alive[at]
        ended = row.token_ids[-1] in engine.ends
        if row.stop and not ended:  # only stop strings make us read the text at every step
            text = engine.text(row.token_ids)
            ended = any(string in text for string in row.stop)
        if not ended and len(row.token_ids) < row.room:
            continue
        row.finish = "stop" if ended else "length"
        own = len(row.prompt) - buffer.start + len(row.token_ids) - 1  # the last id was drawn, not computed
        row.past = buffer.take(at, slice(stop - own, stop), (*row.prompt, *row.token_ids[:-1]))
        last = alive.pop()
        if last is not row:
            buffer.move(len(alive), at, stop)
            alive[at] = last
