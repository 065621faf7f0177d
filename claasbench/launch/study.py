"""A study file: one set of tables and axes to vary, and the runs they make."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from claasbench import config
from claasbench.config import Table
from claasbench.errors import invalid, unknown


@dataclass(frozen=True, slots=True)
class Planned:
    """One run of a study: its tables, and the axis values that set it apart."""

    tables: Table
    values: Table


def runs(path: Path) -> list[Planned]:
    """Return the runs of a study file in order: axes are crossed, those named together in `axes.zip` are paired."""
    raw = config.read(path)
    axes = raw.pop("axes", {})
    if not isinstance(axes, dict):
        raise invalid("axes", axes, "a table of lists")
    groups = _groups(axes)
    planned = []
    for picks in itertools.product(*(range(len(axes[group[0]])) for group in groups)):
        values = {name: axes[name][pick] for group, pick in zip(groups, picks, strict=True) for name in group}
        tables = deepcopy(raw)
        for name, value in values.items():
            config.put(tables, name, value)
        planned.append(Planned(tables, values))
    return planned


def trials(planned: Sequence[Planned], one: Planned) -> int:
    """Return how many runs of a study differ from `one` in nothing but their order and seed."""
    method, *others = (
        {name: value for name, value in run.values.items() if not name.startswith("trial.")} for run in [one, *planned]
    )
    return others.count(method)


def _groups(axes: Mapping[str, Any]) -> list[list[str]]:
    """Return the axes that vary together, each group once, in the order of the file."""
    paired = axes.get("zip", [])
    if not isinstance(paired, list):
        raise invalid("axes.zip", paired, "a list of axes, or a list of such lists")
    paired = [paired] if paired and isinstance(paired[0], str) else paired
    names = [name for name in axes if name != "zip"]
    for name in names:
        if not isinstance(axes[name], list) or not axes[name]:
            raise invalid(f'axes."{name}"', axes[name], 'a list of values, as in "trial.seed" = [0, 1]')
    members = [name for group in paired for name in group]
    for name in members:
        if name not in names:
            raise unknown("axes.zip", name, names)
        if members.count(name) > 1:
            raise invalid("axes.zip", name, "each axis once")
    for group in paired:
        if len({len(axes[name]) for name in group}) != 1:
            raise invalid("axes.zip", group, "axes of one length")
    return [list(group) for group in paired] + [[name] for name in names if name not in members]


def slug(text: object) -> str:
    """Return `text` as a part of a file name."""
    return re.sub(r"[^A-Za-z0-9.+=-]+", "-", str(text)).strip("-.") or "x"


def folder(tables: Mapping[str, Any], values: Mapping[str, Any]) -> Path:
    """Return where a run belongs below its study: <method>-<model>[-axis=value...]/o<order>-s<seed>."""
    learner, policy, trial = (tables.get(name, {}) for name in ("learner", "policy", "trial"))
    own = ("learner.name", "policy.model", "trial.order", "trial.seed")
    extra = [f"{name.split('.')[-1]}={value}" for name, value in values.items() if name not in own]
    name = "-".join([str(learner.get("name", "")), str(policy.get("model", "")), *extra])
    return Path(slug(name)) / f"o{trial.get('order', 0)}-s{trial.get('seed', 0)}"


def name(path: Path) -> str:
    """Return a study's name: its file's, below experiments/<study>/ that folder's and the file's."""
    path = path.resolve()
    return path.stem if path.parent.parent.name != "experiments" else f"{path.parent.name}/{path.stem}"
