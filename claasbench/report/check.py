"""Published numbers against ours: met, missed or undecided within a margin, and what cannot be judged."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from claasbench import stats
from claasbench.errors import ClaasbenchError
from claasbench.report import estimates, grouping
from claasbench.report.cautions import toys
from claasbench.report.published import ELSEWHERE, LENGTH, ROW, STATUSES, Published, Reference
from claasbench.report.results import Measured, Run, Trial, mean
from claasbench.report.table import NONE, Chapter, Table, count, once, percent
from claasbench.stats import Gap, Interval

MET, MISSED, UNDECIDED, NOT_RUN, SHOWN = "met", "missed", "undecided", "not run", "shown"
LEGEND = (
    "Difference: 90 % interval of ours less the published. met: it lies within the margin; missed: wholly outside; "
    "undecided: neither. Reach: the margin that would be met with 80 % chance if both agreed, with these errors.",
    "inside, outside: a published single run against where one further run of ours would fall (95 %); no verdict.",
    "shown: the source contradicts itself, so the number is never judged. n: trials of ours that are independent.",
)


@dataclass(frozen=True, slots=True)
class Checked:
    """A published number beside ours, in points; `gap` and `predicted` where they apply."""

    number: Published
    verdict: str
    values: Sequence[float] = ()
    """Of our trials, or of whatever is independent."""
    gap: Gap | None = None
    predicted: Interval | None = None
    why: str = ""


def check(reference: Reference, runs: Sequence[Run]) -> list[Checked]:
    """Return every published number with its verdict; runs of another model or scenario are never taken for it."""
    return [_checked(number, runs) for number in reference.numbers]


def exit_code(found: Sequence[Checked]) -> int:
    """Return 1 if anything was missed, 0 if something was judged and all of that was met, 3 otherwise."""
    judged = {one.verdict for one in found} - {SHOWN}
    return 1 if MISSED in judged else 0 if judged == {MET} else 3


def _checked(number: Published, runs: Sequence[Run]) -> Checked:
    if number.metric == ELSEWHERE:
        return Checked(number, NOT_RUN, why="no number of claasbench")
    mine = [run for run in runs if _matches(number, run)]
    if not mine:
        verdict = SHOWN if number.status == "contradictory" else NOT_RUN
        return Checked(number, verdict, why=_missing(number, runs))
    _one_method(number, mine)
    values = [100 * value for value in estimates.units(_values(number, mine))[0]]
    if not values:
        return Checked(number, NOT_RUN, why="the runs do not hold this number")
    if number.status == "contradictory":
        return Checked(number, SHOWN, values)
    if len(values) < 2:
        return Checked(number, UNDECIDED, values, why="one trial has no error")
    if math.isnan(number.error):
        predicted = stats.prediction(values)
        inside = predicted.low <= number.value <= predicted.high
        return Checked(number, "inside" if inside else "outside", values, predicted=predicted)
    gap = stats.gap(values, number.value, number.error, number.trials)
    return Checked(number, gap.verdict(number.margin), values, gap)


def _matches(number: Published, run: Run) -> bool:
    settings = dict(grouping.flat(run.config))
    wanted = {"learner.placebo": False, **number.where}
    same = all(settings.get(key, False if key == "learner.placebo" else None) == value for key, value in wanted.items())
    own = (run.config["scenario"]["name"], run.method, run.model)
    return same and own == (number.scenario, number.method, number.model)


def _missing(number: Published, runs: Sequence[Run]) -> str:
    others = sorted({run.model for run in runs if run.method == number.method} - {number.model})
    if others:
        return f"it is of {number.model}, the runs of {number.method} are of {', '.join(others)}"
    return f"no run of {number.method} on {number.scenario}" + (" with these settings" if number.where else "")


def _one_method(number: Published, runs: Sequence[Run]) -> None:
    methods: dict[str, Mapping[str, object]] = {}
    for run in runs:
        settings = {
            **grouping.settings(run),
            **{f"scenario.{key}": value for key, value in run.config["scenario"].items()},
        }
        methods.setdefault(json.dumps(settings, sort_keys=True, default=str), settings)
    if len(methods) > 1:
        counts = Counter(
            json.dumps([key, value], default=str) for table in methods.values() for key, value in table.items()
        )
        keys = sorted({json.loads(pair)[0] for pair, seen in counts.items() if seen < len(methods)})
        raise ClaasbenchError(
            f"{number.label}, {number.title} could be any of {len(methods)} methods: name the folder of one, or give "
            f"its `where`; they differ in {', '.join(keys)}"
        )


def _values(number: Published, runs: Sequence[Run]) -> dict[Trial, float]:
    """Return the number of every trial as a share, NaN where a run does not have it."""
    found = {}
    for run in runs:
        measured = [key for key in run.measured if key.variant == number.variant]
        chosen = [key for key in measured if key.measure == (number.measure or run.measured[0].measure)]
        found[run.trial] = _value(number, run, chosen[0]) if chosen else math.nan
    return found


def _value(number: Published, run: Run, measured: Measured) -> float:
    grid = run.grid(measured)
    if number.metric not in (ROW, LENGTH):
        return estimates.of_trial(run, grid, measured.shared).get(number.metric, math.nan)
    if not -1 <= number.row < len(grid) - 1:
        return math.nan
    row = grid[number.row + 1]
    if number.metric == ROW:
        return mean([cell.success if cell else math.nan for cell in row])
    first, after = ([cell.counts for cell in cells if cell] for cells in (grid[0], row))
    lengths = [
        sum(count["reply_tokens"] for count in counts) / (sum(count["turns"] for count in counts) or math.nan)
        for counts in (first, after)
    ]
    return lengths[1] / lengths[0] if lengths[0] else math.nan


def chapter(reference: Reference, found: Sequence[Checked], runs: Sequence[Run]) -> Chapter:
    """Return what a person reads: a row for each number, then where it comes from."""
    names = toys(runs)
    warnings = [f"toy model {', '.join(names)}: this checks the machine, not the science"] if names else []
    reasons = Counter((one.number.label, one.why) for one in found if one.why)
    warnings += [f"{label}, {count(seen, 0)} of its numbers: {why}" for (label, why), seen in reasons.items()]
    statuses = sorted({one.number.status for one in found}, key=list(STATUSES).index)
    table = Table(
        title="Published and ours, in points",
        header=["Method", "Number", "Published", "Ours", "n", "Difference", "Margin", "Reach", "Verdict"],
        rows=once([_row(one) for one in found]),
        notes=LEGEND,
        texts=2,
    )
    numbers = [one.number for one in found]
    origins = Table(
        title="Where the published numbers come from",
        header=["Method", "Number", "Scenario", "Status", "Remark"],
        rows=once([[one.label, one.title, one.scenario, one.status, one.note] for one in numbers]),
        notes=[f"{status}: {STATUSES[status]}." for status in statuses],
        texts=5,
    )
    return Chapter(f"against {reference.source}", warnings, [table, origins])


def _row(one: Checked) -> list[str]:
    number, error = one.number, one.number.error
    published = f"{number.value:.1f}" + ("" if math.isnan(error) else f" ±{error:.1f}")
    ours = percent(mean(one.values) / 100) if one.values else NONE
    between, margin, reach = NONE, NONE, NONE
    if one.gap:
        between = f"{one.gap.interval.low:+.1f} to {one.gap.interval.high:+.1f}"
        margin, reach = f"{number.margin:.1f}", f"{one.gap.reachable:.1f}"
    elif one.predicted:
        between = f"{one.predicted.low:.1f} to {one.predicted.high:.1f}"
    return [number.label, number.title, published, ours, str(len(one.values)), between, margin, reach, one.verdict]
