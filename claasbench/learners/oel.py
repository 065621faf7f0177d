"""OEL: write down what games taught, then distil the policy that reads it into the policy that does not.

Paper: Online Experiential Learning (arXiv 2603.16856), code microsoft/LMOps/oel. A round is a split. Its first games
are read for knowledge, `accumulations` times over with other draws. The turns of the others are prefixes, each answered
anew by the student; the teacher (the weights at the start of the round, with one of the texts in context) tells it
where it differs: reverse KL over the student's likeliest ids. Departures: each game is played once and all
accumulations read the same games; a step draws its prefixes from the whole round instead of from 64 games of its own;
exact token mean; float32 logits.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal

from claasbench import draws, prompts
from claasbench.errors import ClaasbenchError, invalid
from claasbench.learners._knowledge import Item, Knowing, found, informed, newest
from claasbench.learners._memory import remembered
from claasbench.learners._trained import Trained
from claasbench.learners.base import nano, nano_ih
from claasbench.policies.base import Policy
from claasbench.types import LEARNER, Experience, Key, Message, Prompt, Request, Row, Sample, Sampling, Slot, Update

EXTRACT = Sampling(temperature=0.7, top_p=0.8, top_k=20, max_tokens=1024)
CONSOLIDATE = Sampling(temperature=0.7, max_tokens=1024)
"""As in the paper's code."""

NANO: Mapping[str, Any] = {
    "tune": "full",
    "games": 8,
    "accumulations": 2,
    "knowledge_tokens": 512,
    "steps": 10,
    "prefixes": 16,
    "extract": {"temperature": 0.7, "top_p": 0.8, "top_k": 20, "max_tokens": 64},
    "consolidate": {"temperature": 1.0, "max_tokens": 64},
}


