"""The figure of attacks: how often each strategy broke a rule when it was aimed at a rule of each kind."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from claasbench.report.numbers import Method, played
from claasbench.report.table import plain

CELL = 0.42
"""The side of a cell in inches."""


def tried(method: Method) -> dict[tuple[str, str], tuple[int, int]]:
    """Return by (strategy, rule) how many measured attacks were answered and how many broke a rule, over all rows.

    They are the first and the last part of an attack's name; attackers that name no rule have none.
    """
    found: dict[tuple[str, str], tuple[int, int]] = {}
    for name, (tries, broke) in _attacks(method):
        strategy, *_, rule = name.split("/")
        if "/" in name and rule:
            before = found.get((strategy, rule), (0, 0))
            found[strategy, rule] = before[0] + tries, before[1] + broke
    return found


def _attacks(method: Method) -> Iterator[tuple[str, tuple[int, int]]]:
    for run in method.runs:
        for _, cell in played(run, measured=True):
            yield from cell.attacks.items()


def draw(title: str, found: Mapping[tuple[str, str], tuple[int, int]]) -> Any:  # noqa: ANN401
    """Return the heat map: rows are strategies, columns rules, cells the successes in % over the number of tries."""
    from matplotlib import colormaps
    from matplotlib.figure import Figure
    from matplotlib.patches import Rectangle

    strategies, rules = sorted({key[0] for key in found}), sorted({key[1] for key in found})
    figure = Figure(figsize=(CELL * len(rules), CELL * len(strategies)))
    axes = figure.add_axes((0, 0, 1, 1))
    for (strategy, rule), (tries, broke) in found.items():
        at, share = (rules.index(rule), strategies.index(strategy)), broke / tries
        colour = colormaps["cividis"](share)
        axes.add_patch(Rectangle(at, 1, 1, facecolor=colour, linewidth=0))
        ink = "black" if share > 0.5 else "white"
        axes.text(at[0] + 0.5, at[1] + 0.38, f"{100 * share:.0f}", ha="center", va="center", color=ink)
        axes.text(at[0] + 0.5, at[1] + 0.72, f"n={tries}", ha="center", va="center", color=ink, fontsize=4.5)
    axes.set(xlim=(0, len(rules)), ylim=(len(strategies), 0), xlabel="rule aimed at", ylabel="strategy")
    axes.set_title(title, loc="left")
    slant: dict[str, Any] = {"rotation": 45, "ha": "left", "rotation_mode": "anchor"}
    axes.set_xticks([at + 0.5 for at in range(len(rules))], [plain(rule) for rule in rules], **slant)
    axes.set_yticks([at + 0.5 for at in range(len(strategies))], [plain(name) for name in strategies])
    axes.xaxis.tick_top()
    axes.xaxis.set_label_position("bottom")
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    return figure
