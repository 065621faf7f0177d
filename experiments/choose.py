"""Prints the grid of each dev study and what it chose: the settings with the best mean final, the first among equals.

`claasbench sweep experiments/nano-games/dev-sft.toml --out DIR && python experiments/choose.py DIR... > dev.md`
"""

from __future__ import annotations

import sys
from pathlib import Path

from claasbench.report import load, numbers
from claasbench.report.results import Measured
from claasbench.types import LEARNER


def page(folder: Path) -> str:
    """Return the grid of one dev study, best first, as Markdown."""
    (section,) = numbers.study(load.load([folder])).sections
    rows = []
    for method in section.methods:
        (series,) = (each for each in method.series if Measured(*each.measured).variant == LEARNER)
        finals = series.numbers["final"].trials.values()
        rows.append((sum(finals) / len(finals), method.label, finals))
    if len({len(finals) for _, _, finals in rows}) != 1:
        raise SystemExit(f"{folder} has more trials of some settings than of others")
    rows.sort(key=lambda row: -row[0])
    lines = [f"## {section.methods[0].runs[0].method}", "", "| settings | final | trials |", "| --- | ---: | --- |"]
    for mean, label, finals in rows:
        lines.append(f"| {label} | {100 * mean:.1f} | {', '.join(f'{100 * final:.1f}' for final in finals)} |")
    return "\n".join([*lines, "", f"Chosen: {rows[0][1]}"])


if __name__ == "__main__":
    print("# What the dev stream chose\n")
    print("\n\n".join(page(Path(folder)) for folder in sys.argv[1:]))
