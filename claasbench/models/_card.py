"""The card of a bundled model: what it was trained on, and the proof that it still is that model here."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import torch

from claasbench import prompts
from claasbench.errors import ClaasbenchError
from claasbench.models import Loaded, refused
from claasbench.models._hash import CARD, sha256

TOLERANCE = 1e-3
"""How far a logit of a probe may lie from the card's; rounding in another order stays far below."""

MADE_BY = "experiments/nano/train.py"


def check(loaded: Loaded, folder: Path) -> None:
    """Refuse a model whose files, templates or logits are not those of its card."""
    card = json.loads((folder / CARD).read_text(encoding="utf-8"))
    for name, expected in card["files"].items():
        if (found := sha256(folder / name)) != expected:
            raise refused(loaded.name, f"its {name} hashes to {found[:12]}, its card says {expected[:12]}")
    for name, expected in card["templates"].items():
        if (found := template(name)) != expected:
            raise refused(
                loaded.name,
                f"it was trained on another text of prompts/{name}.txt ({expected[:12]}, now {found[:12]}): "
                f"train it again with {MADE_BY}",
            )
    if (apart := _apart(loaded, card["probes"])) > TOLERANCE:
        raise refused(
            loaded.name,
            f"its logits differ from its card's by {apart:.2g} (at most {TOLERANCE:g}): "
            f"the card was written with transformers {card['transformers']}",
        )


def template(name: str) -> str:
    """Return the SHA-256 (hex) of a prompt template; one that is gone hashes to nothing."""
    try:
        return hashlib.sha256(prompts.text(name).encode()).hexdigest()
    except ClaasbenchError:
        return "gone"


@torch.inference_mode()
def logits(loaded: Loaded, text: str) -> torch.Tensor:
    """Return the logits V of the id after `text`, which holds the template's own tokens."""
    ids = loaded.tokenizer(text, add_special_tokens=False, return_tensors="pt").input_ids.to(loaded.module.device)
    found: torch.Tensor = loaded.module(input_ids=ids).logits[0, -1].float()
    return found


def _apart(loaded: Loaded, probes: list[dict[str, Any]]) -> float:
    if loaded.module.dtype != torch.float32:  # bfloat16 (on CUDA) rounds by more than the tolerance
        return 0.0
    apart = [
        (logits(loaded, probe["text"])[probe["ids"]].cpu() - torch.tensor(probe["logits"])).abs().max()
        for probe in probes
    ]
    return float(max(apart))
