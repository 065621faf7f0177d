"""Every text we put before a model: hashed template files, filled strictly."""

import hashlib
import re
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


def halves(name: str, **slots: str) -> tuple[str, str]:
    """Return template `name` filled, as what stands before and after its $context: context belongs between them."""
    head, context, tail = text(name).partition("$context")
    if not context:
        raise ValueError(f"template {name!r} has no $context")
    return Template(head).substitute(slots), Template(tail).substitute(slots)


def digest() -> str:
    """Return one hash over the names and bytes of all template files."""
    root = files(__package__)
    names = sorted(entry.name for entry in root.iterdir() if entry.name.endswith(".txt"))
    hasher = hashlib.sha256()
    for name in names:
        hasher.update(name.encode() + b"\0" + root.joinpath(name).read_bytes() + b"\0")
    return hasher.hexdigest()


@cache
def pieces(name: str) -> dict[str, str]:
    """Return the named texts of template file `name`: each follows a line `[name]`."""
    parts = re.split(r"^\[([\w.]+)\]\n", text(name) + "\n", flags=re.MULTILINE)
    found = dict(zip(parts[1::2], (part.removesuffix("\n") for part in parts[2::2]), strict=True))
    if parts[0] or 2 * len(found) != len(parts) - 1:
        raise ValueError(f"template {name!r} does not begin with [name], or has a name twice")
    return found


def piece(file: str, name: str, /, **slots: str) -> str:
    """Return text `name` of template `file` with its $slots filled; unused slots are left alone."""
    return Template(pieces(file)[name]).substitute(slots)
