"""Every text we put before a model: hashed template files, filled strictly."""

import hashlib
from functools import cache
from importlib.resources import files
from string import Template

from claasbench.errors import ClaasbenchError


@cache
def text(name: str) -> str:
    """Return the template file `name` (without .txt), without its last newline."""
    file = files(__package__).joinpath(f"{name}.txt")
    if not file.is_file():
        raise ClaasbenchError(f"prompt template {name!r} does not exist in claasbench/prompts")
    return file.read_text(encoding="utf-8").removesuffix("\n")


def fill(name: str, **slots: str) -> str:
    """Return template `name` with its $slots filled; a missing slot is a KeyError, an unused one a ValueError."""
    template = Template(text(name))
    if extra := slots.keys() - set(template.get_identifiers()):
        raise ValueError(f"template {name!r} has no slot {sorted(extra)}")
    return template.substitute(slots)


def digest() -> str:
    """Return one hash over the names and bytes of all template files."""
    root = files(__package__)
    names = sorted(entry.name for entry in root.iterdir() if entry.name.endswith(".txt"))
    hasher = hashlib.sha256()
    for name in names:
        hasher.update(name.encode() + b"\0" + root.joinpath(name).read_bytes() + b"\0")
    return hasher.hexdigest()
