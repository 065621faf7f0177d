"""Each of six classic faults turns the golden gate red."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from mutants import MUTANTS

ROOT = Path(__file__).parents[2]


def gate(mutant):
    """Run the gate in a process of its own, up to its first failure."""
    options = ["-m", "pytest", "-q", "-x", "-p", "mutants", "-p", "no:cacheprovider"]
    words = [sys.executable, *options, "-m", "", "tests/golden/test_gates.py"]
    environment = {**os.environ, "MUTANT": mutant, "PYTHONPATH": str(ROOT / "tests")}
    return subprocess.run(words, cwd=ROOT, env=environment, capture_output=True, text=True)


@pytest.mark.slow
@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_fault_turns_the_gate_red(mutant):
    done = gate(mutant)
    assert done.returncode == 1, done.stdout + done.stderr
    assert re.search(r"\d+ failed", done.stdout)
    assert "AssertionError" in done.stdout or "assert" in done.stdout
    assert "error" not in done.stdout.splitlines()[-1], "a fault must be found, not crash the gate"
