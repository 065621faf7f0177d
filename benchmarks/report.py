"""Time what `claasbench report` and `compare` do over finished runs.

Aims: 100 runs of 10 000 episodes in under 20 s and 1 GB, linear; the statistics of 6 methods x 9 trials x 5 rows x
5 cells x 20 episodes in under 5 s. Runs are the trials of few methods, or each a method of its own (the worst case:
noise floors are taken by method). A page of 2 000 episodes: under 15 MB, open in under 2 s.
"""

import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import fake_results
from claasbench.report import load, numbers, tables, text

SPLITS = ["4x4", "5x5", "slip", "mirror", "6x6"]


def build(folder: Path, runs: int, method: Callable[[int], int], tasks: int) -> Path:
    """Write `runs` runs of 6 rows x 5 cells x `tasks` episodes, the k-th of them by method(k)."""
    for number in range(runs):
        trial = number // (1 + max(map(method, range(runs))))
        draw = random.Random(number)
        rows = [[[float(draw.random() < 0.5) for _ in range(tasks)] for _ in SPLITS] for _ in range(6)]
        live = [[float(draw.random() < 0.5) for _ in range(32)] for _ in SPLITS]
        config = fake_results.config(f"m{method(number)}", order=trial, seed=trial)
        fake_results.write(folder / f"m{method(number)}" / f"r{number:03d}", SPLITS, rows, live, config)
    return folder


def seconds(runs: int, method: Callable[[int], int]) -> float:
    """Return the time of the numbers and text of one report, 1 500 episodes a run."""
    with tempfile.TemporaryDirectory() as name:
        folder = build(Path(name), runs, method, 50)
        start = time.perf_counter()
        text.markdown(tables.chapters(numbers.study(load.load([folder]))))
        return time.perf_counter() - start


def command(*words: str) -> str:
    """Return what a command takes, as text: seconds and the peak of the largest process so far."""
    start = time.perf_counter()
    subprocess.run(["claasbench", *words], check=True, capture_output=True)
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    return f"{time.perf_counter() - start:.1f} s, peak {peak:.0f} MiB"


def page() -> str:
    """Return what the fullest page takes: 2 runs x 3 rows x 1 000 recorded episodes of 4 turns."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for method in ("icl", "sdpo"):
            rows = [[[1.0] * 4, [0.0] * 4]] * 3
            run = fake_results.write(folder / method / "o0-s0", SPLITS[:2], rows, (), fake_results.config(method))
            for row in ("init", "00-4x4", "01-5x5"):
                turns = [{"news": "what the game says\n" * 30, "text": "a reply " * 30, "feedback": "so"}] * 4
                fake_results.episodes(run, row, [({"task": f"t{k}"}, turns) for k in range(1000)])
        file = folder / "page.html"
        took = command("report", name, "--html", str(file))
        return f"{took}; {file.stat().st_size / 1e6:.1f} MB; {opening(file)}"


def opening(file: Path) -> str:
    """Return the time until a page is loaded in headless Chromium, its script included."""
    if not shutil.which("chromium") or not shutil.which("chromedriver"):
        return "not opened: Chromium is not here"
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    for flag in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage"):
        options.add_argument(flag)
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(shutil.which("chromedriver")))
    driver.get(file.as_uri())
    millis = driver.execute_script("return performance.getEntriesByType('navigation')[0].loadEventEnd")
    driver.quit()
    return f"opens in {millis / 1000:.2f} s"


def main() -> None:
    """Print seconds and memory of the commands, and how the time of one run changes with their number."""
    with tempfile.TemporaryDirectory() as name:
        small = build(Path(name) / "small", 54, lambda number: number % 6, 20)
        later = [str(small / f"m{k}") for k in range(1, 6)]
        print(f"compare, 6 methods x 9 trials x 5 x 5 x 20: {command('compare', str(small / 'm0'), *later)}")
        large = build(Path(name) / "large", 100, lambda number: number % 10, 333)
        for how in (["--json"], ["--md"], []):
            told = " ".join(["report", *how]) + ("" if how else " with figures")
            print(f"{told}, 100 runs x 10 000 episodes: {command('report', str(large), *how)}")
    print(f"page: {page()}")
    for name, method in (("10 methods", lambda number: number % 10), ("one method a run", lambda number: number)):
        few, many = seconds(20, method), seconds(200, method)
        print(
            f"text, {name}: 20 runs {few:.2f} s, 200 runs {many:.2f} s, time of one run x {many / 200 / (few / 20):.2f}"
        )


if __name__ == "__main__":
    main()
