"""How answers are read: the last action word in square brackets, and the literal parser of the OEL reference."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from claasbench.scenarios._play import NO_ACTION, WORDS, last_literal, last_word

words = st.sampled_from(sorted(WORDS))
noise = st.text(alphabet=st.sampled_from("[]updownleftrightwasd UPDLR.,*()\n"), max_size=60)
plain = st.text(alphabet=st.characters(exclude_characters="[]"), max_size=30)
blanks = st.text(alphabet=" \t\n", max_size=3)


@pytest.mark.parametrize(
    ("text", "lenient", "literal"),
    [
        ("[right]", "right", "right"),
        ("[Right]", "right", None),
        ("[ right ]", "right", None),
        ("**[w]**", "w", "w"),
        ("[[right]]", "right", "right"),
        ("[up] then [down]", "down", "down"),
        ("[down] or [UP]", "up", "down"),
        ("[right, down]", None, None),
        ("(right) right", None, None),
        ("[upwards]", None, None),
        ("[w a]", None, None),
        ("", None, None),
        (NO_ACTION, None, None),
        ("<think>[a]</think> no idea", "a", "a"),
    ],
)
def test_cases(text, lenient, literal):
    assert last_word(text) == lenient
    assert last_literal(text) == literal


@given(noise)
def test_any_text_gives_a_known_word_or_none(text):
    for parse in (last_word, last_literal):
        assert parse(text) in {*WORDS, None}


@given(noise, words, plain, blanks, blanks, st.booleans())
def test_the_last_bracketed_word_wins(before, word, after, left, right, loud):
    written = word.upper() if loud else word
    assert last_word(f"{before}[{left}{written}{right}]{after}") == word


@given(noise, words, plain)
def test_the_last_literal_wins(before, word, after):
    assert last_literal(f"{before}[{word}]{after}") == word


@given(noise)
def test_the_literal_parser_equals_a_scan_from_the_end(text):
    found = re.findall(r"\[(up|down|left|right|[wasd])\]", text)
    assert last_literal(text) == (found[-1] if found else None)
    if found:
        assert last_word(text) is not None
