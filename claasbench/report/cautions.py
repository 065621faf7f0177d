"""What a reader must know before believing a report: one line each, the gravest first."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations
from operator import itemgetter

from claasbench import metrics
from claasbench.report import attacks
from claasbench.report.estimates import BIASED
from claasbench.report.numbers import Method, Section, played, rates, total
from claasbench.report.results import UNTUNED, Cell, Run, Trial
from claasbench.types import LEARNER

SURE = 20
"""From so many episodes on, a success of exactly 0 or 1 is suspicious."""
LIMITS = {"cut": (0.05, "of replies cut off"), "no_action": (0.20, "of turns without an action")}
"""Shares of turns above which a score says more about the format than about the skill."""
UNASKED = 0.05
"""Share of attacked scenarios without any attack from which on *held* says little."""
REPRODUCIBLE = ("hf", "scripted")
"""Engines whose draws are common random numbers."""
DEFINITIONS = ("forgetting", "forgetting_pairs", *BIASED)


def cautions(section: Section) -> list[str]:
    """Return the warnings and notes of a section."""
    found = [*_toys(section), *_streams(section), *_budgets(section), *_rankings(section)]
    checks = (_missing, _failures, _formats, _unasked, _saturated, _critics, _tuning, _engine, _versions, _copies)
    return found + [
        f"{method.short}: {line}" for method in section.methods for check in checks for line in check(method)
    ]


def toys(runs: Iterable[Run]) -> list[str]:
    """Return the toy models among the models of some runs, with their hashes."""
    found = {
        run.model if run.model == run.resolved["model"] else f"{run.model} ({str(run.resolved['model'])[:16]})"
        for run in runs
        if run.resolved["toy"]
    }
    return sorted(found)


def _few(places: Sequence[str]) -> str:
    return ", ".join(places[:3]) + (f" and {len(places) - 3} more" if len(places) > 3 else "")


def where(trial: Trial) -> str:
    """Return what a trial is called."""
    return f"o{trial.order}-s{trial.seed}"


def _toys(section: Section) -> Iterator[str]:
    if names := toys(run for method in section.methods for run in method.runs):
        yield f"toy model {_few(names)}: this checks the machine, not the science"


def _streams(section: Section) -> Iterator[str]:
    hashes: dict[int, set[str]] = {}
    for method in section.methods:
        for run in method.runs:
            hashes.setdefault(run.trial.order, set()).add(str(run.resolved["stream"]))
    different = [str(order) for order, found in hashes.items() if len(found) > 1]
    if different:
        yield f"not the same tasks: runs of order {_few(different)} have different streams and cannot be compared"


def _budgets(section: Section) -> Iterator[str]:
    budgets = [(method.short, _budget(method.runs[0])) for method in section.methods]
    for name in budgets[0][1]:
        groups: dict[str, list[str]] = {}
        for label, budget in budgets:
            groups.setdefault(json.dumps(budget[name]), []).append(label)
        if len(groups) > 1:
            values = "; ".join(f"{value} for {_few(labels)}" for value, labels in groups.items())
            yield f"unequal budgets: {name} is {values}"


def _budget(run: Run) -> dict[str, object]:
    sampling = run.config.get("sampling", {})
    return {
        "the number of training tasks": sum(part.train for part in run.parts),
        "measure.attempts": run.config.get("measure", {}).get("attempts"),
        "sampling.train": sampling.get("train"),
        "sampling.measure": sampling.get("measure"),
    }


def _rankings(section: Section) -> Iterator[str]:
    titles = {metric.name: metric.title for metric in metrics.METRICS}
    forgetting = []
    for method in section.methods:
        numbers = method.series[0].numbers if method.series else {}
        if "forgetting" in numbers:
            forgetting.append((method.short, [numbers[name].interval.mean for name in DEFINITIONS]))
    pairs = []
    for (a, left), (b, right) in combinations(forgetting, 2):
        # differences below 1e-9 are rounding
        less = [titles[name] for name, x, y in zip(DEFINITIONS, left, right, strict=True) if x < y - 1e-9]
        more = [titles[name] for name, x, y in zip(DEFINITIONS, left, right, strict=True) if x > y + 1e-9]
        if less and more:
            pairs.append(f"{a} forgets less than {b} by {', '.join(less)}, more by {', '.join(more)}")
    if pairs:
        yield f"the ranking depends on the definition of forgetting: {_few(pairs)}"


def _missing(method: Method) -> Iterator[str]:
    places, cells = [], 0
    for run in method.runs:
        for series in method.series:
            late = series.measured.variant != LEARNER  # a variant that only a trained learner has
            for name, row in list(zip(run.row_names, run.grid(series.measured), strict=True))[late:]:
                cells += len(row)
                places += [f"{where(run.trial)} {name} on {series.measured.measure}"] * row.count(None)
    if places:
        what = f"{len(places)} of {cells} cells were not measured"
        yield f"{what} ({_few(list(dict.fromkeys(places)))}); a number that needs one leaves out its trial"


def _failures(method: Method) -> Iterator[str]:
    for measured, phase in ((False, "training"), (True, "measured")):
        cells = [(f"{where(run.trial)} {name}", cell) for run in method.runs for name, cell in played(run, measured)]
        failed = [(where, cell.n_failed) for where, cell in cells if cell.n_failed]
        if failed:
            places = _few(list(dict.fromkeys(where for where, _ in failed)))
            yield f"{sum(n for _, n in failed)} {phase} episodes failed and count nowhere ({places})"


def _formats(method: Method) -> Iterator[str]:
    for measured, phase in ((False, "in training"), (True, "where measured")):
        rows: dict[str, list[Cell]] = {}
        for run in method.runs:
            for name, cell in played(run, measured):
                rows.setdefault(name, []).append(cell)
        shares = {name: rates(total(cells)) for name, cells in rows.items()}
        for key, (limit, what) in LIMITS.items():
            over = [(share[key], name) for name, share in shares.items() if share[key] > limit]
            if over:
                share, name = max(over, key=itemgetter(0))
                often = f"more than {limit:.0%} in {len(over)} of {len(rows)} rows"
                yield f"{share:.0%} {what} {phase} at {name}, and {often}"


def _unasked(method: Method) -> Iterator[str]:
    for phase, measured in (("training", False), ("measured", True)):
        share = attacks.unasked([cell for run in method.runs for _, cell in played(run, measured)])
        if share > UNASKED:
            yield f"{share:.0%} of the {phase} scenarios count as held though no attack reached the learner"


def _saturated(method: Method) -> Iterator[str]:
    rows = [(where(run.trial), row) for run in method.runs for row in run.rows if row]
    cells = [
        (f"{where} {row.name}", cell) for where, row in rows for cells in row.cells.values() for cell in cells if cell
    ]
    places = [
        f"{where} on {cell.split or 'all'}: {cell.success:.0%}"
        for where, cell in cells
        if len(cell.scored) >= SURE and cell.success in (0, 1)
    ]
    if places:
        what = f"{len(places)} of {len(cells)} cells are exactly 0 or 100 % with n >= {SURE}"
        yield f"{what} ({_few(places)}): look at their episodes"


def _engine(method: Method) -> Iterator[str]:
    engine = method.runs[0].config["policy"].get("engine")
    if engine is not None and engine not in REPRODUCIBLE:
        yield f"engine {engine} draws its own tokens: rows and methods share seeds, not draws"


def _versions(method: Method) -> Iterator[str]:
    if any(run.versions["metrics"] != metrics.METRIC_VERSION for run in method.runs):
        yield f"written under another version of the metrics than {metrics.METRIC_VERSION}, shown under this one"
    for key in method.runs[0].versions:
        values = sorted({str(run.versions[key]) for run in method.runs})
        if len(values) > 1:
            yield f"its trials differ in {key}: {_few(values)}"


def _critics(method: Method) -> Iterator[str]:
    rows = [row for run in method.runs for row in run.rows if row]
    found = [value for row in rows if (value := row.learned.get("explained")) is not None]
    if found and sum(found) <= 0:
        yield f"its critic explains nothing: {sum(found) / len(found):.2f} of the variance of returns on average"


def _tuning(method: Method) -> Iterator[str]:
    if method.runs[0].tuned == UNTUNED:
        yield "untuned: its settings were not chosen on a dev stream"


def _copies(method: Method) -> Iterator[str]:
    copies = dict.fromkeys((row.name, row.copied) for run in method.runs for row in run.rows if row and row.copied)
    if copies:
        rows = _few([f"{name} from {source}" for name, source in copies])
        yield f"copied rows, for the learner's state was the same: {rows}"
