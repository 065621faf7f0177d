"""How a fact about a world can be put into words; some wordings are never trained on."""

from __future__ import annotations

from world import LOSES, WINS

ROLES: dict[str, tuple[str, ...]] = {
    WINS: (
        "{} wins.",
        "{} is the goal.",
        "Go to {} to win.",
        "A step onto {} wins the game.",
        "Reach {}.",
        "Head for {}.",
        "The target is {}.",
        "Stepping onto {} is how the game is won.",
    ),
    LOSES: (
        "{} loses.",
        "{} is a trap.",
        "Never step onto {}.",
        "A step onto {} loses the game.",
        "Avoid {}.",
        "Keep away from {}.",
        "The danger is {}.",
        "Stepping onto {} is how the game is lost.",
    ),
}
PANELS: dict[str, tuple[str, ...]] = {
    "as named": ("At {} the moves do what they are named.", "{}: moves as named."),
    "up and down exchanged": ("At {} up and down are exchanged.", "{}: up and down exchanged."),
    "left and right exchanged": ("At {} left and right are exchanged.", "{}: left and right exchanged."),
}
HELD_OUT: dict[str, tuple[str, ...]] = {
    WINS: ("{} wins the game.", "To win, step onto {}.", "The goal is {}."),
    LOSES: ("{} loses the game.", "{} is the danger.", "The trap is {}."),
}
"""Words that are trained on in sentences that are not."""

MARK = "- EXPERIENCE ITEM: "
NOTHING = "Nothing new."


def items(facts: list[str]) -> str:
    """Return facts as a list of experience items, one a line."""
    return "\n".join(f"{MARK}{fact}" for fact in facts)
