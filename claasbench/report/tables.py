"""All tables of a report in their order, and those of formats, costs and origins."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import product

from claasbench.report import attacks, scores
from claasbench.report.cautions import cautions
from claasbench.report.numbers import TOKENS, Method, Section, Study, counted, played, rates
from claasbench.report.results import mean
from claasbench.report.table import EPISODES, Chapter, Table, amount, count, episodes, once, percent, with_interval
from claasbench.types import LEARNER


def chapters(study: Study) -> list[Chapter]:
    """Return what a person reads of a study: a chapter for each scenario."""
    return [Chapter(section.heading, cautions(section), list(tables(section))) for section in study.sections]


def tables(section: Section) -> Iterator[Table]:
    """Yield all tables of a section, the headline numbers first."""
    measures = scores.named(section.methods)
    for (measure, shared), group in measures.items():
        yield from scores.curves(measure, group) if shared else [scores.headline(measure, group)]
    for (measure, shared), group in measures.items():
        yield from [] if shared else scores.details(measure, group)
    methods = section.methods
    yield from attacks.tables(methods)
    yield from (live(methods), formats(methods), costs(methods), budget(methods))
    yield from (found for found in (seats(methods), replay(methods)) if found.rows)
    yield from (trials(methods), facts(methods))


def live(methods: Sequence[Method]) -> Table:
    """Return the success of the training episodes by split."""
    splits = methods[0].splits
    if any(method.splits != splits for method in methods):
        splits = tuple(f"split {k + 1}" for k in range(len(splits)))
    return Table(
        title="Live curve: success while training, in %",
        header=["Method", *splits, EPISODES],
        rows=[
            [
                method.short,
                *(with_interval(point.interval) for point in method.live),
                episodes([[point] for point in method.live]),
            ]
            for method in methods
        ],
    )


def formats(methods: Sequence[Method]) -> Table:
    """Return how often replies had the wrong form, in training and where measured."""
    rows = []
    for method in methods:
        for measured, phase in ((False, "training"), (True, "measured")):
            counts = counted(method.runs, measured)
            shares = rates(counts)
            cells = [percent(shares[key]) for key in ("invalid", "no_action", "cut", "overflow")]
            n = count(counts["episodes"] - counts["failed"], counts["failed"])
            rows.append([method.short, phase, n, *cells, amount(shares["reply_tokens"])])
    return Table(
        title="Form of the replies, in %",
        header=["Method", "Phase", EPISODES, "Invalid", "No action", "Cut", "Overflow", "Tokens a reply"],
        rows=once(rows),
        notes=["Shares of all turns, but overflow of all episodes; a copied row was played once and counts once."],
        texts=2,
    )


def costs(methods: Sequence[Method]) -> Table:
    """Return tokens and seconds of one trial by phase."""
    rows = []
    for method in methods:
        tokens = {"play": method.tokens(measured=False), "measure": method.tokens(measured=True)}
        for phase, seconds in method.seconds.items():
            values = tokens.get(phase, dict.fromkeys(TOKENS, math.nan)).values()
            rows.append([method.short, phase, *map(amount, values), amount(seconds)])
    return Table(
        title="Tokens and seconds of one trial by phase",
        header=["Method", "Phase", "Prompt tokens", "Computed", "Reply tokens", "Seconds"],
        rows=once(rows),
        notes=["Means over the trials that have all their rows; computed: prompt tokens that no cache had."],
        texts=2,
    )


def seats(methods: Sequence[Method]) -> Table:
    """Return the tokens of the seats that are not the learner's, and what endpoints with prices cost, per trial."""
    rows = []
    for method, measured in product(methods, (False, True)):
        for seat, (prompt, reply) in _used(method, measured).items():
            config = method.runs[0].config
            table = config["policy"] if seat == LEARNER else config["seats"].get(seat, config["policy"])
            money = (prompt * table.get("price_in", 0.0) + reply * table.get("price_out", 0.0)) / 1e6
            if seat != LEARNER or money > 0:
                phase = "measured" if measured else "training"
                rows.append([method.short, phase, seat, amount(prompt), amount(reply), amount(money or math.nan)])
    return Table(
        title="Other seats, and what endpoints cost in one trial",
        header=["Method", "Phase", "Seat", "Prompt tokens", "Reply tokens", "Money"],
        rows=once(rows),
        notes=["Means over the trials that have all their rows; money by the prices of the seat's policy."],
        texts=3,
    )


