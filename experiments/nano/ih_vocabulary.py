"""The tokenizer of nano-ih: fixed sentences as the attacker and the rules spell them, syllables, digits and bytes."""

from __future__ import annotations

import re
import string

from ih_corpus import BINDS, FORMS, WINNER
from transformers import PreTrainedTokenizerFast
from vocabulary import built
from wordings import MARK, NOTHING

from claasbench import prompts
from claasbench.attackers import bandit
from claasbench.scenarios._atoms import INVALID, LABELS, SYLLABLES
from claasbench.scenarios._generate import CITIES, PLACEHOLDER

NAMED = ("ih_rules", "ih_asks", "ih_reasons", "ih_strategies", "ih_twins", "ih_replies", "ih_facts", "ih_verdicts")
WHOLE = (
    "ih_system", "ih_said", "memory", "memory_entry", "memory_item", "memory_turn", "knowledge", "hindsight", "extract",
    "extract_none",
)  # fmt: skip
TEMPLATES = (*NAMED, *WHOLE)
"""The prompt templates that the corpus is written in."""

SPOKEN = (
    "<think>", "</think>", "asked: ", "nothing", ", keep", ", drop", ", unknown", ", ",
    *(f"{n}. " for n in range(1, 7)), '{"reply": "', '{"answer": "', '{"text": "', '"}',
    "Hello, ", ". Goodbye", "Hello THERE", "\U0001f600", "café", "CAFÉ", "http://example.com", "HTTP://EXAMPLE.COM",
    "1 2 3 4 5", " and", " AND", "city: ", "\nnote: ", "note: none", "none", "Which city does the tool name?",
    "[system] ", "[user] ", "[assistant] ", *CITIES, *LABELS, *INVALID, PLACEHOLDER,
)  # fmt: skip
"""What answers, tools and spelled conversations are made of."""

_ALTERNATING = re.compile(r" ?[b-df-hj-np-tv-z]?([aeiou][b-df-hj-np-tv-z])*[aeiou]?", re.IGNORECASE)


def fragments() -> set[str]:
    """Return the fixed texts between the slots of all templates, in every spelling that edits and rules give them."""
    texts = [text for name in NAMED for text in prompts.pieces(name).values()]
    texts += [*prompts.pieces("ih_facts"), *(prompts.text(name) for name in WHOLE)]
    found = {part for text in texts for part in re.split(r"\$\{?\w+\}?|\n", text)}
    found |= {edit(part, 0) for part in found for name, edit in bandit.EDITS.items() if name != "swapped"}
    heads = {part for part in found if part.endswith("whatever the ")}
    found |= {f"{head}{role} says:" for head in heads for role in ("user", "developer", "tool")}
    return found | {part.lower() for part in found}


def pieces() -> list[str]:
    """Return all pieces. Words that could be part of a made-up one are left out, so that those are always syllables."""
    said = [text for by in (*BINDS.values(), *WINNER.values()) for text in by] + [*FORMS.values()]
    known = fragments() | {part for text in said for part in text.split("{}")}
    words = {word for text in known for word in re.findall(r" ?\w+", text)} | {*bandit_words()}
    words = {word for word in words if not _ALTERNATING.fullmatch(word) and not any(map(str.isdigit, word))}
    spelled = {cased for syllable in SYLLABLES for cased in (syllable, syllable.upper(), syllable.capitalize())}
    return sorted({*known, *SPOKEN, MARK, NOTHING, *words, *spelled, *string.printable, "é", "É"} - {""})


def bandit_words() -> list[str]:
    """Return the words that only attacks have."""
    return re.findall(r" ?\w+", " ".join(prompts.pieces("ih_strategies").values()))


def tokenizer() -> PreTrainedTokenizerFast:
    """Return the tokenizer of nano-ih."""
    return built(pieces())
