"""How a name is found on disk or on the hub, and how a folder becomes a module in memory."""

from __future__ import annotations

import re
from pathlib import Path

import torch
from huggingface_hub import snapshot_download
from safetensors import SafetensorError
from transformers import AutoModelForCausalLM, AutoTokenizer
from transformers.utils.logging import disable_progress_bar

from claasbench.errors import unknown
from claasbench.models import ALLOWED, Loaded, _card, bundled, names, refused, smollm2
from claasbench.models._hash import CARD, FILES, content

HUB_ID = re.compile(r"\w[\w.-]*/\w[\w.-]*")


def load(name: str, device: str, offline: bool) -> Loaded:
    """Return the model `name` in memory on `device`, ready to answer."""
    where = place(device)
    source, folder = find(name, offline)
    disable_progress_bar()
    try:
        # The folder holds everything, so nothing below may ask the network; code from a folder is never run.
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
        module, report = AutoModelForCausalLM.from_pretrained(
            folder,
            dtype=torch.bfloat16 if where.type == "cuda" else torch.float32,
            attn_implementation="sdpa",
            local_files_only=True,
            trust_remote_code=False,
            output_loading_info=True,
        )
    except (OSError, ValueError, ImportError, SafetensorError) as error:
        raise refused(name, str(error)) from None
    if report["missing_keys"]:  # transformers would fill them with noise
        raise refused(name, f"its weights lack {', '.join(sorted(report['missing_keys'])[:3])}")
    loaded = Loaded(source, module.to(where).eval(), tokenizer, content(folder))
    if (folder / CARD).is_file():
        _card.check(loaded, folder)
    return loaded


def find(name: str, offline: bool) -> tuple[str, Path]:
    """Return what `name` stands for (a bundled name, a folder or an id) and the folder that holds it."""
    if name == smollm2.NAME:
        return smollm2.find(offline)
    if name in names():
        return name, bundled(name)
    folder = Path(name).expanduser()
    if folder.is_dir():
        if not (folder / "config.json").is_file():
            raise refused(name, "the folder has no config.json")
        return name, folder
    if HUB_ID.fullmatch(name):
        return name, _snapshot(name, offline)
    raise unknown("policy.model", name, [*names(), ALLOWED])


def _snapshot(name: str, offline: bool) -> Path:
    try:
        return Path(snapshot_download(name, local_files_only=offline, allow_patterns=list(FILES)))
    except (OSError, ValueError) as error:
        place = "not in the Hugging Face cache, and --offline forbids to fetch it" if offline else str(error)
        raise refused(name, f"no such folder, and as a Hugging Face id: {place}") from None


def place(device: str) -> torch.device:
    """Return the device named `device`; "auto" is CUDA, else Apple's MPS, else the CPU."""
    usable = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if device == "auto":
        return torch.device(next(name for name in ("cuda", "mps", "cpu") if usable[name]))
    here = [name for name, there in usable.items() if there]
    kind, colon, index = device.partition(":")
    count = torch.cuda.device_count() if kind == "cuda" else 1
    if kind not in here or (colon and not (index.isdigit() and int(index) < count)):
        raise unknown("policy.device", device, ["auto", *here])
    return torch.device(device)
