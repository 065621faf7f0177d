"""Time load + study + Markdown over finished runs: python benchmarks/report.py.

Every run has 5 rows (the untrained one and 4 checkpoints) of 4 cells with 50 tasks, so 1 000 measured episodes.
They are the trials of 20 methods, or each a method of its own (the worst case: noise floors are taken by method).
"""

import random
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import fake_results
from claasbench.report import load, numbers, text

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


def seconds(runs: int, method: Callable[[int], int]) -> float:
    """Return the time of one report."""
    with tempfile.TemporaryDirectory() as name:
        build(Path(name), runs, method)
        start = time.perf_counter()
        text.markdown(numbers.study(load.load([Path(name)])))
        return time.perf_counter() - start


def main() -> None:
    """Print seconds for 20 and 200 runs and how the time of one run changes."""
    seconds(2, lambda number: 0)  # imports and caches
    for name, method in (("20 methods", lambda number: number % 20), ("one method a run", lambda number: number)):
        few, many = seconds(20, method), seconds(200, method)
        print(f"{name}: 20 runs {few:.2f} s, 200 runs {many:.2f} s, time of one run x {many / 200 / (few / 20):.2f}")


if __name__ == "__main__":
    main()
