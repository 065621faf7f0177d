"""Peak memory of a run with N and with 10 N measured episodes; aim: at most 1.1x. Prints one ratio."""

import subprocess
import sys
import tempfile
from pathlib import Path

CODE = "import resource, sys; from claasbench import cli\ntry: cli.main()\nexcept SystemExit: pass\n"
CODE += "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"


def peak(attempts: int, folder: Path) -> float:
    """Return the peak resident memory in MiB of a run whose rows have 256 x `attempts` episodes."""
    words = ["run", "frozen-lake", "--method", "icl", "--model", "scripted:random", "--out", str(folder), "--quiet"]
    words += ["--set", f"measure.attempts={attempts}"]
    found = subprocess.run([sys.executable, "-c", CODE, *words], check=True, capture_output=True, text=True)
    return int(found.stdout.split()[-1]) / (1024 if sys.platform == "linux" else 2**20)


def main() -> None:
    """Compare 1 280 measured episodes with 12 800."""
    with tempfile.TemporaryDirectory() as folder:
        few, many = (peak(attempts, Path(folder) / str(attempts)) for attempts in (1, 10))
    print(f"1 280 episodes {few:.1f} MiB, 12 800 episodes {many:.1f} MiB: ratio {many / few:.3f} (aim: <= 1.1)")


if __name__ == "__main__":
    main()
