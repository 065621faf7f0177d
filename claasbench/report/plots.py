"""Figures for papers: heat maps, checkpoint curves and live curves.

Axes have fixed sizes in inches and a figure is cut around whatever stands beside them: no name can squeeze them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, TypeAlias

from claasbench.report import attack_map, estimates, scores
from claasbench.report.cautions import toys
from claasbench.report.numbers import Method, Section, Series
from claasbench.report.results import Cell, mean
from claasbench.report.table import NONE, percent, plain
from claasbench.stats import Interval
from claasbench.types import Bounds

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
"""Okabe and Ito's, which differ without colour vision; markers and dashes differ too."""
MARKERS = "osD^vP"
DASHES = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1)))
GAP = 0.25
"""Between the untrained row of a heat map and the others, in cells."""
ACROSS = 4
"""Panels side by side."""
TEXTS = 20
"""With more columns the cells of a heat map hold no text."""
BLOCK = 8
"""Training episodes behind one point of the live curve, at least."""
Job: TypeAlias = tuple[str, Callable[[], Any]]
"""A figure's file name without its ending, and what makes it."""
OVER = {"tasks": "tasks of one trial (this checkpoint, not the method)", "seeds": "seeds of one order"}


def figures(section: Section) -> Iterator[Job]:
    """Heat maps by method, curves by measure and a few methods at a time: names, and how to make each."""
    for (measure, shared), group in scores.named(section.methods).items():
        for number, one in enumerate([] if shared else group, 1):
            title = _title(f"{measure}: {one.label}", [one.method])
            yield f"matrix-{measure}-{number:02d}-{one.label}", partial(_matrix, title, one.series)
        for start in range(0, len(group), len(COLOURS)):
            some = group[start : start + len(COLOURS)]
            title = _title(f"{measure}: success after every split, %", [one.method for one in some])
            yield f"curves-{measure}-{start + 1:02d}", partial(_curves, title, some)
    for number, method in enumerate(section.methods, 1):
        if found := attack_map.tried(method):
            title = _title(f"{method.short}: measured attacks that broke a rule, %", [method])
            yield f"attacks-{number:02d}-{method.short}", partial(attack_map.draw, title, found)
    for start in range(0, len(section.methods), len(COLOURS)):
        methods = section.methods[start : start + len(COLOURS)]
        if not any(point.n for method in methods for point in method.live):
            continue
        title = _title("live: success while training, each task played once, %", methods)
        yield f"live-{start + 1:02d}", partial(_live, title, methods)


def _title(text: str, methods: Sequence[Method]) -> str:
    toy = [
        f"toy model {name}: this checks the machine, not the science"
        for name in toys(run for method in methods for run in method.runs)
    ]
    return "\n".join(_shown(line, 90) for line in [text, *toy])


def _matrix(title: str, series: Series) -> Any:  # noqa: ANN401
    """The success of every row on every column, raw and on its way from chance to ceiling."""
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize
    from matplotlib.figure import Figure

    panels = {f"{title}\n\nsuccess, %": series.success}
    if any(not math.isnan(value) for row in series.normalised for value in row):
        panels["from chance (0) to ceiling (100)"] = series.normalised
    size = _size(series)
    wide, high, gap = size * len(series.columns), size * (len(series.rows) + GAP), 0.3
    total = len(panels) * (wide + gap) + 0.1
    figure = Figure(figsize=(total, high))
    for k, (name, values) in enumerate(panels.items()):
        axes = figure.add_axes((k * (wide + gap) / total, 0, wide / total, 1))
        _heat(axes, values, series)
        axes.set_title(name, loc="left")
        if k:
            axes.set_yticks([])
        else:
            axes.set_ylabel("trained through")
            _under(axes, series)
    bar = figure.add_axes(((total - 0.1) / total, 0, 0.1 / total, 1))
    figure.colorbar(ScalarMappable(Normalize(0, 100), "cividis"), cax=bar)
    return figure


def _size(series: Series) -> float:
    """The side of a cell in inches."""
    return min(0.4, 4 / len(series.columns))


