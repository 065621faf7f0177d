"""Prints the grid of each dev study and what it chose: the best mean final, of equals the first label.

`claasbench sweep experiments/nano-games/dev-sft.toml --out DIR && python experiments/choose.py DIR... > dev.md`
"""

from __future__ import annotations

import math
import sys
from pathlib import Path

from claasbench.report import load, numbers
from claasbench.types import LEARNER


def page(folder: Path) -> str:
    """Return the grid of one dev study, best first, as Markdown; one that is not finished stops the program."""
    (section,) = numbers.study(load.load([folder])).sections
    rows = []
    for method in section.methods:
        (series,) = (each for each in method.series if each.measured.variant == LEARNER)
        finals = list(series.numbers["final"].trials.values())
        if not all(map(math.isfinite, finals)):
            raise SystemExit(f"{folder}: a trial of {method.label} has no final yet")
        rows.append((-sum(finals) / len(finals), method.label, finals))
    if len({len(finals) for _, _, finals in rows}) != 1:
        raise SystemExit(f"{folder}: some settings have more trials than others")
    rows.sort()
    head = f"{len(rows)} settings x {len(rows[0][2])} trials on {section.heading}"
    lines = [
        f"## {section.methods[0].runs[0].method}",
        "",
        head,
        "",
        "| settings | final | trials |",
        "| --- | ---: | --- |",
    ]
    for minus, label, finals in rows:
        lines.append(f"| {label} | {-100 * minus:.1f} | {', '.join(f'{100 * final:.1f}' for final in finals)} |")
    return "\n".join([*lines, "", f"Chosen: {rows[0][1]}"])


if __name__ == "__main__":
    print("# What the dev stream chose\n")
    print("\n\n".join(page(Path(folder)) for folder in sys.argv[1:]))
