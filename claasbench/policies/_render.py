"""How messages become token ids: one template, control strings made harmless, and exactly one BOS."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from jinja2 import TemplateError

from claasbench.models import Loaded, refused
from claasbench.types import Message

PROBE = (
    Message("system", "Probesystem"),
    Message("user", "Probequestion"),
    Message("assistant", "Probeanswer"),
    Message("user", "Probereply"),
)
"""Four messages whose texts must all survive the template."""

MARK = re.compile(r"<[^<>\s]+>|\[/?[A-Z_]+\]")
"""What a role marker looks like where a template writes it in ordinary tokens (`<|user|>`, `[INST]`)."""


class Renderer:
    """Renders with one tokenizer, its chat template and that template's arguments (`enable_thinking` and the like).

    Control strings are the special tokens, the added tokens the template names, and the markers it writes. In every
    content each gets a space after its first character (`<|im_end|>` becomes `< |im_end|>`): people can see it, and
    it no longer is that token.
    """

    def __init__(self, loaded: Loaded, arguments: Mapping[str, Any]) -> None:
        self.name = loaded.name
        self.tokenizer = loaded.tokenizer
        self.arguments = dict(arguments)
        self.control: re.Pattern[str] | None = None
        if not self.tokenizer.chat_template:
            raise refused(self.name, "its tokenizer has no chat template")
        self.control = self._control(self._checked())
        encoded = self.tokenizer("x").input_ids
        self.bos: int | None = self.tokenizer.bos_token_id
        self.adds_bos = self.bos is not None and encoded[0] == self.bos

    def ids(self, messages: Sequence[Message]) -> tuple[int, ...]:
        """Return the prompt ids of `messages` up to where the answer begins; ClaasbenchError if the template raises."""
        ids: list[int] = self.tokenizer(self.text(messages), add_special_tokens=False).input_ids
        leading = next((at for at, token in enumerate(ids) if token != self.bos), len(ids))
        if self.bos is not None and (leading > 1 or (self.adds_bos and leading == 0)):
            return (self.bos, *ids[leading:])
        return tuple(ids)

    def text(self, messages: Sequence[Message]) -> str:
        """Return the text that `ids` encodes."""
        chat = [{"role": message.role, "content": self.escape(message.content)} for message in messages]
        try:
            rendered: str = self.tokenizer.apply_chat_template(
                chat, tokenize=False, add_generation_prompt=True, **self.arguments
            )
        except TemplateError as error:
            roles = ", ".join(message.role for message in messages)
            raise refused(self.name, f"its chat template refuses the roles {roles} ({error})") from None
        for said in chat:  # templates may cut thinking from earlier answers, nothing else
            if said["role"] != "assistant" and said["content"].strip() not in rendered:
                raise refused(self.name, f"its chat template drops the {said['role']} message")
        return rendered

    def escape(self, content: str) -> str:
        """Return `content` with no control string left in it."""
        if self.control is None:
            return content
        before = ""
        while content != before:  # breaking one string can uncover a shorter one inside it
            before, content = content, self.control.sub(lambda found: f"{found[0][0]} {found[0][1:]}", content)
        return content

    def _checked(self) -> str:
        """Return the rendered probe; refuse a template that loses one of its texts."""
        text = self.text(PROBE)
        if PROBE[2].content not in text:
            raise refused(self.name, f"its chat template drops the {PROBE[2].role} message")
        return text

    def _control(self, probe: str) -> re.Pattern[str]:
        added = self.tokenizer.added_tokens_decoder.values()
        named = {token.content for token in added if token.special or token.content in self.tokenizer.chat_template}
        strings = {*named, *self.tokenizer.all_special_tokens, *MARK.findall(probe)}
        # Longest first, so that of two strings that start alike the whole longer one is broken; a line break or a
        # single character that some tokenizers add is text, not control.
        usable = sorted(text for text in strings if len(text) > 1 and text.strip())
        return re.compile("|".join(map(re.escape, sorted(usable, key=len, reverse=True))) or r"(?!)")
