"""The report for a terminal, as Rich renderables; matrices are shaded where there is colour."""

from __future__ import annotations

import math
from collections.abc import Iterable

from rich import box
from rich.columns import Columns
from rich.console import Group, RenderableType
from rich.rule import Rule
from rich.style import Style
from rich.table import Table as RichTable
from rich.text import Text

from claasbench.report.table import Chapter, Table, plain

RAMP = ((0, 34, 78), (53, 69, 108), (102, 105, 112), (148, 142, 119), (200, 184, 102), (254, 232, 56))
"""Six colours of cividis, which reads the same without colour vision and in print."""


def render(chapters: Iterable[Chapter]) -> list[RenderableType]:
    """Return chapter by chapter: warnings on top, then the tables."""
    found: list[RenderableType] = []
    for chapter in chapters:
        found.append(Rule(_text(chapter.heading, "bold")))
        warnings = RichTable.grid(padding=(0, 1))
        for line in chapter.warnings:
            warnings.add_row(Text("!", "bold yellow"), _text(line))
        found += [warnings] if warnings.row_count else []
        rows: list[list[RenderableType]] = []
        for table in chapter.tables:
            if table.beside:
                rows[-1].append(_block(table))
            else:
                rows.append([_block(table)])
        found += [Columns(row, padding=(0, 4)) if len(row) > 1 else row[0] for row in rows]
    return found


def _text(value: str, style: str = "") -> Text:
    """Text is never read as markup."""
    return Text(plain(value), style=style)


def _block(table: Table) -> Group:
    grid = RichTable(box=box.SIMPLE_HEAD, padding=(0, 1), collapse_padding=True, pad_edge=False, show_edge=False)
    for k, name in enumerate(table.header):
        grid.add_column(_text(name), justify="left" if k < table.texts else "right", overflow="fold")
    for k, row in enumerate(table.rows):
        if k in table.breaks:
            grid.add_section()
        shades = table.shades[k] if k < len(table.shades) else []
        cells = [_shaded(cell, shade) for cell, shade in zip(row[1:], shades, strict=True)] if shades else row[1:]
        grid.add_row(_text(row[0]), *(_text(cell) if isinstance(cell, str) else cell for cell in cells))
    notes = [_text(note, "dim") for note in (*table.notes, *(f"{name} = {text}" for name, text in table.formulas))]
    return Group(Text(), _text(table.title, "bold"), Text(), grid, *notes)


def _shaded(cell: str, shade: float) -> Text:
    """A cell on its colour, dark on light or light on dark."""
    if math.isnan(shade):
        return _text(cell)
    red, green, blue = RAMP[round(min(max(shade, 0), 1) * (len(RAMP) - 1))]
    dark = 0.299 * red + 0.587 * green + 0.114 * blue < 128
    ink = "rgb(255,255,255)" if dark else "rgb(0,0,0)"
    return Text(f" {plain(cell)} ", Style.parse(f"{ink} on rgb({red},{green},{blue})"))
