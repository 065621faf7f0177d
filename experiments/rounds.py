"""Prints what every checkpoint of a study held by round: success on all kinds, on its own kind and on the others.

`python experiments/rounds.py results/nano-games/oel`: OEL in context and consolidated, with the length of replies.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from claasbench.report import load, numbers
from claasbench.report.numbers import total
from claasbench.report.results import Cell, mean


def success(cells: Sequence[Cell]) -> str:
    """Return the mean success of cells in %."""
    return f"{100 * mean([score for cell in cells for score in cell.scored]):.1f}" if cells else ""


def main(folder: Path) -> None:
    """Print one row per method, variant and checkpoint, over all its trials."""
    print("| method | measured | through | all kinds | own kind | other kinds | tokens a reply | trials |")
    print("| --- | --- | --- | ---: | ---: | ---: | ---: | ---: |")
    (section,) = numbers.study(load.load([folder])).sections
    for method in section.methods:
        for series in method.series:
            for at, name in enumerate(series.rows):
                cells = [cell for run in method.runs for cell in run.grid(series.measured)[at] if cell]
                if not cells:
                    continue
                own = [cell for cell in cells if at and cell.split == series.columns[at - 1]]
                others = [cell for cell in cells if cell not in own]
                counts = total(cells)
                shown = [
                    success(cells),
                    success(own),
                    success(others),
                    f"{counts['reply_tokens'] / counts['turns']:.1f}",
                ]
                head = [method.short, series.measured.variant, name]
                print(f"| {' | '.join([*head, *shown, str(len(method.runs))])} |")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
