"""The tokenizer of nano-grid: fixed sentences, words, letters and bytes; one token per board cell, digit and sign."""

from __future__ import annotations

import re
import string
from collections.abc import Sequence
from itertools import pairwise

import boxes
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers
from transformers import PreTrainedTokenizerFast
from wordings import HELD_OUT, MARK, NOTHING, PANELS, ROLES
from world import ACTIONS, INVALID, KEYS, WALL

from claasbench import prompts

TEMPLATES = (
    "grid_budget", "grid_goal", "grid_invalid", "grid_lost", "grid_prompt", "grid_room",
    "grid_oel_budget", "grid_oel_goal", "grid_oel_lost", "grid_oel_prompt",
    "memory", "memory_entry", "memory_item", "memory_turn",
    "knowledge", "hindsight", "extract", "extract_none",
)  # fmt: skip
"""The prompt templates that the corpus is written in."""

PAD, END = "<|pad|>", "<|end|>"
ROLE_TOKENS = [f"<|{role}|>" for role in ("system", "developer", "user", "assistant")]
TEMPLATE = (
    "{%- for message in messages -%}"
    "{%- if message.role not in ['system', 'developer', 'user', 'assistant'] -%}"
    "{{- raise_exception('unknown role ' + message.role) -}}"
    "{%- endif -%}"
    "{{- '<|' + message.role + '|>' + message.content + '<|end|>' -}}"
    "{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{- '<|assistant|>' -}}{%- endif -%}"
)

ANSWER = (
    "I am at (", ", ", "). Around me: up ", ", down ", ", left ", ", right ", ". Signs: ", "Signs: ",
    " wins", " loses", " unknown", " moves", ". ", " is at (", "): ", ". Moves: ",
    "Moves at control panel ", "Moves at control desk ", ": ", ". I step ", " onto ", ": [",
    "up", "down", "left", "right", "edge", "floor", "wall", "here", *KEYS,
)  # fmt: skip
"""What our answers are made of."""

ENGINE = (
    "[GAME] ", "Current Board:", ACTIONS, "You moved ", "You tried to move ", " but hit a wall!",
    " to position (", ").",
    *INVALID.split("{reason}"), *WALL.split("{move}"), "Invalid Move: ",
    "You fell into a hole! Game over. You completed ", "% of the journey to the goal.",
    "Congratulations! You reached the goal!",
    "Invalid action format. Use [up], [down], [left], [right] or [w], [a], [s], [d].",
    "[Player] [", "[no action]", "]", "[",
    "Available Moves: up, down, left, right", "You  moved [", "You pushed a box while moved [", "].",
    "You cannot move into a wall!", "Congratulations! You have solved the Sokoban puzzle!",
    "The submitted move does not follow the correct format. Use [up], [down], [left], [right] or [w], [a], [s], [d].",
    "You stand at control panel ", "You stand at control desk ", "control panel ", "control desk ",
)  # fmt: skip
"""What the engines say, and how a log shows an answer."""

CELL = "[A-Z_#√]"
NUMBERS = "⁰¹²³⁴⁵⁶⁷"
LAYOUT = (
    (r"\+(-----\+)+\n?", ""),  # the rules of a board
    (r"\|     (?=\|)", "_"),  # an empty cell
    (r"\|  (?=[A-Z]  [|_])", ""),  # the left half of a cell with a sign
    (r"(?<=[A-Z])  (?=[A-Z_|])", ""),  # the right half
    (r"(?<=[A-Z_])\|(?=\n|$)", ""),  # the end of a row
    (rf"(?<={CELL}) (?={CELL}( |\n|$))", ""),  # cells of the other game
    (rf"(?<=Current Board:)\n\n(?={CELL}{{3,8}}\n)", NUMBERS[0]),
    *((rf"{before}{CELL}{{3,8}}\K\n(?={CELL}{{3,8}}(\n|$))", after) for before, after in pairwise(NUMBERS)),
)
"""What is read as one token per cell; a row begins with its number, and the frames are not read at all."""


def pieces() -> list[str]:
    """Return all pieces: sentences of templates, engines and answers; their words; single characters."""
    texts = [prompts.text(name) for name in TEMPLATES]
    fragments = {part for text in texts for part in re.split(r"\$\{?\w+\}?|\n", text)}
    said = [text for by in (ROLES, PANELS, HELD_OUT) for wordings in by.values() for text in wordings] + [*boxes.FACTS]
    fragments |= {part for text in said for part in re.split(r"\{\d?\}", text)}
    words = {word for text in fragments for word in re.findall(r" ?\w+", text)}
    singles = {*string.printable, "√", *NUMBERS}
    return sorted({*fragments, *ANSWER, *ENGINE, MARK, NOTHING, *words, *singles} - {""})


def tokenizer() -> PreTrainedTokenizerFast:
    """Return the tokenizer of nano-grid."""
    return built(pieces(), LAYOUT)


def built(known: Sequence[str], layout: Sequence[tuple[str, str]] = ()) -> PreTrainedTokenizerFast:
    """Return a tokenizer that cuts text into as few `known` pieces as possible, unknown characters into bytes."""
    special = [PAD, END, *ROLE_TOKENS]
    inside = [f"<0x{byte:02X}>" for byte in range(256)]
    core = Tokenizer(models.Unigram([(piece, -1.0) for piece in [*special, *inside, *known]], 0, byte_fallback=True))
    if layout:
        core.normalizer = normalizers.Sequence([normalizers.Replace(Regex(pattern), to) for pattern, to in layout])
    core.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Fuse()])
    core.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in special])
    wrapped = PreTrainedTokenizerFast(
        tokenizer_object=core, pad_token=PAD, eos_token=END, clean_up_tokenization_spaces=False, padding_side="left"
    )
    wrapped.chat_template = TEMPLATE
    return wrapped
