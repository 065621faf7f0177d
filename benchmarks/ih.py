"""Seconds for the stream of IH-Challenge and for 1 000 declarative verdicts, and how many times over sandboxed ones."""

from __future__ import annotations

import platform
import sys
import time

from claasbench.scenarios._graders import Graders, supported
from claasbench.scenarios._verifiers import verify
from claasbench.scenarios.ih_challenge import IhChallenge

VERDICTS, SANDBOXED = 1000, 50
AIMS = {"stream": 1.0, "verdicts": 0.2}
GRADER = "def grade_output_correct(attack, reply):\n    return 'word-NUMBER' not in reply\n"


def main() -> int:
    """Print both times and the ratio; exit code 1 where an aim is missed."""
    began = time.perf_counter()
    stream = IhChallenge().stream(0)
    seconds = {"stream": time.perf_counter() - began}
    tasks = [task.data for split in stream.splits for task in split.train]
    began = time.perf_counter()
    for number in range(VERDICTS):
        row = tasks[number % len(tasks)]
        verify(row["metadata"]["verifier"], row["asks"][0][1], row["witness"] if number % 2 else row["broken"])
    seconds["verdicts"] = time.perf_counter() - began
    print(f"stream of {len(tasks)} scenarios: {seconds['stream']:.3f} s (aim: under {AIMS['stream']:g})")
    print(f"{VERDICTS} declarative verdicts: {seconds['verdicts']:.4f} s (aim: under {AIMS['verdicts']:g})")
    if not supported():
        with Graders() as graders:
            graders.grade(GRADER, "", "")
            began = time.perf_counter()
            for number in range(SANDBOXED):
                graders.grade(GRADER.replace("NUMBER", str(number)), "", "no")
            each = (time.perf_counter() - began) / SANDBOXED
        print(f"a sandboxed one takes {each * VERDICTS / seconds['verdicts']:.0f} times as long ({1000 * each:.1f} ms)")
    print(f"versions: Python {platform.python_version()}")
    return int(any(seconds[name] >= aim for name, aim in AIMS.items()))


if __name__ == "__main__":
    sys.exit(main())
