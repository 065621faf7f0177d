"""Time what `claasbench report` does over finished runs, and its text alone; aim: 200 runs in under 10 s, linear.

Every run has 5 rows (the untrained one and 4 checkpoints) of 4 cells with 50 tasks, so 1 000 measured episodes.
They are the trials of 20 methods, or each a method of its own (the worst case: noise floors are taken by method).
"""

import io
import random
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from rich.console import Console

import fake_results
from claasbench.report import figures, load, numbers, tables, terminal, text

SPLITS = ["4x4", "5x5", "slip", "mirror"]
TASKS = 50


def build(folder: Path, runs: int, method: Callable[[int], int]) -> None:
    """Write `runs` runs, the k-th of them by method(k)."""
    for number in range(runs):
        draw = random.Random(number)
        rows = [[[float(draw.random() < 0.5) for _ in range(TASKS)] for _ in SPLITS] for _ in range(5)]
        live = [[float(draw.random() < 0.5) for _ in range(32)] for _ in SPLITS]
        config = fake_results.config(f"m{method(number)}", order=number, seed=number)
        fake_results.write(folder / f"r{number:03d}", SPLITS, rows, live, config)


def seconds(runs: int, method: Callable[[int], int], whole: bool = False) -> float:
    """Return the time of one report; `whole` adds the terminal's tables and all figures."""
    with tempfile.TemporaryDirectory() as name:
        build(Path(name), runs, method)
        start = time.perf_counter()
        study = numbers.study(load.load([Path(name)]))
        text.markdown(tables.chapters(study))
        if whole:
            console = Console(file=io.StringIO(), width=120)
            for part in terminal.render(tables.chapters(study)):
                console.print(part)
            figures.draw(study, Path(name) / "report")
        return time.perf_counter() - start


def main() -> None:
    """Print seconds for 20 and 200 runs and how the time of one run changes."""
    seconds(2, lambda number: 0)  # imports and caches
    for name, method in (("20 methods", lambda number: number % 20), ("one method a run", lambda number: number)):
        few, many = seconds(20, method), seconds(200, method)
        print(
            f"text, {name}: 20 runs {few:.2f} s, 200 runs {many:.2f} s, time of one run x {many / 200 / (few / 20):.2f}"
        )
    few, many = (seconds(runs, lambda number: number % 20, whole=True) for runs in (20, 200))
    print(f"with figures, 20 methods: 20 runs {few:.2f} s, 200 runs {many:.2f} s")


if __name__ == "__main__":
    main()
