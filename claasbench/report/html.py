"""The report as one HTML file that needs nothing else: no network, no server, no other file."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib import resources
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from claasbench import __version__
from claasbench.metrics import METRIC_VERSION
from claasbench.report import episodes, figures, scores, tables
from claasbench.report.cautions import where
from claasbench.report.numbers import Section, Study
from claasbench.report.table import Chapter, Table, plain

SHADES = 6
"""Colours of a matrix, in page.css."""


@dataclass(frozen=True, slots=True)
class Part:
    """What the page shows of one scenario; a figure is its title and the text of its address."""

    chapter: Chapter
    headline: Sequence[Table]
    figures: Sequence[tuple[str, str]]
    rest: Sequence[Table]


def page(study: Study) -> str:
    """Return the whole page. Whatever a run recorded is shown as text: it can hold no markup and run no script."""
    found = episodes.sample(study.sections)
    style, script = _asset("page.css"), _asset("page.js")
    environment = Environment(
        loader=PackageLoader("claasbench.report", "page"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"plain": plain, "shade": _shade}
    return environment.get_template("page.html").render(
        parts=[_part(section) for section in study.sections],
        runs=sum(len(method.runs) for section in study.sections for method in section.methods),
        methods=sum(len(section.methods) for section in study.sections),
        version=__version__,
        metric_version=METRIC_VERSION,
        told=found.told,
        episodes=_data(found.episodes),
        style=Markup(style),
        script=Markup(script),
        policy="; ".join(
            ["default-src 'none'", "img-src data:", f"style-src {_digest(style)}", f"script-src {_digest(script)}"]
        ),
    )


def _part(section: Section) -> Part:
    chapter = tables.chapters(Study((section,)))[0]
    shared = not any(not series.measured.shared for series in section.methods[0].series)
    first = chapter.tables[0] if shared else _seen(chapter.tables[0], section)
    drawn = [
        (title, f"data:image/svg+xml;base64,{base64.b64encode(picture).decode()}")
        for title, picture in figures.pictures(section)
    ]
    return Part(chapter, [first], drawn, [*chapter.tables[1:], provenance(section)])


def _seen(headline: Table, section: Section) -> Table:
    """Add to the table of methods what each of them learns from."""
    group = next(iter(scores.named(section.methods).values()))
    seen = [str(one.method.runs[0].resolved["sees"]) for one in group]
    rows = [[row[0], seen[k] if k < len(seen) else "", *row[1:]] for k, row in enumerate(headline.rows)]
    return replace(headline, header=[headline.header[0], "Learns from", *headline.header[1:]], rows=rows, texts=2)


def provenance(section: Section) -> Table:
    """Return a row for every run: its folder and the hashes of all that it was made from."""
    rows = []
    for run in (run for method in section.methods for run in method.runs):
        hashes = [run.digest, *(str(run.resolved[name]) for name in ("stream", "model", "prompts")), run.opponent]
        rows.append([run.name, where(run.trial), str(run.versions["claasbench"]), *(text[:12] for text in hashes)])
    header = ["Run", "Trial", "claasbench", "Settings", "Stream", "Model", "Prompts", "Attacker"]
    return Table("Provenance", header, rows, notes=["The first twelve signs of each hash."], texts=8)


def _shade(value: float) -> str:
    """Return the class of a matrix cell; a cell that was not measured has none."""
    return "" if value != value else f"s{round(min(max(value, 0), 1) * (SHADES - 1))}"


def _asset(name: str) -> str:
    return resources.files("claasbench.report").joinpath("page", name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _data(tree: Any) -> Markup:  # noqa: ANN401 (JSON)
    """Return JSON that cannot end the element that holds it."""
    text = json.dumps(tree, ensure_ascii=False, separators=(",", ":"))
    return Markup(text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e"))