def _heat(axes: Any, values: Sequence[Sequence[float]], series: Series) -> None:  # noqa: ANN401
    """The untrained row stands apart, the cell just trained is framed, a missing cell is hatched."""
    from matplotlib import colormaps
    from matplotlib.patches import Rectangle

    tops = [k + GAP * (k > 0) for k in range(len(values))]
    for top, row in zip(tops, values, strict=True):
        for j, value in enumerate(row):
            missing = math.isnan(value)
            colour = (1, 1, 1, 1) if missing else colormaps["cividis"](min(max(value, 0), 1))
            hatch = "//////" if missing else None
            axes.add_patch(Rectangle((j, top), 1, 1, facecolor=colour, edgecolor="0.6", hatch=hatch, linewidth=0))
            light = 0.299 * colour[0] + 0.587 * colour[1] + 0.114 * colour[2] > 0.5
            if len(row) <= TEXTS and not missing:
                _write(axes, j, top + 0.5, percent(value, _digits(series)), "black" if light else "white")
    for k, top in enumerate(tops[1:]):
        axes.add_patch(Rectangle((k, top), 1, 1, fill=False, edgecolor="black", linewidth=1.2, zorder=3, clip_on=False))
    columns = [_shown(name, 20) for name in series.columns]
    slant = (
        {"rotation": 45, "ha": "left", "rotation_mode": "anchor"} if max(map(len, columns)) > 16 * _size(series) else {}
    )
    axes.set(xlim=(0, len(columns)), ylim=(tops[-1] + 1, 0), xlabel="measured on")
    axes.set_xticks([j + 0.5 for j in range(len(columns))], columns, **slant)
    axes.set_yticks([top + 0.5 for top in tops], [_shown(name, 20) for name in series.rows])
    axes.xaxis.tick_top()
    axes.xaxis.set_label_position("top")
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)


def _under(axes: Any, series: Series) -> None:  # noqa: ANN401
    """Chance and ceiling below a heat map, where known."""
    digits = _digits(series)
    for k, (name, *values) in enumerate(
        scores.bounds_rows(series.bounds, digits) if len(series.columns) <= TEXTS else []
    ):
        place = len(series.rows) + GAP + 0.5 + 0.6 * k
        axes.text(-0.12, place, name, ha="right", va="center", color="0.35")
        for j, value in enumerate(values):
            _write(axes, j, place, value, "0.35")


def _digits(series: Series) -> int:
    return 1 if len(series.columns) <= TEXTS // 2 else 0


def _write(axes: Any, column: int, place: float, text: str, ink: str) -> None:  # noqa: ANN401
    axes.text(column + 0.5, place, text, ha="center", va="center", color=ink, fontsize=6)


def _curves(title: str, group: Sequence[scores.Named]) -> Any:  # noqa: ANN401
    """One panel for each column and one for the mean of all, over the rows."""
    first = group[0].series
    names, bounds = list(first.columns), list(first.bounds)
    if len(names) > 1:
        names.append("mean of all")
        bounds.append(Bounds(*(mean(values) for values in zip(*bounds, strict=True))))
    figure, panels = _panels(len(names), 1.4)
    for j, (axes, name) in enumerate(zip(panels, names, strict=True)):
        axes.set_title(_shown(name, 20))
        _range_lines(axes, 0, len(first.rows) - 1, bounds[j])
        own = j < len(first.columns)
        if own and not first.measured.shared:
            axes.axvline(j + 1, color="0.88", linewidth=5, zorder=0)  # the row that has just trained it
        for i, one in enumerate(group):
            line = [row[j].interval for row in one.series.points] if own else one.series.averages
            _line(axes, i, list(range(len(line))), line)
        _ticks(axes, [float(k) for k in range(len(first.rows))], first.rows)
    _legend(figure, title, [(one.label, one.series.averages) for one in group])
    return figure


