"""Which runs are trials of one method, which methods stand side by side, and how both are called."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from claasbench.errors import ClaasbenchError
from claasbench.report.results import Run, Trial
from claasbench.types import canonical

Settings = dict[str, Any]

SCOPES = {"learner": ("learner.name",), "resolved": ("learner.name", "policy.model")}
"""A learner's settings are told apart from its namesakes', contents where both names agree, the rest from all."""


def groups(runs: Iterable[Run]) -> list[list[list[Run]]]:
    """Return runs by scenario, then by method, each in the order found; the trials of a method are sorted."""
    scenarios: dict[bytes, dict[bytes, list[Run]]] = {}
    for run in runs:
        methods = scenarios.setdefault(canonical([run.config["scenario"], len(run.parts)]), {})
        methods.setdefault(canonical(settings(run)), []).append(run)
    return [[_trials(trials) for trials in methods.values()] for methods in scenarios.values()]


def settings(run: Run) -> Settings:
    """Return all that makes the method, by dotted name: the configuration but for its trial, and the contents."""
    found = dict(flat(run.config))
    del found["trial.order"], found["trial.seed"]
    found.pop("learner.tuned", None)  # says where settings come from; it is none
    # not the stream's hash, which changes with the order, and no facts, which may
    return found | {f"resolved.{name}": run.resolved[name] for name in ("model", "prompts", "toy")}


def labels(runs: Sequence[Run], models: bool = True) -> list[str]:
    """Return a label for each run's method: learner, model and only the settings that differ among them."""
    tables = [settings(run) for run in runs]
    varying = {scope: _varying(tables, scope) for scope in (*SCOPES.values(), ())}
    found = []
    for run, mine in zip(runs, tables, strict=True):
        differ = []
        for key in sorted(mine.keys() - {"learner.name", "policy.model"}):
            scope = SCOPES.get(key.partition(".")[0], ())
            if key in varying[scope][tuple(mine[name] for name in scope)]:
                differ.append(_shown(key.removeprefix("learner."), mine[key]))
        found.append(" · ".join([run.method, *([run.model] if models else []), *differ]))
    return found


def titles(runs: Sequence[Run]) -> list[str]:
    """Return a title for each run's scenario: name, protocol and only the settings that differ among its namesakes."""
    tables = [dict(flat(run.config["scenario"])) for run in runs]
    varying = _varying(tables, ("name",))
    found = []
    for mine in tables:
        protocol = [str(mine["protocol"])] if "protocol" in mine else []
        differ = sorted(varying[(mine["name"],)] & mine.keys() - {"protocol"})
        found.append(" · ".join([mine["name"], *protocol, *(_shown(key, mine[key]) for key in differ)]))
    return found


def _trials(runs: list[Run]) -> list[Run]:
    by_trial: dict[Trial, Run] = {}
    for run in runs:
        if (twin := by_trial.setdefault(run.trial, run)) is not run:
            # counting one trial twice would narrow every interval
            raise ClaasbenchError(
                f"{str(twin.folder)!r} and {str(run.folder)!r} are the same trial: report one of them"
            )
    return [by_trial[trial] for trial in sorted(by_trial)]


def flat(table: Mapping[str, Any], prefix: str = "") -> Iterable[tuple[str, Any]]:
    """Yield the settings of nested tables by their dotted names."""
    for key, value in table.items():
        if isinstance(value, Mapping):
            yield from flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _varying(tables: Sequence[Settings], scope: tuple[str, ...]) -> dict[tuple[Any, ...], set[str]]:
    """Return the keys whose values differ among the tables that agree on all of `scope`."""
    seen: dict[tuple[Any, ...], dict[str, list[str]]] = {}
    sizes: Counter[tuple[Any, ...]] = Counter()
    for table in tables:
        where = tuple(table[name] for name in scope)
        sizes[where] += 1
        for key, value in table.items():
            seen.setdefault(where, {}).setdefault(key, []).append(json.dumps(value))
    return {
        where: {key for key, values in keys.items() if len(set(values)) > 1 or len(values) < sizes[where]}
        for where, keys in seen.items()
    }


def _shown(key: str, value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return f"{key}={text[:12] if key.startswith('resolved.') else text}"
