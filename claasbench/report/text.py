"""The report as text: Markdown for people, JSON and CSV for programs, which hold shares from 0 to 1."""

from __future__ import annotations

import csv as csv_module
import io
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from claasbench import __version__, metrics
from claasbench.report.cautions import cautions
from claasbench.report.estimates import METRICS, Number, Point
from claasbench.report.numbers import Method, Section, Series, Study, counted, rates
from claasbench.report.results import Cell
from claasbench.report.table import Chapter, Table, plain
from claasbench.stats import Interval

SCHEMA = 1
CELLS = (
    "run", "digest", "scenario", "method", "learner", "model", "order", "seed", "measure", "variant",
    "trained_through", "evaluated_on", "n", "n_failed", "success", "chance", "ceiling",
)  # fmt: skip
NUMBERS = (
    "scenario", "method", "learner", "model", "trials", "measure", "variant",
    "metric", "mean", "low", "high", "n", "over", "level", "noise_floor",
)  # fmt: skip


def markdown(chapters: Iterable[Chapter], title: str = "claasbench report") -> str:
    """Return chapters as Markdown."""
    parts = [f"# {title}"]
    for chapter in chapters:
        parts.append(f"## {_escaped(chapter.heading)}")
        parts.append("\n".join(f"- **!** {_escaped(line)}" for line in chapter.warnings))
        for table in chapter.tables:
            notes = [_escaped(note) for note in table.notes]
            notes += [f"{_escaped(name)} = `{formula}`" for name, formula in table.formulas]
            parts += [f"### {_escaped(table.title)}", _grid(table), "\n".join(f"- {note}" for note in notes)]
    return "\n\n".join(part for part in parts if part) + "\n"


def as_json(study: Study) -> str:
    """Return the study as JSON; what is missing is null."""
    tree = {
        "schema": SCHEMA,
        "claasbench": __version__,
        "metric_version": metrics.METRIC_VERSION,
        "metrics": {metric.name: {"formula": metric.formula, "direction": metric.direction} for metric in METRICS},
        "scenarios": [_section(section) for section in study.sections],
    }
    return dump(tree)


def dump(tree: Any) -> str:  # noqa: ANN401 (JSON)
    """Return a tree as JSON; NaN becomes null."""
    return json.dumps(_without_nan(tree), indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def csv(study: Study) -> str:
    """Return one row per run, measure, variant, row and column; a cell that was not measured has empty fields."""
    return _csv(
        CELLS, (row for section in study.sections for method in section.methods for row in _cells(section, method))
    )


def csv_metrics(study: Study) -> str:
    """Return one row per method, measure, variant and metric."""
    return _csv(
        NUMBERS,
        (
            [section.title, method.label, first.method, first.model, len(method.runs), series.measured.measure,
             series.measured.variant, name, *_interval(number.interval).values(), number.floor]
            for section in study.sections
            for method in section.methods
            for first in method.runs[:1]
            for series in method.series
            for name, number in series.numbers.items()
        ),
    )  # fmt: skip


def _escaped(text: str) -> str:
    """No name can end a cell, open a tag or start a link."""
    return re.sub(r"([\\`*_\[\]<>|#~$])", r"\\\1", plain(text))


def _grid(table: Table) -> str:
    align = ["---" if k < table.texts else "---:" for k in range(len(table.header))]
    rows = [list(map(_escaped, table.header)), align, *(list(map(_escaped, row)) for row in table.rows)]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _section(section: Section) -> dict[str, Any]:
    return {
        "title": section.title,
        "scenario": section.methods[0].runs[0].config["scenario"],
        "facts": section.methods[0].runs[0].resolved["facts"],
        "cautions": cautions(section),
        "methods": [_method(method) for method in section.methods],
    }


def _method(method: Method) -> dict[str, Any]:
    first = method.runs[0]
    return {
        "label": method.label,
        "learner": first.method,
        "model": first.model,
        "model_contents": first.resolved["model"],
        "toy": first.resolved["toy"],
        "config": {name: table for name, table in first.config.items() if name != "trial"},
        "trials": [{"run": run.name, "digest": run.digest, **run.trial._asdict()} for run in method.runs],
        "measures": [_series(series) for series in method.series],
        "live": [_point(point) for point in method.live],
        "forms": {name: _forms(method, measured) for name, measured in (("training", False), ("measured", True))},
        "tokens": {name: method.tokens(measured) for name, measured in (("training", False), ("measured", True))},
        "seconds": method.seconds,
        "budget": method.budget,
    }


def _forms(method: Method, measured: bool) -> dict[str, float]:
    counts = counted(method.runs, measured)
    return {**counts, **{f"{name}_share": value for name, value in rates(counts).items()}}


def _series(series: Series) -> dict[str, Any]:
    return {
        **series.measured._asdict(),
        "rows": series.rows,
        "columns": series.columns,
        "bounds": [bounds._asdict() for bounds in series.bounds],
        "cells": [[_point(point) for point in row] for row in series.points],
        "normalised": series.normalised,
        "averages": [_interval(interval) for interval in series.averages],
        "metrics": {name: _number(number) for name, number in series.numbers.items()},
    }


def _point(point: Point) -> dict[str, Any]:
    return {**_interval(point.interval), "episodes": point.n, "failed": point.n_failed}


def _number(number: Number) -> dict[str, Any]:
    return {
        **_interval(number.interval),
        "naive": _interval(number.naive) if number.naive else None,
        "noise_floor": number.floor,
        "trials": list(number.trials.values()),
    }


def _interval(interval: Interval) -> dict[str, Any]:
    names = ("mean", "low", "high", "n", "over", "level")
    return {name: getattr(interval, name) for name in names}


def _without_nan(value: Any) -> Any:  # noqa: ANN401 (JSON)
    if isinstance(value, Mapping):
        return {key: _without_nan(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_without_nan(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _cells(section: Section, method: Method) -> Iterator[list[object]]:
    for run in method.runs:
        head = [run.name, run.digest, section.title, method.label, run.method, run.model, *run.trial]
        for measured in run.measured:
            columns = ["all"] if measured.shared else run.row_names[1:]
            rows = zip(run.row_names, run.grid(measured), strict=True)
            cells = ((row, column, cell) for row, found in rows for column, cell in zip(columns, found, strict=True))
            yield from ([*head, *measured[:2], row, column, *_values(cell)] for row, column, cell in cells)


def _values(cell: Cell | None) -> list[object]:
    if cell is None:
        return [0, 0, math.nan, math.nan, math.nan]
    return [len(cell.scored), cell.n_failed, cell.success, cell.bounds.chance, cell.bounds.ceiling]


def _csv(header: Iterable[str], rows: Iterable[list[object]]) -> str:
    file = io.StringIO()
    writer = csv_module.writer(file, lineterminator="\n")
    writer.writerow(header)
    for row in rows:
        writer.writerow(["" if isinstance(value, float) and math.isnan(value) else value for value in row])
    return file.getvalue()
