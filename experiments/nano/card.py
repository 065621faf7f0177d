"""Writes a trained model into the package, with the card that `claasbench.models` checks when it loads it."""

from __future__ import annotations

import argparse
import json
import shutil
from pathlib import Path
from typing import Any

import transformers
from corpus import Corpus
from train import Recipe
from vocabulary import TEMPLATES

from claasbench import models
from claasbench.models import Loaded, _card, _load
from claasbench.models._hash import CARD, sha256
from claasbench.policies._render import Renderer

NAME = "nano-grid"
FILES = (
    "config.json",
    "generation_config.json",
    "model.safetensors",
    "tokenizer.json",
    "tokenizer_config.json",
    "chat_template.jinja",
)
PROBES = ("none", "knowledge", "extraction")
TOP = 8


def write(trained: Path, recipe: Recipe, controls: dict[str, Any], folder: Path) -> None:
    """Copy the model of a training folder into `folder` and write its card beside it."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / CARD).unlink(missing_ok=True)
    for name in FILES:
        shutil.copyfile(trained / "model" / name, folder / name)
    for name in ("config.json", "generation_config.json"):  # the content hash must not depend on who exported
        values = json.loads((folder / name).read_text())
        values.pop("transformers_version", None)
        (folder / name).write_text(json.dumps(values, indent=2, sort_keys=True) + "\n")
    loaded = _load.load(str(folder), "cpu", offline=True)
    last = json.loads((trained / "log.jsonl").read_text().splitlines()[-1])
    card = {
        "name": NAME,
        "about": "a toy that checks the machine and not the science, trained on hidden worlds of our own grid games",
        "command": "python experiments/nano/train.py --out DIR",
        "recipe": vars(recipe),
        "parameters": sum(parameter.numel() for parameter in loaded.module.parameters()),
        "tokens": last["tokens"],
        "minutes": round(last["seconds"] / 60, 1),
        "transformers": transformers.__version__,
        "files": {name: sha256(folder / name) for name in FILES},
        "templates": {name: _card.template(name) for name in TEMPLATES},
        "probes": [probe(loaded, kind) for kind in PROBES],
        "controls": controls,
    }
    (folder / CARD).write_text(json.dumps(card, indent=1) + "\n", encoding="utf-8")


def probe(loaded: Loaded, kind: str) -> dict[str, Any]:
    """Return a document's question as the model reads it, and the largest logits after it."""
    text = Renderer(loaded, {}).text(getattr(Corpus("probe"), kind)().messages)
    top = _card.logits(loaded, text).topk(TOP)
    return {"text": text, "ids": top.indices.tolist(), "logits": top.values.tolist()}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("trained", type=Path, help="the folder that train.py wrote")
    given = parser.parse_args()
    told = json.loads((given.trained / "controls.json").read_text())
    recipe = Recipe(**json.loads((given.trained / "recipe.json").read_text()))
    write(given.trained, recipe, told, models.bundled(NAME))
