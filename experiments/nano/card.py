"""Writes a trained model into the package, with the card that `claasbench.models` checks when it loads it."""

from __future__ import annotations

import argparse
import json
import shutil
from pathlib import Path
from typing import Any

import transformers
from corpus import Doc
from train import KINDS

from claasbench import models
from claasbench.models import Loaded, _card, _load
from claasbench.models._hash import CARD, sha256
from claasbench.policies._render import Renderer

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


def write(trained: Path) -> None:
    """Copy the model of a training folder into the package and write its card beside it."""
    recipe = json.loads((trained / "recipe.json").read_text())
    name = recipe.pop("model")
    kind, folder = KINDS[name], models.bundled(name)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / CARD).unlink(missing_ok=True)
    for file in FILES:
        shutil.copyfile(trained / "model" / file, folder / file)
    for file in ("config.json", "generation_config.json"):  # the content hash must not depend on who exported
        values = json.loads((folder / file).read_text())
        values.pop("transformers_version", None)
        (folder / file).write_text(json.dumps(values, indent=2, sort_keys=True) + "\n")
    loaded = _load.load(str(folder), "cpu", offline=True)
    last = json.loads((trained / "log.jsonl").read_text().splitlines()[-1])
    card = {
        "name": name,
        "about": f"a toy that checks the machine and not the science, trained on hidden worlds of our own {kind.about}",
        "command": f"python experiments/nano/train.py --model {name} --out DIR",
        "recipe": recipe,
        "parameters": sum(parameter.numel() for parameter in loaded.module.parameters()),
        "tokens": last["tokens"],
        "minutes": round(last["seconds"] / 60, 1),
        "transformers": transformers.__version__,
        "files": {file: sha256(folder / file) for file in FILES},
        "templates": {text: _card.template(text) for text in kind.load("vocabulary").TEMPLATES},
        "probes": [probe(loaded, getattr(kind.load("corpus").Corpus("probe"), doc)()) for doc in PROBES],
        "controls": json.loads((trained / "controls.json").read_text()),
    }
    (folder / CARD).write_text(json.dumps(card, indent=1) + "\n", encoding="utf-8")


def probe(loaded: Loaded, doc: Doc) -> dict[str, Any]:
    """Return a document's question as the model reads it, and the largest logits after it."""
    text = Renderer(loaded, {}).text(doc.messages)
    top = _card.logits(loaded, text).topk(TOP)
    return {"text": text, "ids": top.indices.tolist(), "logits": top.values.tolist()}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("trained", type=Path, help="the folder that train.py wrote")
    write(parser.parse_args().trained)