@dataclass
class Oel(Trained):
    """Extracts knowledge at the end of a split and consolidates it into the weights."""

    games: int = 25
    """Games at the start of a split that are read for knowledge; the others give prefixes."""
    accumulations: int = 10
    """How many texts are written, each from the same games with other draws."""
    items: bool = True
    """Whether knowledge is a list of marked items; otherwise the extractor's whole answer counts."""
    show_previous: bool = True
    """Whether the extractor sees what it wrote about earlier games of the round."""
    knowledge_tokens: int = 8192
    """Most tokens of a text; the oldest items leave first."""
    source: Literal["knowledge", "raw"] = "knowledge"
    """What the teacher reads: extracted knowledge, or the newest games themselves, of those that fit."""
    on_policy: bool = True
    """Whether the student answers the prefixes; otherwise the teacher does, with knowledge."""
    teacher: Literal["round", "untrained"] = "round"
    """Whose weights the teacher has: those at the start of the round, or those before any training."""
    divergence: Literal["reverse", "forward"] = "reverse"
    """reverse: KL(student to teacher); forward: KL(teacher to student)."""
    top_k: int = 256
    """The student's likeliest ids that are compared; the rest is left aside, as in the paper's code."""
    steps: int = 20
    """Updates of a round."""
    prefixes: int = 64
    """Prefixes answered for one update."""
    in_context: bool = True
    """Whether the round-start weights with knowledge in context are measured beside the trained ones."""
    extract: Sampling = EXTRACT
    """How the extractor's answers are drawn."""
    consolidate: Sampling = CONSOLIDATE
    """How answers to prefixes are drawn."""

    seats: ClassVar[tuple[str, ...]] = ("extractor",)
    sees: ClassVar[str] = "reward, feedback, text"
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "paper": {},
        "nano": nano("oel", **NANO, lr=3e-5),
        "nano-ih": nano_ih("oel", **{**NANO, "steps": 20}, lr=3e-5),
    }
    told: list[str] = field(default_factory=list, init=False)
    """The games of the round that are read, as text."""
    turns: list[Prompt] = field(default_factory=list, init=False)
    """The prompts of the other games."""
    written: list[list[Item]] = field(default_factory=list, init=False)
    """The items of each accumulation."""
    played: int = field(default=0, init=False)
    read: int = field(default=0, init=False)
    stepped: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        """Refuse settings out of range."""
        super().__post_init__()
        self.at_least(1, "games", "accumulations", "knowledge_tokens", "top_k", "steps", "prefixes")
        if self.consolidate.temperature == 0 or self.consolidate.top_p < 1 or self.consolidate.top_k:
            raise invalid("learner.consolidate", self.consolidate, "temperature above 0, top_p 1, top_k 0")

    def setup(self, seats: Mapping[str, Policy], seed: int) -> None:
        """Open a trainer; the policy reads its own games unless seats.extractor names a model."""
        super().setup(seats, seed)
        self.extractor = seats.get("extractor", self.policy)

    def observe(self, experiences: Sequence[Experience]) -> Iterator[Update]:
        """Keep the first games of a round as text and the turns of the others as prefixes."""
        if self.stepped:  # the round before has ended
            self.told, self.turns, self.written = [], [], []
            self.played = self.read = self.stepped = 0
        for experience in experiences:
            if experience.turns and self.played < self.games:
                self.told.append(remembered(experience).text)
            else:
                self.turns += [turn.prompt for turn in experience.turns]
            self.played += 1
        yield Update("kept", {"games": len(self.told), "prefixes": len(self.turns)})

    def end_split(self, name: str) -> Iterator[Update]:
        """Read the games one after the other, then take the steps; each is one unit."""
        if not self.turns:
            raise ClaasbenchError(
                f"learner.games = {self.games!r} leaves none of the {self.played} games of a split for prefixes"
            )
        while self.source == "knowledge" and self.read < len(self.told):
            yield Update("extract", self._extract(name))
        if not self.stepped and not self.read_texts():
            raise ClaasbenchError(f"no knowledge was extracted from the {len(self.told)} games of split {name!r}")
        while self.stepped < self.steps:
            if not self.stepped and (self.teacher == "round" or not self.trainer.weights.teaching):
                self.trainer.weights.copy()
            yield Update("step", self._consolidate(name))

    def read_texts(self) -> list[str]:
        """Return the texts the teacher reads, empty ones left out."""
        if self.source == "raw":
            texts = [newest([game for game in self.told if self._fits(game)], self._fits)]
        else:
            texts = [newest([item.text for item in items], self._fits) for items in self.written]
        return [text for text in texts if text]

    def _fits(self, text: str) -> bool:
        return self.policy.count([Message("user", text)]) <= self.knowledge_tokens

    def _extract(self, name: str) -> dict[str, float]:
        """Let every accumulation read the next game."""
        self.written = self.written or [[] for _ in range(self.accumulations)]
        asked = []
        for k, items in enumerate(self.written):
            known = newest([item.text for item in items], self._fits) if self.show_previous else ""
            text = prompts.fill("extract", known=known or prompts.text("extract_none"), game=self.told[self.read])
            key = Key(f"extract/{name}/{k}", 0, LEARNER, self.read)
            asked.append(self._request(key, Prompt((Message("user", text),)), self.extract))
        samples = self._answers(self.extractor, asked)
        for items, sample in zip(self.written, samples, strict=True):
            items += [Item(text, name, self.read) for text in found(sample.text, self.items)]
        self.read += 1
        return {
            "game": self.read,
            "items": sum(map(len, self.written)),
            "cut": sum(sample.finish == "length" for sample in samples),
        }

    def _consolidate(self, name: str) -> dict[str, float]:
        """Answer one batch of prefixes and take a step towards the teacher."""
        from claasbench.training.losses import Distillation

        texts = self.read_texts()
        order = draws.shuffled(range(len(self.turns)), "prefixes", self.seed, name, self.stepped)
        chosen = [self.turns[at] for at in order[: self.prefixes]]
        asked, told = [], []
        for n, prompt in enumerate(chosen):
            text = draws.choice(texts, "text", self.seed, name, self.stepped, n)
            told.append(informed(prompt, text, "oel"))
            key = Key(f"consolidate/{name}/{n}", 0, LEARNER, self.stepped)
            asked.append(self._request(key, prompt if self.on_policy else told[-1], self.consolidate))
        samples = self._answers(self.policy if self.on_policy else self.policy.at("teacher"), asked)
        rows = [
            Row(
                self.policy.render(prompt.messages),
                sample.token_ids or (),
                self.policy.render(known.messages),
                temperature=self.consolidate.temperature,
            )
            for prompt, known, sample in zip(chosen, told, samples, strict=True)
            if sample.token_ids
        ]
        rows = [row for row in rows if len(row.context_ids or ()) + len(row.token_ids) <= self.trainer.limit]
        if not rows:
            raise ClaasbenchError(f"learner.knowledge_tokens = {self.knowledge_tokens!r} leaves no room for a prompt")
        alpha = 1.0 if self.divergence == "reverse" else 0.0
        metrics = self.trainer.step(rows, [Distillation(alpha, self.top_k, "raw", cap=0.0)])
        self.stepped += 1
        self.trainer.publish()
        return metrics | {"reply_tokens": sum(len(row.token_ids) for row in rows) / len(rows), "rows": len(rows)}

    def _request(self, key: Key, prompt: Prompt, sampling: Sampling) -> Request:
        return Request(key, prompt, draws.seed("oel", self.seed, *key), sampling)

    def _answers(self, policy: Policy, asked: Sequence[Request]) -> list[Sample]:
        samples = policy.sample(asked)
        policy.close([request.key for request in asked])
        return samples

    def variants(self) -> dict[str, Policy]:
        """Return the trained policy, and the one of the round's start with knowledge in its context."""
        texts = self.read_texts() if self.in_context and self.stepped else []
        known = {"in-context": Knowing(self.policy.at("teacher"), texts)} if texts else {}
        return {LEARNER: self.policy, **known}

    def save(self, folder: Path) -> None:
        """Write the weights, and the round so far as JSON."""
        super().save(folder)
        state = {
            "told": self.told,
            "turns": [[prompt.messages, prompt.slot] for prompt in self.turns],
            "written": [[asdict(item) for item in items] for items in self.written],
            "counts": [self.played, self.read, self.stepped],
        }
        (folder / "round.json").write_text(json.dumps(state) + "\n")

    def load(self, folder: Path) -> None:
        """Restore what save wrote."""
        super().load(folder)
        state = json.loads((folder / "round.json").read_text())
        self.told = state["told"]
        self.turns = [
            Prompt(tuple(Message(*message) for message in messages), Slot(*slot) if slot else None)
            for messages, slot in state["turns"]
        ]
        self.written = [[Item(**item) for item in items] for items in state["written"]]
        self.played, self.read, self.stepped = state["counts"]

    def notes(self) -> str:
        """Return the texts the teacher read."""
        texts = self.read_texts()
        parts = [f"## Text {number} of {len(texts)}\n\n{text}\n" for number, text in enumerate(texts, 1)]
        return "# Knowledge\n\n" + "\n".join(parts) if parts else ""
