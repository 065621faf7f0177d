"""A comparison as tables: the primary endpoint with its tests, the other numbers, and where differences arise."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

from claasbench.report import text
from claasbench.report.cautions import toys, where
from claasbench.report.contrasts import PRIMARY, Comparison, Contrast, Example
from claasbench.report.estimates import METRICS
from claasbench.report.results import Run
from claasbench.report.scores import ARROWS
from claasbench.report.table import NONE, Chapter, Table, once, percent, with_interval
from claasbench.stats import Interval

LEVEL = 0.05
EXAMPLES = 2
"""Tasks shown that gain most, and as many that lose most."""
TITLES = {metric.name: f"{metric.title} {ARROWS[metric.direction]}" for metric in METRICS}


def chapter(found: Comparison) -> Chapter:
    """Return what a person reads of a comparison."""
    tables = [primary(found), others(found), *where_from(found)]
    if any(contrast.examples for contrast in found.contrasts):
        tables.append(examples(found))
    return Chapter(f"compared with {found.reference.label} on {found.measure}", list(warnings(found)), tables)


def warnings(found: Comparison) -> Iterator[str]:
    """Yield what a reader must know before believing it, one line each."""
    sides = [found.reference, *(contrast.side for contrast in found.contrasts)]
    runs = [run for side in sides for run in side.runs.values()]
    if names := toys(runs):
        yield f"toy model {', '.join(names)}: this checks the machine, not the science"
    if found.allowed:
        yield f"differ and were allowed to: {', '.join(found.allowed)}"
    versions = sorted({str(run.versions["claasbench"]) for run in runs})
    if len(versions) > 1:
        yield f"played with claasbench {' and '.join(versions)}"
    if not found.live:
        yield (
            "each method met its own attacker in training, so that their training scores cannot be compared: play one "
            "again with --set attacker.name=replay --set attacker.log=DIR of the other"
        )
    for contrast in found.contrasts:
        yield from (f"{contrast.side.label}: {line}" for line in _warnings(found, contrast))


def _warnings(found: Comparison, contrast: Contrast) -> Iterator[str]:
    if contrast.lone:
        yield f"trials that only one of both has count nowhere: {', '.join(map(where, contrast.lone))}"
    if contrast.dropped:
        yield f"{contrast.dropped} pairs of which an episode failed count nowhere"
    if contrast.numbers[PRIMARY].interval.over == "tasks":
        yield "one trial: the interval is over its tasks and speaks of these checkpoints, not of the methods; no test"
    elif found.smallest(contrast) > LEVEL:
        n, m = len(contrast.numbers[PRIMARY].units), len(found.contrasts)
        least = found.smallest(contrast)
        yield f"{n} {contrast.numbers[PRIMARY].interval.over} and {m} contrasts can reach no p below {least:.3f}"


def primary(found: Comparison) -> Table:
    """Return the tested endpoint: both means, their difference, its p, and how alike the pairs are."""
    rows = []
    for contrast, adjusted in zip(found.contrasts, found.adjusted, strict=True):
        number = contrast.numbers[PRIMARY]
        means = [percent(number.other), percent(number.reference), with_interval(number.interval)]
        alike = NONE if math.isnan(contrast.correlation) else f"{contrast.correlation:.2f}"
        found_by = [_p(contrast.p), _p(adjusted), percent(contrast.detectable), alike]
        rows.append([contrast.side.label, *means, *found_by, f"{number.interval.n} {number.interval.over}"])
    pairs = sorted({contrast.pairs for contrast in found.contrasts})
    return Table(
        title=f"{TITLES[PRIMARY]}, the primary endpoint, in points",
        header=["Method", "Own", "Ref.", "Difference", "p", "Holm", "80 %", "r", "± over"],
        rows=rows,
        notes=[
            f"Difference: own less {found.reference.label}, paired by trial, task and attempt "
            f"({' to '.join(map(str, dict.fromkeys((pairs[0], pairs[-1]))))} pairs); ± is half the 95 % interval "
            "(Student t).",
            "p: two-sided sign-flip test; Holm: adjusted for all rows. The least that can be reached here: "
            f"{', '.join(dict.fromkeys(_p(found.smallest(contrast)) for contrast in found.contrasts))}.",
            "80 %: the difference that as many trials with this spread find with a chance of 80 %. r: correlation of "
            "the paired scores.",
        ],
    )


def others(found: Comparison) -> Table:
    """Return the numbers that are not tested."""
    rows = [
        [contrast.side.label, TITLES[name], percent(n.other), percent(n.reference), with_interval(n.interval)]
        for contrast in found.contrasts
        for name, n in contrast.numbers.items()
        if name != PRIMARY
    ]
    return Table(
        title="Other numbers, in points (not tested)",
        header=["Method", "Number", "Own", "Ref.", "Difference"],
        rows=once(rows),
        texts=2,
    )


def where_from(found: Comparison) -> Iterator[Table]:
    """Yield the differences in the last row by split and, where it is another grouping, by kind."""
    for name in ("splits", "kinds"):
        groups: list[Mapping[str, Interval]] = [getattr(contrast, name) for contrast in found.contrasts]
        columns = list(dict.fromkeys(column for group in groups for column in group))
        if name == "splits" or 1 < len(columns) < len(found.contrasts[0].splits):
            yield Table(
                title=f"Where it comes from: difference in the last row by {name[:-1]}, in points",
                header=["Method", *columns],
                rows=[
                    [contrast.side.label, *(with_interval(group[c]) if c in group else NONE for c in columns)]
                    for contrast, group in zip(found.contrasts, groups, strict=True)
                ],
            )


def examples(found: Comparison) -> Table:
    """Return the tasks of the last row that gain and lose most, and how to read their episodes."""
    rows = []
    for contrast in found.contrasts:
        gains = [example for example in contrast.examples if example.other > example.reference][:EXAMPLES]
        losses = [example for example in reversed(contrast.examples) if example.other < example.reference][:EXAMPLES]
        for example in gains + losses:
            name = contrast.side.label
            rows.append([name, example.task, found.reference.label, percent(example.reference), _read(example, 0)])
            rows.append(["", "", name, percent(example.other), _read(example, 1)])
    return Table(
        title="Tasks that gain and lose most in the last row",
        header=["Method", "Task", "Played by", "Score", "Read it with"],
        rows=rows,
        notes=["Scores: means over trials and attempts, in %."],
        texts=5,
    )


def _read(example: Example, side: int) -> str:
    """Return the command that shows the episode, where its texts were kept."""
    run: Run = example.runs[side]
    row = run.rows[-1]
    name = (row.copied or row.name) if row else ""
    if not (run.folder / "splits" / name / "turns.jsonl").is_file():
        return NONE
    return shlex.join(["claasbench", "show", str(run.folder), "--row", name, "--task", example.task])


def _p(value: float) -> str:
    return NONE if math.isnan(value) else f"{value:.3f}" if value >= 0.001 else "<.001"


def as_json(found: Comparison) -> str:
    """Return the comparison as JSON; shares from 0 to 1, what is missing is null."""
    tree = {
        "reference": found.reference.label,
        "measure": found.measure,
        "primary": PRIMARY,
        "warnings": list(warnings(found)),
        "contrasts": [
            _json(contrast, adjusted, found.smallest(contrast))
            for contrast, adjusted in zip(found.contrasts, found.adjusted, strict=True)
        ],
    }
    return text.dump(tree)


def _json(contrast: Contrast, adjusted: float, smallest: float) -> dict[str, Any]:
    return {
        "method": contrast.side.label,
        "trials": [trial._asdict() for trial in contrast.trials],
        "left_out": [trial._asdict() for trial in contrast.lone],
        "numbers": {name: asdict(number) for name, number in contrast.numbers.items()},
        "p": contrast.p,
        "p_holm": adjusted,
        "p_least": smallest,
        "detectable": contrast.detectable,
        "pairs": contrast.pairs,
        "failed_pairs": contrast.dropped,
        "correlation": contrast.correlation,
        "splits": {name: asdict(interval) for name, interval in contrast.splits.items()},
        "kinds": {name: asdict(interval) for name, interval in contrast.kinds.items()},
        "tasks": {example.task: [example.reference, example.other] for example in contrast.examples},
    }
