"""Draws a study's figures into a folder as PNG, SVG and PDF: the same bytes every time, many side by side."""

from __future__ import annotations

import io
import multiprocessing
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from claasbench.report.numbers import Section, Study
from claasbench.report.plots import Job, figures

FORMATS = {"png": {"Software": None}, "svg": {"Date": None}, "pdf": {"CreationDate": None}}
"""With the metadata that would differ from one day to the next."""
STYLE: dict[str, Any] = {
    "font.family": "DejaVu Sans", "font.size": 7, "axes.titlesize": 7, "axes.spines.top": False,
    "axes.spines.right": False, "axes.linewidth": 0.6, "xtick.major.width": 0.6, "ytick.major.width": 0.6,
    "hatch.linewidth": 0.5, "lines.linewidth": 1.1, "lines.markersize": 3, "legend.frameon": False,
    "savefig.dpi": 200, "pdf.fonttype": 42, "svg.hashsalt": "claasbench", "text.parse_math": False,
}  # fmt: skip
SHARE = 8
"""Figures that are worth a process of their own."""


def draw(study: Study, folder: Path) -> list[Path]:
    """Draw all figures of a study into `folder` and return their paths; many are shared out among the cores."""
    folder.mkdir(parents=True, exist_ok=True)
    jobs = [
        ("-".join(_slug(part) for part in (str(number), section.heading, name)), make)
        for number, section in enumerate(study.sections, 1)
        for name, make in figures(section)
    ]
    workers = min(os.cpu_count() or 1, len(jobs) // SHARE)
    if workers < 2 or "fork" not in multiprocessing.get_all_start_methods():
        _draw(jobs, folder)
    else:
        fork = multiprocessing.get_context("fork")
        shares = [fork.Process(target=_draw, args=(jobs[first::workers], folder)) for first in range(workers)]
        for share in shares:
            share.start()
        for share in shares:
            share.join()
        if any(share.exitcode for share in shares):
            raise RuntimeError("a figure could not be drawn: see the traceback of its process")
    return [folder / f"{stem}.{suffix}" for stem, _ in jobs for suffix in FORMATS]


def pictures(section: Section) -> Iterator[tuple[str, bytes]]:
    """Yield the curves and maps of a section as SVG, each with its name; not the matrices, which are tables too."""
    import matplotlib

    with matplotlib.rc_context(STYLE):
        for name, make in figures(section):
            if not name.startswith("matrix-"):
                file = io.BytesIO()
                figure = make()
                figure.savefig(file, format="svg", metadata=FORMATS["svg"], bbox_inches="tight", pad_inches=0.05)
                yield name.replace("-", " "), file.getvalue()


def _draw(jobs: Sequence[Job], folder: Path) -> None:
    import matplotlib

    with matplotlib.rc_context(STYLE):
        for stem, make in jobs:
            figure = make()
            figure.draw_without_rendering()
            cut = figure.get_tightbbox().padded(0.05)  # once, not once per format as "tight" would
            for suffix, metadata in FORMATS.items():
                figure.savefig(folder / f"{stem}.{suffix}", metadata=metadata, bbox_inches=cut)


def _slug(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9.+]+", "-", text).strip("-.")[:60]
