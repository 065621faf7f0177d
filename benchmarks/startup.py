"""Time of `claasbench --help` against `python -c "import typer, rich"`; aim: at most 2x. Prints one ratio."""

import statistics
import subprocess
import sys
import time

REPEATS = 15
OURS = [sys.executable, "-m", "claasbench.cli", "--help"]
PLAIN = [sys.executable, "-c", "import typer, rich"]


def seconds(command: list[str]) -> float:
    """Return the wall time of one run of `command`."""
    start = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


def main() -> None:
    """Alternate both commands and compare their medians."""
    pairs = [(seconds(OURS), seconds(PLAIN)) for _ in range(REPEATS)]
    ours, plain = (statistics.median(column) for column in zip(*pairs, strict=True))
    print(f"claasbench --help {ours:.3f} s, import typer, rich {plain:.3f} s: ratio {ours / plain:.2f} (aim: <= 2)")


if __name__ == "__main__":
    main()