def _live(title: str, methods: Sequence[Method]) -> Any:  # noqa: ANN401
    """Success of the training episodes in the order played, in blocks of episodes."""
    figure, (axes,) = _panels(1, 4.5)
    first = methods[0]
    sizes = [len(cell.scores) for method in methods for run in method.runs for cell in run.live if cell]
    blocks = max(1, min(sizes, default=0) // BLOCK)
    for k, cell in enumerate(first.runs[0].live):
        axes.axvline(k, color="0.88", linewidth=0.8, zorder=0)
        if cell:
            _range_lines(axes, k, k + 1, cell.bounds)
    lines = []
    for i, method in enumerate(methods):
        cells = [[run.live[k] for run in method.runs] for k in range(len(first.splits))]
        line = [_block(method, split, block, blocks) for split in cells for block in range(blocks)]
        _line(axes, i, [(place + 0.5) / blocks for place in range(len(line))], line)
        lines.append((method.short, line))
    _ticks(axes, [k + 0.5 for k in range(len(first.splits))], first.splits)
    axes.set_xlabel("training on")
    _legend(figure, title, lines)
    return figure


def _block(method: Method, cells: Sequence[Cell | None], block: int, blocks: int) -> Interval:
    """The success in one of equal parts of a split."""
    values = []
    for cell in cells:
        episodes = cell.scores if cell else ()
        part = episodes[len(episodes) * block // blocks : len(episodes) * (block + 1) // blocks]
        values.append([score for score in part if not math.isnan(score)])
    if len(values) == 1:
        return estimates.over_tasks(mean(values[0]), values[0])
    return estimates.spread({run.trial: mean(part) for run, part in zip(method.runs, values, strict=True)})


def _panels(count: int, wide: float, high: float = 1.1) -> tuple[Any, list[Any]]:
    """A figure with panels of a size in inches that share their axes, in rows as full as can be."""
    from matplotlib.figure import Figure

    across = min(range(min(3, count), min(ACROSS, count) + 1), key=lambda some: (-count % some, -some))
    down = math.ceil(count / across)
    gap_x, gap_y = 0.15, 0.3
    width, height = across * (wide + gap_x) - gap_x, down * (high + gap_y) - gap_y
    figure = Figure(figsize=(width, height))
    panels: list[Any] = []
    for k in range(count):
        left, bottom = (k % across) * (wide + gap_x), height - (k // across) * (high + gap_y) - high
        place = (left / width, bottom / height, wide / width, high / height)
        shared = {"sharex": panels[0], "sharey": panels[0]} if panels else {}
        panels.append(figure.add_axes(place, **shared))
        panels[k].tick_params(labelleft=k % across == 0, labelbottom=k + across >= count)
    return figure, panels


def _ticks(axes: Any, places: Sequence[float], names: Sequence[str]) -> None:  # noqa: ANN401
    """Names below an axis, every few of them where there are many, aslant where they are long."""
    step = math.ceil(len(names) / 12)
    shown = [_shown(name, 20) for name in names[::step]]
    slant = {"rotation": 60, "ha": "right", "rotation_mode": "anchor"} if sum(map(len, shown)) > 24 else {}
    axes.set_xticks(places[::step], shown, **slant)


def _line(axes: Any, number: int, places: Sequence[float], line: Sequence[Interval]) -> None:  # noqa: ANN401
    """One method with the band of its intervals; a gap where nothing was measured."""
    low, high = [100 * interval.low for interval in line], [100 * interval.high for interval in line]
    axes.fill_between(places, low, high, color=COLOURS[number], alpha=0.12, linewidth=0)
    look = {"color": COLOURS[number], "marker": MARKERS[number], "linestyle": DASHES[number]}
    axes.plot(places, [100 * interval.mean for interval in line], **look)


def _range_lines(axes: Any, start: float, end: float, bounds: Bounds) -> None:  # noqa: ANN401
    for bound in (bounds.chance, bounds.ceiling):
        axes.plot([start, end], [100 * bound] * 2, color="0.5", linewidth=0.8, linestyle=(0, (1, 2)))


def _legend(figure: Any, title: str, lines: Sequence[tuple[str, Sequence[Interval]]]) -> None:  # noqa: ANN401
    """What the figure shows, above it: lines, bands and dots."""
    from matplotlib.lines import Line2D

    handles = [
        Line2D([], [], color=COLOURS[i], marker=MARKERS[i], linestyle=DASHES[i], label=_shown(label, 60))
        for i, (label, _) in enumerate(lines)
    ]
    units = sorted({interval.over for _, line in lines for interval in line if not math.isnan(interval.low)})
    bands = [f"bands: 95 % interval over {' or '.join(OVER.get(unit, unit) for unit in units)}"] if units else []
    heading = "\n".join([title, "; ".join([*bands, "dotted: chance and ceiling"])])
    top = 1 + 0.2 / figure.get_size_inches()[1]
    columns = 1 if max(len(label) for label, _ in lines) > 24 else 3
    figure.legend(handles=handles, title=heading, loc="lower center", bbox_to_anchor=(0.5, top), ncols=columns)
    if all(0 <= interval.mean <= 1 for _, line in lines for interval in line if not math.isnan(interval.mean)):
        figure.axes[0].set_ylim(-4, 104)  # bands of a share may pass its ends


def _shown(text: str, most: int) -> str:
    """Text of a few letters that the font has, for a missing one is a warning."""
    known = "".join(char if ord(char) < 0x250 or char == NONE else "?" for char in plain(text))
    return known if len(known) <= most else f"{known[: most // 2 - 1]}..{known[1 - most // 2 :]}"
