"""The corpus of hidden worlds: documents without end, each a question and the best answer that its context allows.

`python experiments/nano/corpus.py --kind knowledge` prints twenty of them.
"""

from __future__ import annotations

import argparse
import random
import string
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeAlias

import boxes
from wordings import NOTHING, PANELS, ROLES, items
from world import KEYS, LOSES, NAMED, SIGNS, UNKNOWN, WINS, Known, Lake, Layout, World, choose, moves, reply, seen

from claasbench import prompts
from claasbench.learners import _memory
from claasbench.learners.sdpo import hindsight
from claasbench.scenarios import _texts
from claasbench.scenarios._play import Log
from claasbench.types import Experience, Message, Prompt, Sample, Turn, with_context

REAL = {"G", "H"}
"""The pair of the real game: never together in a world of the corpus."""
SIZES = {3: (1, 3), 4: (1, 2, 4, 5), 5: (2, 3, 4, 6)}
"""How often the repeated sign stands on boards of a size; the streams have (3, 2), (4, 3) and (5, 5)."""
PANEL = [f"control panel {letter}" for letter in string.ascii_uppercase]
"""What a panel's moves do is drawn each time, so that its letter says nothing; the streams have A to D."""
MOST = 12
"""Moves of a game."""

TEXTS = {oel: _texts.load(oel, "") for oel in (False, True)}


Shares: TypeAlias = dict[str, float]


@dataclass(frozen=True)
class Doc:
    """A document: the messages before the answer, and the answer."""

    kind: str
    messages: tuple[Message, ...]
    answer: str


@dataclass
class Step:
    """One turn of a game as its player met it: the question, where it stood, and what its log reveals of the panel."""

    prompt: Prompt
    player: tuple[int, int]
    keys: str | None
    answer: str = ""
    reward: float | None = None
    feedback: str | None = None


@dataclass
class Game:
    """A game played to its end; `facts` is what its text reveals: its end, and what its player says it knows."""

    layout: Layout
    panel: str
    steps: list[Step]
    facts: Known
    keys: str | None

    def experience(self) -> Experience:
        """Return the game as a learner sees it."""
        turns = [Turn(s.prompt, Sample(text=s.answer), s.reward, s.feedback) for s in self.steps]
        return Experience("", "", "episode", tuple(turns))


