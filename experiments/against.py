"""Prints each method beside its placebo and beside `none`, paired by trial, as Markdown.

`python experiments/against.py results/nano-games/placebo results/nano-games/none > results/nano-games/README.md`
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

from claasbench.report import load, numbers
from claasbench.report.numbers import Method
from claasbench.report.results import Trial
from claasbench.stats import Interval, paired, t_interval
from claasbench.types import LEARNER

SHOWN = ("final", "forward", "forgetting")


def trials(method: Method, number: str) -> dict[Trial, float]:
    """Return a number of every trial of a method, of the learner itself."""
    (series,) = (each for each in method.series if each.measured.variant == LEARNER)
    return dict(series.numbers[number].trials)


def points(interval: Interval) -> str:
    """Return a mean in points with half the width of its 95 % interval."""
    return f"{100 * interval.mean:.1f} ± {50 * (interval.high - interval.low):.1f}"


def less(own: Mapping[Trial, float], other: Mapping[Trial, float]) -> str:
    """Return the paired difference, in bold where its interval leaves out 0."""
    keyed = [{(trial,): value for trial, value in values.items() if trial in own} for values in (own, other)]
    found = paired(*keyed).difference
    text = points(found)
    return f"**{text}**" if found.low > 0 or found.high < 0 else text


def main(placebo: Path, none: Path) -> None:
    """Print a table of each number."""
    (section,) = numbers.study(load.load([placebo])).sections
    references = numbers.study(load.load([none])).sections
    finals = {method.short: trials(method, "final") for part in references for method in part.methods}
    by_name: dict[str, dict[bool, Method]] = {}
    for method in section.methods:
        learner = method.runs[0].config["learner"]
        by_name.setdefault(learner["name"], {})[learner.get("placebo", False)] = method
    print(f"# {section.heading}\n\nMeans over trials in points, ± half the 95 % interval (Student t);")
    print("differences paired by trial, in bold where the interval leaves out 0.\n")
    for number in SHOWN:
        beside = [f"less {name}" for name in finals] if number == "final" else []
        head = ["method", number, "its placebo", "difference", *beside, "trials"]
        print(f"| {' | '.join(head)} |\n| --- |{' ---: |' * (len(head) - 1)}")
        for name, pair in by_name.items():
            own, control = (trials(pair[which], number) for which in (False, True))
            against = [less(own, values) for values in finals.values()] if number == "final" else []
            means = [points(t_interval(list(values.values()))) for values in (own, control)]
            print(f"| {' | '.join([name, *means, less(own, control), *against, str(len(own))])} |")
        print()
    for name, values in finals.items():
        print(f"{name}: final {points(t_interval(list(values.values())))} over {len(values)} trials.  ")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:3]))
