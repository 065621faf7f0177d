"""How a TOML file and `--set a.b=c` become one strict, complete and hashable configuration."""

from __future__ import annotations

import json
import tomllib
import types as python_types
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import MISSING, asdict, dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from claasbench.errors import ClaasbenchError, invalid, unknown, unknown_setting
from claasbench.types import Sampling, content_hash

T = TypeVar("T")
Table = dict[str, Any]

SAMPLING = ("train", "measure")
"""The tables below [sampling]."""


@dataclass(frozen=True, slots=True)
class StreamTable:
    """The `[stream]` table."""

    batch: int = 0
    """Training tasks played between two looks of the learner; 0 takes the scenario's default."""


@dataclass(frozen=True, slots=True)
class MeasureTable:
    """The `[measure]` table."""

    names: tuple[str, ...] = ("headline",)
    """Measures to run: names of the scenario's measures, "headline" (the first) or "all"."""
    width: int = 32
    """Episodes played side by side in a measured row."""
    attempts: int = 1
    """Episodes per measured task."""
    rows: Literal["all", "last"] = "all"
    """Checkpoints to measure beside the untrained row."""


@dataclass(frozen=True, slots=True)
class CheckpointTable:
    """The `[checkpoint]` table."""

    every: int = 1
    """Units of work between two commits of the live state."""


@dataclass(frozen=True, slots=True)
class TrialTable:
    """The `[trial]` table."""

    order: int = 0
    """Permutes what the scenario says may be permuted."""
    seed: int = 0
    """Reaches sampling and learning, nothing else."""


@dataclass(frozen=True, slots=True)
class RunConfig:
    """One run: every setting with its value; plug-in tables hold all fields of their class."""

    scenario: Table = field(default_factory=dict)
    attacker: Table = field(default_factory=dict)
    learner: Table = field(default_factory=dict)
    policy: Table = field(default_factory=dict)
    seats: dict[str, Table] = field(default_factory=dict)
    sampling: dict[str, Sampling] = field(default_factory=dict)
    stream: StreamTable = StreamTable()
    measure: MeasureTable = MeasureTable()
    checkpoint: CheckpointTable = CheckpointTable()
    trial: TrialTable = TrialTable()

    def tables(self) -> Table:
        """Return the configuration as JSON has it (lists, no tuples)."""
        made: Table = json.loads(json.dumps(asdict(self)))
        return made


def digest(tables: Mapping[str, Any], resolved: Mapping[str, Any]) -> str:
    """Return the hash of a configuration and of what its names resolved to on this machine."""
    return content_hash([tables, resolved])


def read(path: Path) -> Table:
    """Return the tables of a TOML file."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ClaasbenchError(f"file {str(path)!r} does not exist") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ClaasbenchError(f"file {str(path)!r} cannot be read as text: {error}") from None
    except tomllib.TOMLDecodeError as error:
        raise ClaasbenchError(f"file {str(path)!r} is no TOML: {error}") from None


def assign(tables: Table, assignment: str) -> None:
    """Write `a.b=c` into nested tables; the value is TOML, or else the text itself."""
    name, equals, text = assignment.partition("=")
    if not equals or not all(name.strip().split(".")):
        raise invalid("--set", assignment, "KEY=VALUE with a dotted key, as in trial.seed=1")
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        value = text.strip()
    put(tables, name.strip(), value)


def put(tables: Table, name: str, value: object) -> None:
    """Write one dotted key into nested tables."""
    *path, last = name.split(".")
    for part in path:
        tables = tables.setdefault(part, {})
        if not isinstance(tables, dict):
            raise invalid("--set", name, f"{part} is a value, not a table")
    tables[last] = value


def get(tables: Mapping[str, Any], name: str) -> Any:  # noqa: ANN401 (the value of a setting is whatever TOML holds)
    """Return the value of one dotted key of nested tables."""
    for part in name.split("."):
        tables = tables[part]
    return tables


def literal(value: object) -> str:
    """Return `value` as a TOML value on one line, so that `assign` reads back what was written."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{literal(key)} = {literal(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(literal, value)) + "]"
    if isinstance(value, str):  # a JSON text is a TOML text, but for the one control character that JSON lets stand
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return json.dumps(value) if isinstance(value, bool | int | float) else str(value)


