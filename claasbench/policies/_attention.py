"""Attention over ids that a batch has in common, kept and read once, and over texts that stand in one row."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from claasbench.policies._cache import Past

NAME = "claasbench"
"""What a module's attention is set to."""


class Texts(list[int]):
    """Lengths of texts that stand one after another in one row; `kept` counts the layers that kept them apart."""

    kept = 0


def attend(
    module: Any,  # noqa: ANN401 (an attention layer of transformers)
    query_BHQD: Tensor,
    key_BKTD: Tensor,
    value_BKTD: Tensor,
    mask_B1QT: Tensor | None,
    **more: Any,  # noqa: ANN401
) -> tuple[Tensor, Tensor | None]:
    """Attend to the ids of `more["shared"]` (a Past, if any) and then to each row's own; the rest is transformers'.

    A step of one id per row reads the shared keys once for all rows (a product of matrices); with plain attention
    each row would read a copy of its own. Equal to the plain way up to rounding. With `more["texts"]` there is one
    row, which holds texts of these lengths one after another, and no text sees another.
    """
    texts: Texts | None = more.pop("texts", None)
    if texts is not None:
        texts.kept += 1
        parts = (torch.split(each, texts, dim=2) for each in (query_BHQD, key_BKTD, value_BKTD))
        return torch.cat([_plain(module, *part, None, **more)[0] for part in zip(*parts, strict=True)], dim=1), None
    shared: Past | None = more.pop("shared", None)
    if shared is None or mask_B1QT is None:
        return _plain(module, query_BHQD, key_BKTD, value_BKTD, mask_B1QT, **more)
    far_KPD, far_value_KPD = shared.keys[module.layer_idx], shared.values[module.layer_idx]
    if query_BHQD.shape[2] == 1:
        near = (key_BKTD, value_BKTD, mask_B1QT)
        return _step(query_BHQD * more["scaling"], (far_KPD, far_value_KPD), near), None
    rows = query_BHQD.shape[0]
    key_BKTD = torch.cat([far_KPD.expand(rows, -1, -1, -1), key_BKTD], dim=2)
    value_BKTD = torch.cat([far_value_KPD.expand(rows, -1, -1, -1), value_BKTD], dim=2)
    seen_B1QP = mask_B1QT.new_ones((*mask_B1QT.shape[:3], far_KPD.shape[1]))
    return _plain(module, query_BHQD, key_BKTD, value_BKTD, torch.cat([seen_B1QP, mask_B1QT], dim=3), **more)


def _plain(*given: Any, **more: Any) -> tuple[Tensor, Tensor | None]:  # noqa: ANN401
    found: tuple[Tensor, Tensor | None] = sdpa_attention_forward(*given, **more)
    return found


def _step(query_BH1D: Tensor, far: tuple[Tensor, Tensor], near: tuple[Tensor, Tensor, Tensor]) -> Tensor:
    """Return B1HD for one scaled query per row: far keys and values are KPD, near ones BKTD with a mask B11T."""
    far_KPD, far_value_KPD = far
    near_BKTD, near_value_BKTD, mask_B11T = near
    rows, heads, _, width = query_BH1D.shape
    kinds, length = far_KPD.shape[:2]
    query_BKGD = query_BH1D.view(rows, kinds, heads // kinds, width)
    query_KMD = query_BKGD.transpose(0, 1).reshape(kinds, -1, width)  # M: all rows' heads of one kind
    far_BKGP = (query_KMD @ far_KPD.transpose(1, 2)).view(kinds, rows, -1, length).transpose(0, 1)
    near_BKGT = (query_BKGD @ near_BKTD.transpose(2, 3)).masked_fill(~mask_B11T, float("-inf"))
    weights = torch.cat([far_BKGP, near_BKGT], dim=-1).float().softmax(-1).to(query_BH1D.dtype)
    weights_KMP = weights[..., :length].transpose(0, 1).reshape(kinds, -1, length)
    out_BKGD = (weights_KMP @ far_value_KPD).view(kinds, rows, -1, width).transpose(0, 1)
    out_BKGD = out_BKGD + weights[..., length:] @ near_value_BKTD
    return out_BKGD.reshape(rows, 1, heads, width)


AttentionInterface.register(NAME, attend)
AttentionMaskInterface.register(NAME, sdpa_mask)
