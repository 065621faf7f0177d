"""Which methods a comparison sets against each other, and what must be equal for their episodes to be pairs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from claasbench.errors import ClaasbenchError, unknown
from claasbench.report import grouping
from claasbench.report.load import load
from claasbench.report.results import Run, Trial

ALIKE = ("scenario.", "attacker.", "seats.attacker.", "sampling.measure.", "measure.attempts", "policy.engine")
"""Settings that two methods must share: what is played, how it is measured, and who draws the answers."""


@dataclass(frozen=True, slots=True)
class Side:
    """A method of a comparison, with its runs by trial."""

    label: str
    runs: Mapping[Trial, Run]


def sides(paths: Sequence[Path], allowed: Sequence[str] = ()) -> tuple[Side, list[Side]]:
    """Return the reference, the only method of the first folder, and all methods of the others.

    A difference in what must be alike is refused by the name of its key, unless the key is in `allowed`.
    """
    if len(paths) < 2:
        raise ClaasbenchError("compare needs two folders or more: the reference first, then what is compared with it")
    first, *others = [_methods(path) for path in paths]
    if len(first) > 1:
        folders = ", ".join(sorted({repr(str(runs[0].folder.parent)) for runs in first}))
        raise ClaasbenchError(f"{str(paths[0])!r} holds {len(first)} methods: name one as the reference ({folders})")
    own = {run.folder.resolve() for run in first[0]}
    found = [
        (path, runs)
        for path, methods in zip(paths[1:], others, strict=True)
        for runs in methods
        if not {run.folder.resolve() for run in runs} & own
    ]
    if not found:
        raise ClaasbenchError(f"nothing to compare: all runs are those of {str(paths[0])!r}")
    labels = _labels([(paths[0], first[0]), *found])
    reference, *rest = [
        Side(label, {run.trial: run for run in runs})
        for label, (_, runs) in zip(labels, [(paths[0], first[0]), *found], strict=True)
    ]
    for side in rest:
        _check(reference, side, allowed)
    return reference, rest


def _methods(path: Path) -> list[list[Run]]:
    return [runs for methods in grouping.groups(load([path])) for runs in methods]


def _labels(found: Sequence[tuple[Path, Sequence[Run]]]) -> list[str]:
    """Return the methods' labels, with their folder where two are called the same."""
    labels = grouping.labels([runs[0] for _, runs in found], models=len({runs[0].model for _, runs in found}) > 1)
    return [
        f"{label} ({path})" if labels.count(label) > 1 else label
        for label, (path, _) in zip(labels, found, strict=True)
    ]


def shared(a: Side, b: Side) -> list[Trial]:
    """Return the trials that both methods have."""
    return sorted(a.runs.keys() & b.runs.keys())


def lone(a: Side, b: Side) -> list[Trial]:
    """Return the trials that only one of both methods has."""
    return sorted(a.runs.keys() ^ b.runs.keys())


def _check(reference: Side, side: Side, allowed: Sequence[str]) -> None:
    trials = shared(reference, side)
    if not trials:
        raise ClaasbenchError(
            f"{reference.label} and {side.label} share no trial: theirs are {_names(reference)} and {_names(side)}"
        )
    found = [key for trial in trials for key in differing(reference.runs[trial], side.runs[trial])]
    keys = {key for key, _ in found}
    for key in allowed:
        if key not in _facts(next(iter(side.runs.values()))):
            raise unknown("--allow", key, sorted(_facts(next(iter(side.runs.values())))))
    refused = dict.fromkeys(f"{key} is {values}" for key, values in found if key not in allowed)
    if refused:
        raise ClaasbenchError(
            f"{reference.label} and {side.label} cannot be paired: {'; '.join(refused)}. A difference that is meant is "
            f"allowed by --allow {next(key for key, _ in found if key in keys - set(allowed))}"
        )


def differing(a: Run, b: Run) -> Iterator[tuple[str, str]]:
    """Yield the keys in which two runs of one trial differ though they must not, with both values."""
    left, right = _facts(a), _facts(b)
    for key in sorted(left.keys() | right.keys()):
        if left.get(key) != right.get(key):
            yield key, f"{_short(left.get(key))} and {_short(right.get(key))}"


def _facts(run: Run) -> dict[str, object]:
    flat = {key: value for key, value in grouping.flat(run.config) if key.startswith(ALIKE)}
    versions = {f"versions.{key}": value for key, value in run.versions.items() if key != "claasbench"}
    resolved = {f"resolved.{key}": run.resolved.get(key) for key in ("stream", "prompts", "attacker")}
    return {**flat, **versions, **resolved, "attacker.state": run.opponent}


def _short(value: object) -> str:
    text = json.dumps(value)
    return text if len(text) <= 40 else text[:16] + '…"'


def _names(side: Side) -> str:
    return ", ".join(f"o{trial.order}-s{trial.seed}" for trial in side.runs)