def _used(method: Method, measured: bool) -> dict[str, tuple[float, float]]:
    """Return the prompt and reply tokens of every seat in one trial."""
    own = method.tokens(measured)
    found: dict[str, tuple[float, float]] = {LEARNER: (own["prompt_tokens"], own["reply_tokens"])}
    for cell in (cell for run in method.whole for _, cell in played(run, measured)):
        for seat, (prompt, reply) in cell.others.items():
            before = found.get(seat, (0.0, 0.0))
            found[seat] = before[0] + prompt / len(method.whole), before[1] + reply / len(method.whole)
    return found


def budget(methods: Sequence[Method]) -> Table:
    """Return what a success and a point of the headline cost in training."""
    return Table(
        title="Budget per score",
        header=[
            "Method",
            "Reply tokens a success",
            "Seconds a success",
            "Reply tokens a final point",
            "Seconds a final point",
        ],
        rows=[[method.short, *map(amount, method.budget.values())] for method in methods],
        notes=["Of training alone, without measuring and saving; successes are those of the live curve."],
    )


def replay(methods: Sequence[Method]) -> Table:
    """Return what became of the updates and the answers of the learners that replay."""
    counts = ("owed", "done", "dropped", "held", "evicted_full", "evicted_old", "uses", "age")
    shares = ("ess", "capped", "clipped", "explained")
    rows = []
    for method in methods:
        ends = [run.rows[-1].learned for run in method.runs if run.rows[-1] and "owed" in run.rows[-1].learned]
        if ends:
            told = [amount(_mean(ends, name)) for name in counts] + [percent(_mean(ends, name)) for name in shares]
            rows.append([method.short, *told])
    return Table(
        title="Replay",
        header=[
            "Method",
            "Owed",
            "Done",
            "Dropped",
            "Held",
            "Full",
            "Old",
            "Uses",
            "Age",
            "ESS",
            "Cap",
            "Clip",
            "EV",
        ],
        rows=rows,
        notes=[
            "Means over trials. Updates owed, done and dropped; answers held at the end, and those that left as the "
            "buffer was full or they were too old; uses of those held.",
            "Over all updates: age in updates; effective sample size, tokens with a capped importance weight and with "
            "a clipped ratio in %. EV: variance of returns that a critic explained in the last batch, in %.",
        ],
    )


def _mean(ends: Sequence[Mapping[str, float | None]], name: str) -> float:
    return mean([value for end in ends if (value := end.get(name)) is not None])


def trials(methods: Sequence[Method]) -> Table:
    """Return where the numbers come from."""
    rows = []
    for method in methods:
        names = [f"o{run.trial.order}-s{run.trial.seed}" for run in method.runs]
        shown = ", ".join(names if len(names) <= 3 else [*names[:2], f"... {names[-1]}"])
        updates = sum(row.updates for run in method.runs for row in run.rows if row) / len(names)
        contents = str(method.runs[0].resolved["model"])[:16]
        sees = str(method.runs[0].resolved["sees"])
        rows.append([method.short, sees, method.runs[0].tuned, contents, shown, str(len(names)), amount(updates)])
    header = ["Method", "Learns from", "Tuned by", "Model contents", "Order and seed", "Trials", "Updates logged"]
    return Table("Runs", header, rows, texts=5)


def facts(methods: Sequence[Method]) -> Table:
    """Return what the scenario says about its stream."""
    stated = methods[0].runs[0].resolved["facts"]
    rows = [[key, value if isinstance(value, str) else json.dumps(value)] for key, value in stated.items()]
    return Table("Facts about the stream", ["Fact", "Value"], rows, texts=2)
