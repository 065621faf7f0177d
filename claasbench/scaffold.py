"""What `claasbench init` writes: a working one-file plug-in and its test."""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path
from string import Template

from claasbench.errors import ClaasbenchError, invalid, unknown

KINDS = ("learner", "scenario")


def write(kind: str, name: str, folder: Path) -> list[Path]:
    """Write `<name>.py` and `test_<name>.py` of `kind` into `folder`; existing files are never touched."""
    if kind not in KINDS:
        raise unknown("KIND", kind, KINDS)
    if not re.fullmatch(r"[a-z][a-z0-9-]*", name):
        raise invalid("NAME", name, "lower-case letters, digits and dashes, beginning with a letter")
    module = name.replace("-", "_")
    slots = {"module": module, "name": name, "title": "".join(part.capitalize() for part in name.split("-"))}
    texts = {
        folder / f"{module}.py": f"{kind}.txt",
        folder / f"test_{module}.py": f"test_{kind}.txt",
    }
    for path in texts:
        if path.exists():
            raise ClaasbenchError(f"file {str(path)!r} exists: choose another name, or remove it")
    for path, template in texts.items():
        source = files("claasbench").joinpath("templates", template).read_text(encoding="utf-8")
        path.write_text(Template(source).substitute(slots), encoding="utf-8")
    return list(texts)
