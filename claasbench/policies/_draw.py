"""One token per row from its logits: the sampling distribution, and the inverse CDF at one uniform."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from claasbench.types import Sampling


def draw(logits_BV: Tensor, uniforms_B: Sequence[float], sampling: Sampling) -> tuple[list[int], list[float]]:
    """Return per row the id drawn and its log-prob under the sampling distribution.

    The distribution: softmax of logits / temperature, cut to the `top_k` most probable ids, then to the fewest of
    those whose mass reaches `top_p` (the one that reaches it stays), renormalised after each cut; of equally probable
    ids the lower one ranks higher. The id drawn is the first, counted by id, whose cumulative probability exceeds the
    uniform; so a row's draw depends on nothing but its own logits. Temperature 0 takes the most probable id, with
    log-prob 0.
    """
    if sampling.temperature == 0:
        ids: list[int] = logits_BV.argmax(-1).tolist()
        return ids, [0.0] * len(ids)
    scaled_BV = logits_BV.float() / sampling.temperature
    if not (0 < sampling.top_k < scaled_BV.shape[-1] or sampling.top_p < 1):
        return _inverse(scaled_BV, uniforms_B)
    scaled_BM, ids_BM = _cut(scaled_BV, sampling)
    places, logprobs = _inverse(scaled_BM, uniforms_B)
    return [int(row[place]) for row, place in zip(ids_BM, places, strict=True)], logprobs


def _inverse(scaled_BM: Tensor, uniforms_B: Sequence[float]) -> tuple[list[int], list[float]]:
    logprobs_BM = scaled_BM.log_softmax(-1)
    # In double, because rounding in the order of a parallel sum must not decide which id is drawn (MPS has no double).
    wide = torch.float32 if scaled_BM.device.type == "mps" else torch.float64
    cdf_BM = logprobs_BM.exp().cumsum(-1, dtype=wide)
    aim_B1 = torch.tensor(uniforms_B, dtype=wide, device=cdf_BM.device)[:, None] * cdf_BM[:, -1:]
    places_B1 = torch.searchsorted(cdf_BM, aim_B1, right=True).clamp(max=cdf_BM.shape[-1] - 1)
    return places_B1[:, 0].tolist(), logprobs_BM.gather(-1, places_B1)[:, 0].tolist()


def _cut(scaled_BV: Tensor, sampling: Sampling) -> tuple[Tensor, Tensor]:
    """Return the candidates by rising id (scaled logits, -inf where cut) and their ids.

    Sorting the whole vocabulary costs more than a small model's forward, so what surely falls is left out first: ids
    below the k-th, and ids so improbable that all of them together weigh less than 1 - top_p.
    """
    size = scaled_BV.shape[-1]
    k = sampling.top_k if 0 < sampling.top_k < size else size
    if k < size:
        floor_B1 = scaled_BV.topk(k).values[:, -1:]
    else:
        floor_B1 = scaled_BV.logsumexp(-1, keepdim=True) + math.log((1 - sampling.top_p) / (2 * size))
    most = int((scaled_BV >= floor_B1).sum(-1).max())  # more than k where ids tie for its place
    ids_BM = scaled_BV.topk(most).indices.sort(-1).values
    scaled_BM = scaled_BV.gather(-1, ids_BM)
    ranked_BM, order_BM = torch.sort(scaled_BM, dim=-1, descending=True, stable=True)
    ranked_BM[:, k:] = float("-inf")
    if sampling.top_p < 1:
        whole_B1 = (ranked_BM if k < size else scaled_BV).logsumexp(-1, keepdim=True)
        mass_BM = (ranked_BM - whole_B1).exp()
        before_BM = mass_BM.cumsum(-1) - mass_BM
        ranked_BM = ranked_BM.masked_fill(before_BM >= sampling.top_p, float("-inf"))
    return torch.full_like(scaled_BM, float("-inf")).scatter(-1, order_BM, ranked_BM), ids_BM
