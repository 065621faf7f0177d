"""The texts of the grid games: our templates, or those of a user's file in their place."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from string import Template

from claasbench import prompts
from claasbench.errors import ClaasbenchError, unknown
from claasbench.types import content_hash

SETTING = "scenario.prompts"
END = frozenset({"calls", "reason"})
SLOTS = {
    "prompt": frozenset({"room", "context", "log"}),
    "room": frozenset({"room"}),
    "goal": END,
    "lost": END,
    "invalid": END,
    "budget": END,
}
"""Every text with the $slots it may use; a prompt needs $context and $log, each once."""

FILES = {name: f"grid_{name}" for name in SLOTS}
OEL_FILES = FILES | {
    "prompt": "grid_oel_prompt",
    "goal": "grid_oel_goal",
    "lost": "grid_oel_lost",
    "invalid": "grid_oel_lost",  # the engine's reason says it
    "budget": "grid_oel_budget",
}


@dataclass(frozen=True, slots=True)
class Texts:
    """The texts by name (see SLOTS)."""

    by_name: dict[str, str]

    @property
    def digest(self) -> str:
        """The hash of all texts."""
        return content_hash(self.by_name)

    def fill(self, name: str, **slots: str) -> str:
        """Return text `name` with its $slots filled."""
        return Template(self.by_name[name]).substitute(slots)

    def halves(self, room: str, log: str) -> tuple[str, str]:
        """Return the prompt up to where context goes and from there on; a room without a name is not mentioned.

        Ours names the room after the context, so that what all rooms share (the context) is computed once.
        """
        slots = {"room": f"{self.fill('room', room=room)} " if room else "", "log": log}
        opening, rest = (Template(half).substitute(slots) for half in self.by_name["prompt"].split("$context"))
        return opening, rest


def load(oel: bool, path: str) -> Texts:
    """Return the texts of a protocol, each replaced where the TOML file `path` (if any) names it."""
    texts = {name: prompts.text(file) for name, file in (OEL_FILES if oel else FILES).items()}
    for name, text in _read(path).items():
        if name not in SLOTS:
            raise unknown(SETTING, name, SLOTS)
        texts[name] = _checked(name, text)
    return Texts(texts)


def _read(path: str) -> dict[str, object]:
    if not path:
        return {}
    try:
        return tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except OSError:
        raise ClaasbenchError(f"{SETTING} = {path!r}: that file cannot be read") from None
    except tomllib.TOMLDecodeError as error:
        raise ClaasbenchError(f"{SETTING} = {path!r}: that file is no TOML: {error}") from None


def _checked(name: str, text: object) -> str:
    if not isinstance(text, str):
        raise ClaasbenchError(f"{SETTING}: {name} must be a text")
    template = Template(text)
    allowed = SLOTS[name]
    if not template.is_valid() or not allowed.issuperset(template.get_identifiers()):
        raise ClaasbenchError(f"{SETTING}: {name} may use {', '.join(f'${slot}' for slot in sorted(allowed))} only")
    head, *tail = text.split("$context")
    if name == "prompt" and (len(tail) != 1 or tail[0].count("$log") != 1 or "$log" in head):
        raise ClaasbenchError(f"{SETTING}: prompt must hold $context and after it $log, each once")
    return text
