"""One forward over rows: log-probs of the action tokens, and what the losses ask for beside them.

Rows stand one after another without padding, and attention is taken row by row. Logits exist at trained positions only
and in chunks, each computed again for its gradient; log-softmax is in float32.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from claasbench.errors import ClaasbenchError
from claasbench.policies._attention import Texts
from claasbench.types import Row

CHUNK = 1 << 22
"""Most logits (positions x vocabulary) that exist at a time."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Rows as tensors: T action tokens one after another, B rows. `start_T` is None until a batch is passed twice."""

    rows: Sequence[Row]
    row_T: Tensor
    token_T: Tensor
    old_T: Tensor
    advantage_T: Tensor
    weight_T: Tensor
    temperature_T: Tensor
    ret_B: Tensor
    value_B: Tensor
    start_T: Tensor | None = None


@dataclass(frozen=True, slots=True)
class Scored:
    """What a forward found at the action tokens, and the hidden state at each last prompt token.

    `teacher_TK` are the teacher's log-probs of the student's top ids, `value_B` what the value head says.
    """

    logprob_T: Tensor
    entropy_T: Tensor
    top_ids_TK: Tensor | None
    top_TK: Tensor | None
    hidden_BD: Tensor
    teacher_TK: Tensor | None = None
    value_B: Tensor | None = None


def batch(rows: Sequence[Row], device: torch.device, starts: Sequence[Sequence[float]] | None = None) -> Batch:
    """Return `rows` as tensors on `device`; `starts` are their log-probs at the start of the update."""
    sizes = [len(row.token_ids) for row in rows]
    row_T = torch.repeat_interleave(torch.arange(len(rows)), torch.tensor(sizes)).to(device)

    def tokens(values: Sequence[Sequence[float]]) -> Tensor:
        return torch.tensor([value for row in values for value in row], dtype=torch.float32, device=device)

    def each(values: Sequence[float]) -> Tensor:
        return torch.tensor(values, dtype=torch.float32, device=device)

    return Batch(
        rows=rows,
        row_T=row_T,
        token_T=torch.tensor([token for row in rows for token in row.token_ids], device=device),
        old_T=tokens([row.old_logprobs or [0.0] * len(row.token_ids) for row in rows]),
        advantage_T=tokens([row.advantage or [0.0] * len(row.token_ids) for row in rows]),
        weight_T=each([row.weight for row in rows])[row_T],
        temperature_T=each([row.temperature for row in rows])[row_T],
        ret_B=each([row.ret for row in rows]),
        value_B=each([row.value for row in rows]),
        start_T=None if starts is None else tokens(starts),
    )


