"""The content hash of a model: what its answers depend on, byte for byte."""

import hashlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

FILES = ("*.safetensors", "*.json", "*.model", "tokenizer*", "vocab*", "merges.txt", "chat_template*")
"""What makes a model: weights, configuration, tokenizer and template."""

CARD = "card.json"
"""What is told about a bundled model; no part of it."""


def content(folder: Path) -> str:
    """Return the SHA-256 (hex) over the names and bytes of the model files in `folder`."""
    files = sorted({path for pattern in FILES for path in folder.glob(pattern)} - {folder / CARD})
    with ThreadPoolExecutor() as pool:  # hashing lets go of the interpreter, so shards are read side by side
        digests = pool.map(sha256, files)
        lines = [f"{path.name} {digest}\n" for path, digest in zip(files, digests, strict=True)]
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def sha256(path: Path) -> str:
    """Return the SHA-256 (hex) of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