def build(cls: type[T], table: Mapping[str, Any], where: str) -> T:
    """Return `cls` (a dataclass) with the settings of `table`; unknown names and wrong types are refused."""
    return cls(**complete(cls, table, where))


def complete(cls: type[Any], table: Mapping[str, Any], where: str) -> Table:
    """Return `table` with the defaults of all settings of `cls` filled in, its own values checked and converted."""
    hints = get_type_hints(cls)
    known = {f.name: f for f in fields(cls) if f.init}
    for name in table:
        if name not in known:
            raise unknown_setting(where, name, table[name], known)
    values = {name: convert(hints[name], value, f"{where}.{name}".lstrip(".")) for name, value in table.items()}
    for name, entry in known.items():
        if name not in values:
            if entry.default_factory is not MISSING:
                values[name] = entry.default_factory()
            elif entry.default is not MISSING:
                values[name] = entry.default
            else:
                raise ClaasbenchError(f"{where}.{name} is missing: it has no default")
    return values


def convert(hint: Any, value: Any, where: str) -> Any:  # noqa: ANN401 (the value of a setting is whatever TOML holds)
    """Return `value` as the annotated type, or refuse it by name."""
    origin, arguments = get_origin(hint), get_args(hint)
    if is_dataclass(hint) and isinstance(value, dict):
        return build(hint, value, where)  # type: ignore[arg-type]
    if hint is Any:
        return value
    if origin is Literal:
        if value not in arguments:
            raise unknown(where, value, map(str, arguments))
        return value
    if origin in (Union, python_types.UnionType):
        return _either(arguments, value, where)
    if origin in (tuple, list):
        items = [value] if isinstance(value, str) else value
        if not isinstance(items, list | tuple):
            raise invalid(where, value, "a list")
        return origin(convert(arguments[0], item, where) for item in items)
    if origin is dict:
        if not isinstance(value, dict):
            raise invalid(where, value, "a table")
        return {key: convert(arguments[1], item, f"{where}.{key}") for key, item in value.items()}
    return _scalar(hint, value, where)


def _either(options: Sequence[Any], value: object, where: str) -> object:
    if value is None and type(None) in options:
        return None
    *others, last = [option for option in options if option is not type(None)]
    for kind in others:
        with suppress(ClaasbenchError):
            return convert(kind, value, where)
    return convert(last, value, where)


def _scalar(hint: type, value: object, where: str) -> object:
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    if not isinstance(value, hint) or (isinstance(value, bool) and hint is not bool):
        names = {int: "a whole number", float: "a number", str: "a text", bool: "true or false"}
        raise invalid(where, value, names.get(hint, hint.__name__))
    if isinstance(value, float) and not abs(value) < float("inf"):
        raise invalid(where, value, "a finite number")
    return value


def sampling(tables: Mapping[str, Any], default: Sampling) -> dict[str, Sampling]:
    """Return the sampling tables completed from `default`; what is unknown or out of range is refused."""
    for name in tables:
        if name not in SAMPLING:
            raise unknown("sampling", name, SAMPLING)
    base = {name: getattr(default, name) for name in Sampling.__slots__}
    made = {name: build(Sampling, {**base, **tables.get(name, {})}, f"sampling.{name}") for name in SAMPLING}
    for name, each in made.items():
        where = f"sampling.{name}"
        if each.temperature < 0:
            raise invalid(f"{where}.temperature", each.temperature, "0 (greedy) or more")
        if not 0 < each.top_p <= 1:
            raise invalid(f"{where}.top_p", each.top_p, "above 0, at most 1")
        if each.top_k < 0:
            raise invalid(f"{where}.top_k", each.top_k, "0 (off) or more")
        if each.max_tokens < 1:
            raise invalid(f"{where}.max_tokens", each.max_tokens, "at least 1")
    return made


def differing(old: Mapping[str, Any], new: Mapping[str, Any], prefix: str = "") -> list[str]:
    """Return the dotted keys whose values differ, as `key: old -> new`."""
    lines = []
    for name in sorted(old.keys() | new.keys()):
        left, right = old.get(name), new.get(name)
        if isinstance(left, dict) and isinstance(right, dict):
            lines += differing(left, right, f"{prefix}{name}.")
        elif left != right:
            lines.append(f"{prefix}{name}: {left!r} -> {right!r}")
    return lines