def score(
    module: Any,  # noqa: ANN401 (a transformers model)
    made: Batch,
    k: int = 0,
    ids_TK: Tensor | None = None,
    context: bool = False,
) -> Scored:
    """Run `module` over the rows (with `context`, over their teachers' prompts) and look at the action tokens.

    `k` asks for the likeliest ids, `ids_TK` for the log-probs of these ids; both divide by the row's temperature.
    """
    hidden_ND, asked_T, first_B = _hidden(module, made, context)
    hidden_TD = hidden_ND[asked_T]
    head = module.get_output_embeddings()
    size = max(1, CHUNK // head.weight.shape[0])
    parts: list[Any] = []
    for piece in _chunks(len(hidden_TD), size):
        wanted = None if ids_TK is None else ids_TK[piece]
        given = (head, hidden_TD[piece], made.temperature_T[piece], made.token_T[piece], k, wanted)
        graph = torch.is_grad_enabled() and hidden_TD.requires_grad
        parts.append(checkpoint(_look, *given, use_reentrant=False) if graph else _look(*given))
    logprob_T, entropy_T, ids, top = (torch.cat(column) for column in zip(*parts, strict=True))
    some = k or ids_TK is not None
    return Scored(
        logprob_T,
        entropy_T,
        ids if some else None,
        top if some else None,
        hidden_ND[first_B],
    )


def _prompt(row: Row, context: bool) -> tuple[int, ...]:
    return row.context_ids if context and row.context_ids is not None else row.prompt_ids


def _hidden(module: Any, made: Batch, context: bool) -> tuple[Tensor, Tensor, Tensor]:  # noqa: ANN401
    """Return the last hidden states ND of all ids, where the action tokens are predicted, and each row's first such."""
    ids: list[int] = []
    asked: list[int] = []
    first, texts = [], Texts()
    for row in made.rows:
        prompt = _prompt(row, context)
        first.append(len(ids) + len(prompt) - 1)
        asked += range(first[-1], first[-1] + len(row.token_ids))
        texts.append(len(prompt) + len(row.token_ids))
        ids += (*prompt, *row.token_ids)
    device = made.token_T.device
    positions = torch.cat([torch.arange(size) for size in texts])
    hidden_1ND = module.base_model(
        input_ids=torch.tensor([ids], device=device),
        position_ids=positions[None].to(device),
        attention_mask=torch.ones(1, 1, 1, 1, dtype=torch.bool, device=device),  # four axes are passed on as they are
        use_cache=False,
        texts=texts,
    ).last_hidden_state
    if texts.kept != module.config.get_text_config().num_hidden_layers:  # each row would see those before it
        raise ClaasbenchError("its layers do not keep texts that stand in one row apart, which training needs")
    return hidden_1ND[0], torch.tensor(asked, device=device), torch.tensor(first, device=device)


def _look(
    head: Any,  # noqa: ANN401 (the output embeddings)
    hidden_TD: Tensor,
    temperature_T: Tensor,
    token_T: Tensor,
    k: int,
    ids_TK: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return log-prob and entropy per position, and the ids asked for with their log-probs (TK; K may be 0)."""
    logprob_TV = (head(hidden_TD).float() / temperature_T[:, None]).log_softmax(-1)
    with torch.no_grad():
        entropy_T = -(logprob_TV.exp() * logprob_TV).sum(-1)
        if ids_TK is None:
            ids_TK = logprob_TV.topk(min(k, logprob_TV.shape[-1])).indices
    return logprob_TV.gather(-1, token_T[:, None])[:, 0], entropy_T, ids_TK, logprob_TV.gather(-1, ids_TK)


def _chunks(count: int, size: int) -> Iterator[slice]:
    for start in range(0, max(count, 1), size):
        yield slice(start, start + size)


def pieces(rows: Sequence[Row], tokens: int) -> list[list[int]]:
    """Cut rows into micro-batches of at most `tokens` ids of student or teacher; a longer row stands alone."""
    found: list[list[int]] = []
    student = teacher = 0
    for at, row in enumerate(rows):
        sizes = [len(_prompt(row, context)) + len(row.token_ids) for context in (False, True)]
        if not found or max(student + sizes[0], teacher + sizes[1]) > tokens:
            found.append([])
            student = teacher = 0
        student, teacher = student + sizes[0], teacher + sizes[1]
        found[-1].append(at)
    return found


def checked(rows: Sequence[Row], limit: int) -> Sequence[Row]:
    """Return the rows that can be trained on; refuse rows without action tokens or beyond the context `limit`."""
    for row in rows:
        size = max(len(row.prompt_ids), len(row.context_ids or ())) + len(row.token_ids)
        if not row.prompt_ids or not row.token_ids:
            raise ClaasbenchError("a row to train on has no prompt or no action token")
        if size > limit:
            raise ClaasbenchError(f"a row to train on has {size} ids, but the model's context holds {limit}")
        for name, given in (("old_logprobs", row.old_logprobs), ("advantage", row.advantage)):
            if given and len(given) != len(row.token_ids):
                raise ClaasbenchError(f"a row has {len(row.token_ids)} action tokens, but {len(given)} {name}")
    return rows
