from dataclasses import dataclass, field
from typing import Any, Literal

import pytest

from claasbench import config
from claasbench.errors import ClaasbenchError


@dataclass
class Settings:
    name: str = "a"
    size: int = 3
    rate: float = 0.5
    on: bool = False
    mode: Literal["recent", "similar"] = "recent"
    names: tuple[str, ...] = ()
    extra: dict[str, Any] = field(default_factory=dict)
    maybe: int | None = None


def test_defaults_and_conversions():
    made = config.build(Settings, {"rate": 1, "names": ["x", "y"], "extra": {"k": 1}, "maybe": 4}, "t")
    assert made == Settings(rate=1.0, names=("x", "y"), extra={"k": 1}, maybe=4)
    assert isinstance(made.rate, float)


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ({"sise": 3}, ["t.sise", "did you mean 'size'?"]),
        ({"size": "three"}, ["t.size", "'three'", "a whole number"]),
        ({"size": True}, ["t.size", "a whole number"]),
        ({"size": 1.5}, ["t.size", "a whole number"]),
        ({"rate": float("nan")}, ["t.rate", "a finite number"]),
        ({"on": 1}, ["t.on", "true or false"]),
        ({"mode": "recnt"}, ["t.mode", "did you mean 'recent'?"]),
        ({"names": 3}, ["t.names", "a list"]),
        ({"extra": 3}, ["t.extra", "a table"]),
        ({"maybe": "x"}, ["t.maybe", "a whole number"]),
    ],
)
def test_refusals_name_setting_value_and_what_is_allowed(table, words):
    with pytest.raises(ClaasbenchError) as error:
        config.build(Settings, table, "t")
    assert "\n" not in str(error.value)
    for word in words:
        assert word in str(error.value)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a.b=1", 1),
        ("a.b=1.5", 1.5),
        ("a.b=true", True),
        ('a.b="x y"', "x y"),
        ("a.b=plain", "plain"),
        ("a.b=[1,2]", [1, 2]),
    ],
)
def test_set_reads_toml_values_or_plain_text(text, value):
    tables = {}
    config.assign(tables, text)
    assert tables == {"a": {"b": value}}


@pytest.mark.parametrize("text", ["a.b", "=1", "a..b=1"])
def test_set_needs_a_key_and_a_value(text):
    with pytest.raises(ClaasbenchError, match="--set"):
        config.assign({}, text)


def test_set_into_a_value_is_refused():
    with pytest.raises(ClaasbenchError, match="is a value, not a table"):
        config.assign({"a": 1}, "a.b=1")


def test_digest_depends_on_every_value_and_not_on_order():
    assert config.digest({"a": 1, "b": 2}, {}) == config.digest({"b": 2, "a": 1}, {})
    assert config.digest({"a": 1}, {}) != config.digest({"a": 2}, {})
    assert config.digest({"a": 1}, {}) != config.digest({"a": 1}, {"x": 1})


def test_differing_names_the_keys():
    old, new = {"a": {"b": 1, "c": 2}, "d": 3}, {"a": {"b": 1, "c": 5}, "e": 4}
    assert config.differing(old, new) == ["a.c: 2 -> 5", "d: 3 -> None", "e: None -> 4"]


def test_a_broken_file_is_one_line(tmp_path):
    (tmp_path / "x.toml").write_text("a = = 1")
    with pytest.raises(ClaasbenchError, match="is no TOML"):
        config.read(tmp_path / "x.toml")
    with pytest.raises(ClaasbenchError, match="does not exist"):
        config.read(tmp_path / "y.toml")
