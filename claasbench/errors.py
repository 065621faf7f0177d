"""The two errors a run knows: a user's mistake, told in one line, and a failure of the infrastructure."""

from collections.abc import Iterable
from difflib import get_close_matches


class ClaasbenchError(Exception):
    """A mistake of the user: one line, exit code 2, no traceback."""

    code = 2


class InfraError(Exception):
    """A failure of the machinery under a policy (endpoint, engine): retried with the same draws, never scored."""


def unknown(setting: str, value: object, allowed: Iterable[str]) -> ClaasbenchError:
    """Return the error for an unknown name: the setting, the value, the nearest name and what is allowed."""
    return ClaasbenchError(f"{setting} = {value!r} is unknown: {_nearest(str(value), allowed)}")


def unknown_setting(table: str, name: str, value: object, allowed: Iterable[str]) -> ClaasbenchError:
    """Return the error for a setting that its table does not have."""
    return ClaasbenchError(f"setting {table}.{name} = {value!r} is unknown: {_nearest(name, allowed)}")


def _nearest(name: str, allowed: Iterable[str]) -> str:
    names = sorted(allowed)
    near = get_close_matches(name, names, n=1)
    hint = f"did you mean {near[0]!r}? " if near else ""
    return f"{hint}allowed: {', '.join(names) or 'nothing'}"


def invalid(setting: str, value: object, allowed: str) -> ClaasbenchError:
    """Return the error for a value outside its range: the setting, the value and what is allowed."""
    return ClaasbenchError(f"{setting} = {value!r} is not allowed: {allowed}")


class Halted(ClaasbenchError):
    """A run that had to stop for a reason outside its input (a full disk): one line, exit code 1."""

    code = 1
