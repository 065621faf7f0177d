"""Judges every item of knowledge in runs of nano-grid on frozen-lake by the rules of the game: true, false or neither.

`python experiments/oel-critique/audit.py DIR...` reads the notes.md of all rows below DIR (a run keeps them, they
are not committed) and prints a row for each method and split.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "nano"))

from controls import verdict

from claasbench.learners._knowledge import MARK

VERDICTS = ("true", "false", "neither")


def items(notes: str) -> list[str]:
    """Return the items in a notes.md, as often as texts hold them; a text without marks counts by its lines."""
    lines = [line.strip() for line in notes.splitlines() if line.strip() and not line.startswith("#")]
    return [line.removeprefix(MARK).strip() for line in lines]


def main(folders: list[Path]) -> None:
    """Print how many items of each method and split are true, false or neither."""
    found: dict[tuple[str, str], Counter[str]] = {}
    for notes in sorted(path for folder in folders for path in folder.rglob("notes.md")):
        done = json.loads((notes.parent / "done.json").read_text(encoding="utf-8"))
        if done["config"]["learner"]["name"] == "oel" and done["row"] >= 0:
            method = notes.parents[3].name
            counts = found.setdefault((method, done["name"]), Counter())
            counts.update(verdict(item) for item in items(notes.read_text(encoding="utf-8")))
    if not found:
        raise SystemExit(f"no notes.md of an oel run below {', '.join(map(str, folders))}")
    print("| method | after | items | true | false | neither |\n| --- | --- | ---: | ---: | ---: | ---: |")
    for (method, row), counts in sorted(found.items()):
        total = counts.total() or 1
        shares = " | ".join(f"{100 * counts[name] / total:.0f} %" for name in VERDICTS)
        print(f"| {method} | {row} | {counts.total()} | {shares} |")


if __name__ == "__main__":
    main([Path(name) for name in sys.argv[1:]])