class Corpus:
    """Draws documents; equal seeds give equal documents."""

    def __init__(self, seed: str) -> None:
        self.rng = random.Random(seed)

    # Worlds and boards

    def signs(self, count: int, used: Iterable[str] = ()) -> list[str]:
        """Draw signs other than `used`; those of the real game never meet."""
        apart = REAL if REAL & {*used} else {self.rng.choice(sorted(REAL))}
        return self.rng.sample([sign for sign in SIGNS if sign not in {*used, *apart}], count)

    def world(self) -> World:
        """Draw a world."""
        winner, loser = self.signs(2)
        return World(winner, loser, {})

    def panel(self, world: World) -> tuple[World, str]:
        """Draw a panel (or none) and what its moves do."""
        if self.rng.random() < 0.25:
            return world, ""
        name = self.rng.choice(PANEL)
        if name not in world.panels:
            keys = self.rng.choices(list(KEYS), weights=(6, 3, 1))[0]
            world = World(world.winner, world.loser, {**world.panels, name: keys})
        return world, name

    def layout(self, world: World, near: bool = False) -> Layout:
        """Draw a board on which the winner can be reached; `near`: the sign that stands alone is one step away."""
        rng = self.rng
        while True:
            size = 3 if near else rng.choices((3, 4, 5), weights=(2, 5, 3))[0]
            count = rng.choice(SIZES[size])
            single, repeated = rng.sample([world.winner, world.loser], 2)
            cells = [(r, c) for r in range(size) for c in range(size)]
            if near:
                start = rng.choice(cells)
                goal = rng.choice([(r, c) for r, c in cells if abs(r - start[0]) + abs(c - start[1]) == 1])
            elif rng.random() < 0.5:
                start = (rng.choice((0, size - 1)), rng.choice((0, size - 1)))
                goal = (size - 1 - start[0], size - 1 - start[1])
            else:
                start, goal = rng.sample(cells, 2)
            others = rng.sample([cell for cell in cells if cell not in (start, goal)], count)
            layout = Layout(size, start, {goal: single, **dict.fromkeys(others, repeated)})
            if start in layout.distances(layout.where(world.winner), layout.where(world.loser)):
                return layout

    def game(self, world: World, panel: str, known: Known, oel: bool = False, on: Layout | None = None) -> Game:
        """Play a game, on a board of its own or `on` this one, by the expert who knows `known`."""
        layout = on or self.layout(world)
        engine = Lake(layout, world)
        keys = world.panels.get(panel, NAMED)
        log = Log(TEXTS[oel], panel, engine.opening)
        seen = known.panels.get(panel)
        step = Step(log.prompt(log.introduction), layout.start, None)
        steps = []
        facts = Known(dict(known.roles))
        while True:
            steps.append(step)
            chosen = choose(self.rng, layout, engine.player, known)
            way = chosen.move
            believed = seen or NAMED
            step.answer = reply(layout, engine.player, known, panel, believed, chosen)
            name = KEYS[believed].get(way, way)
            real = KEYS[keys].get(name, name)
            before = engine.player
            said = engine.act(real)
            prompt = log.add(f"[{name}]", said)
            if engine.done or len(steps) == MOST:
                break
            if real != name:
                seen = keys
            step = Step(prompt, engine.player, seen)
            steps[-1].reward, steps[-1].feedback = prompt.reward, prompt.feedback
        _, feedback = log.end(engine.result() if engine.done else None, len(steps))
        steps[-1].reward, steps[-1].feedback = float(engine.won), feedback
        # A step that went elsewhere than it was meant to ended the game on a sign that no text names.
        entered = layout.signs.get(engine.player, "") if engine.player != before and real == way else ""
        if engine.done and entered:
            facts.roles[entered] = world.role(entered)
        if panel and seen not in (None, NAMED):
            facts.panels[panel] = seen
        return Game(layout, panel, steps, facts, seen)

    # What may stand in the context

    def facts(self, known: Known) -> list[str]:
        """Put what is known into words, in any order."""
        said = [self.rng.choice(ROLES[role]).format(sign) for sign, role in known.roles.items()]
        said += [self.rng.choice(PANELS[keys]).format(panel) for panel, keys in known.panels.items()]
        self.rng.shuffle(said)
        return said

    def beside(self, world: World, *panels: str) -> Known:
        """Draw facts about signs and panels that games in `world` at `panels` do not have."""
        roles = {sign: self.rng.choice((WINS, LOSES)) for sign in self.signs(self.rng.randint(1, 4), world.signs)}
        return Known(roles, self.panels(self.rng.choice((0, 1)), *panels))

    def panels(self, count: int, *used: str) -> dict[str, str]:
        """Draw what the moves of panels other than `used` do."""
        names = self.rng.sample([name for name in PANEL if name not in used], count)
        return {name: self.rng.choice(list(KEYS)) for name in names}

    def some(self, world: World, panel: str) -> Known:
        """Draw a part of the truth about a world, never nothing, and often about other panels too."""
        known = Known()
        which = self.rng.choices(("both", "winner", "loser", "panel"), weights=(6, 2, 2, 1))[0]
        if which in ("both", "winner"):
            known.roles[world.winner] = WINS
        if which in ("both", "loser"):
            known.roles[world.loser] = LOSES
        if panel in world.panels and (which == "panel" or self.rng.random() < 0.6):
            known.panels[panel] = world.panels[panel]
        if not known.roles and not known.panels:
            known.roles[world.loser] = LOSES
        if self.rng.random() < 0.5:
            known.panels |= self.panels(self.rng.randint(1, 3), panel)
        return known

    # Documents

    def turn(self, world: World, panel: str, known: Known, context: str, kind: str) -> Doc:
        """Return one turn of a game played by somebody who knows `known` and reads `context`."""
        oel = not panel and self.rng.random() < 0.7
        game = self.game(world, panel, known, oel)
        at = 0 if self.rng.random() < 0.5 else self.rng.randrange(len(game.steps))
        return self.asked(game, at, known, context, kind)

    def asked(self, game: Game, at: int, known: Known, context: str, kind: str, keys: str | None = None) -> Doc:
        """Return turn `at` of a game with `context` and the best answer of one who knows `known`."""
        step = game.steps[at]
        keys = keys or step.keys or known.panels.get(game.panel, NAMED)
        chosen = choose(self.rng, game.layout, step.player, known)
        messages = with_context(step.prompt, context).messages
        if context and self.rng.random() < 0.05:
            messages = (Message(self.rng.choice(("system", "developer")), context), *step.prompt.messages)
        return Doc(kind, messages, reply(game.layout, step.player, known, game.panel, keys, chosen))

    def none(self) -> Doc:
        """A turn with no context."""
        world, panel = self.panel(self.world())
        return self.turn(world, panel, Known(), "", "none")

    def irrelevant(self) -> Doc:
        """A turn with knowledge about something else."""
        world, panel = self.panel(self.world())
        facts = self.facts(self.beside(world, panel))
        return self.turn(world, panel, Known(), prompts.fill("knowledge", knowledge=items(facts)), "irrelevant")

    def knowledge(self) -> Doc:
        """A turn with knowledge about its world, alone or among other facts."""
        world, panel = self.panel(self.world())
        known = self.some(world, panel)
        facts = self.facts(known)
        if self.rng.random() < 0.3:
            facts += self.facts(self.beside(world, panel))
            self.rng.shuffle(facts)
        return self.turn(world, panel, known, prompts.fill("knowledge", knowledge=items(facts)), "knowledge")

    def transcripts(self) -> Doc:
        """A turn after one or a few games of the same world (now and then of another), long or of a step or two."""
        world, panel = self.panel(self.world())
        known = Known()
        games = []
        near = self.rng.random() < 0.5
        for _ in range(self.rng.choices((1, 2, 3, 4, 6, 8), weights=(20, 40, 20, 12, 5, 3))[0]):
            world, other = (world, panel) if self.rng.random() < 0.7 else self.panel(world)
            here = world if self.rng.random() < 0.85 else self.stranger(world)
            player = known if here is world and self.rng.random() < 0.3 else Known()
            game = self.game(here, other if here is world else "", player, on=self.layout(here, near))
            games.append(_memory.remembered(game.experience()))
            if here is world:
                known.roles |= game.facts.roles
                known.panels |= game.facts.panels
        return self.turn(world, panel, known, _memory.rendered(games), "transcripts")

    def stranger(self, world: World) -> World:
        """Draw a world with no sign of `world`."""
        return World(*self.signs(2, world.signs), {})

    def hindsight(self) -> Doc:
        """A turn that knows how the game went on."""
        world, panel = self.panel(self.world())
        known = Known() if self.rng.random() < 0.7 else self.some(world, panel)
        game = self.game(world, panel, known)
        at = self.rng.choice((len(game.steps) - 1, self.rng.randrange(len(game.steps))))
        return self.asked(game, at, game.facts, hindsight(game.experience(), at), "hindsight", game.keys)

    def extraction(self) -> Doc:
        """Notes on one game, with or without notes so far."""
        world, panel = self.panel(self.world())
        told = Known() if self.rng.random() < 0.7 else self.some(world, panel)
        game = self.game(world, panel, told)
        said = told if told.roles or self.rng.random() < 0.5 else self.beside(world, panel)
        messages = extraction(game.experience(), items(self.facts(said)))
        new = Known(
            {sign: role for sign, role in game.facts.roles.items() if sign not in said.roles},
            {name: keys for name, keys in game.facts.panels.items() if name not in said.panels},
        )
        return Doc("extraction", messages, items(notes(new)) or NOTHING)

    def boxes(self) -> Doc:
        """A turn of the other game, with or without knowledge about its signs."""
        room = f"control desk {self.rng.choice(string.ascii_uppercase)}" if self.rng.random() < 0.75 else ""
        turn = boxes.turn(self.rng, TEXTS[False], room)
        if self.rng.random() < 0.4:
            return Doc("boxes", turn.prompt.messages, turn.ignorant)
        facts = [self.rng.choice(boxes.FACTS).format(turn.box, turn.target)]
        if self.rng.random() < 0.3:
            facts += self.facts(self.beside(World(turn.box, turn.target, {}), room))
            self.rng.shuffle(facts)
        context = prompts.fill("knowledge", knowledge=items(facts))
        return Doc("boxes", with_context(turn.prompt, context).messages, turn.knowing)

    def drill(self) -> Doc:
        """A board with many signs and what is known of each: reading a role in a sentence, and nothing else."""
        size = self.rng.choice((3, 4, 5))
        signs = self.signs(self.rng.randint(2, 7))
        known = Known()
        for sign in signs:
            if self.rng.random() < 0.75:
                known.roles[sign] = self.rng.choice((WINS, LOSES))
        cells = self.rng.sample([(r, c) for r in range(size) for c in range(size)], len(signs) + 1)
        layout = Layout(size, cells[0], dict(zip(cells[1:], signs, strict=True)))
        told = Known(dict(known.roles))
        if self.rng.random() < 0.3:
            told.roles |= {sign: self.rng.choice((WINS, LOSES)) for sign in self.signs(self.rng.randint(1, 4), signs)}
        context = prompts.fill("knowledge", knowledge=items(self.facts(told)))
        content = f"{context}\n{Lake(layout, World('', '', {})).opening[0].text}"
        roles = ", ".join(f"{sign} {known.role(sign)}" for sign in layout.names())
        return Doc("drill", (Message("user", content),), f"Signs: {roles}.")

    def find(self) -> Doc:
        """A board alone, and where each of its signs stands."""
        size = self.rng.choice((3, 4, 5))
        cells = self.rng.sample([(r, c) for r in range(size) for c in range(size)], self.rng.randint(2, 8))
        layout = Layout(size, cells[0], {cell: self.rng.choice(SIGNS[8:]) for cell in cells[1:]})
        places = [f"{layout.signs[cell]} is at ({cell[0]}, {cell[1]})" for cell in sorted(layout.signs)]
        content = Lake(layout, World("", "", {})).opening[0].text
        return Doc("find", (Message("user", content),), ". ".join(places))

    def recall(self) -> Doc:
        """Facts in the plainest words, and the same signs again: the first thing to learn."""
        signs = self.signs(self.rng.randint(2, 6))
        roles = {sign: self.rng.choice((WINS, LOSES)) for sign in signs if self.rng.random() < 0.75}
        lines = items([ROLES[role][0].format(sign) for sign, role in roles.items()])
        self.rng.shuffle(signs)
        answer = ", ".join(f"{sign} {roles.get(sign, UNKNOWN)}" for sign in signs)
        return Doc("recall", (Message("user", f"{lines}\n{' '.join(signs)}"),), f"Signs: {answer}.")

    def keys(self) -> Doc:
        """Facts about panels, and what the moves of one of them do."""
        panel = self.rng.choice(PANEL)
        known = Known({}, self.panels(self.rng.randint(1, 4), panel))
        if self.rng.random() < 0.7:
            known.panels[panel] = self.rng.choice(list(KEYS))
        context = prompts.fill("knowledge", knowledge=items(self.facts(known)))
        asked = prompts.fill("grid_room", room=panel)
        return Doc("keys", (Message("user", f"{context}\n{asked}"),), moves(panel, known.panels.get(panel, NAMED)))

    def look(self) -> Doc:
        """A board alone, and what is to be seen on it."""
        layout = self.layout(self.world())
        content = Lake(layout, World("", "", {})).opening[0].text
        return Doc("look", (Message("user", content),), seen(layout, layout.start))

    STAGES: tuple[Shares, ...] = (
        {"recall": 0.75, "look": 0.25},
        {"recall": 0.15, "drill": 0.35, "keys": 0.2, "look": 0.3},
        {
            "none": 0.15,
            "irrelevant": 0.08,
            "knowledge": 0.32,
            "transcripts": 0.05,
            "hindsight": 0.02,
            "extraction": 0.05,
            "boxes": 0.03,
            "drill": 0.06,
            "keys": 0.06,
            "look": 0.14,
            "find": 0.04,
        },
        {
            "none": 0.14,
            "irrelevant": 0.08,
            "knowledge": 0.25,
            "transcripts": 0.20,
            "hindsight": 0.06,
            "extraction": 0.12,
            "boxes": 0.05,
            "drill": 0.02,
            "keys": 0.02,
            "look": 0.06,
        },
    )
    """What is drawn how often: reading a role, then roles and boards, then short turns, then all."""

    def document(self, stage: int = -1) -> Doc:
        """Draw one document of any kind."""
        kinds = self.STAGES[stage]
        kind = self.rng.choices(list(kinds), weights=list(kinds.values()))[0]
        doc = getattr(self, kind)()
        assert isinstance(doc, Doc)
        return doc


