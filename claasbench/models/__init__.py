"""A model's name becomes a module, a tokenizer and a content hash."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Loaded:
    """A language model in memory: `module` (transformers), `tokenizer`, and the hash of its weights and tokenizer."""

    name: str
    module: Any
    tokenizer: Any
    content: str