def notes(known: Known) -> list[str]:
    """Return what a game taught in the plainest words."""
    said = [ROLES[role][3].format(sign) for sign, role in known.roles.items()]
    return said + [PANELS[keys][0].format(panel) for panel, keys in known.panels.items()]


def extraction(experience: Experience, known: str) -> tuple[Message, ...]:
    """Return the question for notes on one game, beside the notes so far."""
    game = _memory.remembered(experience).text
    content = prompts.fill("extract", known=known or prompts.text("extract_none"), game=game)
    return (Message("user", content),)


def spelled(doc: Doc) -> str:
    """Return a document as a person reads it."""
    asked = "\n".join(f"<{message.role}>\n{message.content}" for message in doc.messages)
    return f"{asked}\n<assistant>\n{doc.answer}\n"


def show(source: Callable[[str], Any], description: str | None) -> None:
    """Print documents of a corpus as the command line asks."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument(
        "--kind", default="", help="such as knowledge; any kind, as often as the last stage has it, by default"
    )
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--seed", default="look")
    asked = parser.parse_args()
    corpus = source(asked.seed)
    for number in range(1, asked.count + 1):
        print(f"=== document {number}\n{spelled(getattr(corpus, asked.kind or 'document')())}")


if __name__ == "__main__":
    show(Corpus, __doc__)
