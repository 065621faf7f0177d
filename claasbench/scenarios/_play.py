"""One episode of a grid game: what the model sees, how its answer is read, and how the game ends."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from claasbench.errors import ClaasbenchError
from claasbench.scenarios import _solve
from claasbench.scenarios._engine import Engine, Line, Result, board
from claasbench.scenarios._manifest import board_hash
from claasbench.scenarios._texts import Texts
from claasbench.types import Json, Message, Outcome, Play, Prompt, Slot, Task

WORDS = {
    "up": "up", "down": "down", "left": "left", "right": "right",
    "w": "up", "s": "down", "a": "left", "d": "right",
}  # fmt: skip
"""Every word that names an action, and the action."""

ACTIONS = tuple(f"[{action}]" for action in _solve.STEPS)
NO_ACTION = "[no action]"
"""What is sent where an answer holds no action; both engines reject it."""

_BRACKETS = re.compile(rf"\[\s*({'|'.join(WORDS)})\s*\]", re.IGNORECASE)


def last_word(text: str) -> str | None:
    """Return the last action word in square brackets, in lower case; blanks and capitals do not matter."""
    found = _BRACKETS.findall(text)
    return found[-1].lower() if found else None


def last_literal(text: str) -> str | None:
    """Return the action word whose lower-case literal `[word]` comes last, as the OEL reference reads answers."""
    places = {word: text.rfind(f"[{word}]") for word in WORDS}
    word = max(places, key=places.__getitem__)
    return word if places[word] >= 0 else None


def episode(task: Task, texts: Texts) -> Play:
    """Play `task`: one user message per call, until the game ends or its calls are used up."""
    game = _Game(task, texts)
    prompt = game.first()
    for _ in range(task.data["calls"]):
        sample = yield prompt
        prompt = game.answer(sample.text)
        if game.engine.done:
            break
    return game.outcome()


class Log:
    """What a model sees of a game: the questions with everything said so far in them, and the word on its end."""

    def __init__(self, texts: Texts, room: str, opening: Sequence[Line], glued: bool = False) -> None:
        self.texts = texts
        self.room = room
        self.glued = glued  # the reference glues what Sokoban says to the text before it and drops the player's lines
        first = _rendered(opening)
        self.text = f"\n{first}" if glued else first
        self.introduction = f"{texts.fill('room', room=room)}\n{first}" if room else first

    def prompt(self, news: str, reward: float | None = None, feedback: str | None = None) -> Prompt:
        """Return the next question, with the whole log in it; `news` is what was said since the last one."""
        opening, rest = self.texts.halves(self.room, self.text)
        return Prompt((Message("user", opening + rest),), Slot(0, len(opening)), news, reward=reward, feedback=feedback)

    def add(self, echo: str, said: Sequence[Line]) -> Prompt:
        """Take up an answer and what the engine said to it, and return the next question."""
        news = _rendered(said)
        self.text += news if self.glued else f"\n[Player] {echo}\n{news}"
        return self.prompt(news, 0.0, "\n".join(line.text for line in said if line.type != "GAME_BOARD"))

    def end(self, result: Result | None, calls: int) -> tuple[str, str]:
        """Return how the game ended (None: its calls are used up) as one word and as feedback."""
        word = "budget" if result is None else "goal" if result.won else "invalid" if result.invalid else "lost"
        return word, self.texts.fill(word, calls=str(calls), reason=result.reason if result else "")


class _Game:
    """The engine of one episode with the log so far and the counts of what happened."""

    def __init__(self, task: Task, texts: Texts) -> None:
        self.task = task
        self.data = task.data
        self.oel = self.data["parser"] == "oel"
        self.engine = Engine(self.data["game"], self.data["settings"], task.seed)
        rows = board(self.engine.opening[-1].text)
        _refuse_other(rows, task)
        self.board = _solve.parse(rows)
        self.state = self.board.start  # follows the engine, for the view of scripted seats only
        self.left = _solve.distances(self.board)
        glued = self.oel and self.data["game"] == "sokoban"
        self.log = Log(texts, self.data["room"], self.engine.opening, glued)
        self.calls = self.invalid = self.no_action = 0

    def first(self) -> Prompt:
        """Return the first question."""
        return replace(self.log.prompt(self.log.introduction), view=self._view())

    def answer(self, text: str) -> Prompt:
        """Play the action that `text` names and return the next question."""
        word = last_literal(text) if self.oel else last_word(text)
        action = self._engine_action(WORDS[word]) if word else None
        said = self.engine.act(f"[{action}]" if action else NO_ACTION)
        if action:
            self.state = self.board.move(self.state, action)[1]
        self.calls += 1
        self.invalid += any(line.type == "GAME_ADMIN" for line in said) or self.engine.result().invalid
        self.no_action += word is None
        echo = f"[{WORDS[word] if self.oel else word}]" if word else NO_ACTION
        return replace(self.log.add(echo, said), view=self._view())

    def outcome(self) -> Outcome:
        """Return how the episode ended: reaching the goal is the only success."""
        result = self.engine.result()
        end, feedback = self.log.end(result if self.engine.done else None, self.calls)
        counts = {"invalid": self.invalid, "no_action": self.no_action, "calls": self.calls}
        info = {**counts, "won": result.won, "optimal": self.data["optimal"], "end": end}
        return Outcome(float(result.won), float(result.won), feedback, info)

    def _engine_action(self, action: str) -> str:
        """Return what the engine calls the model's `action`; in an exchanged room up and down trade places."""
        return _solve.EXCHANGED[action] if self.data["exchanged"] else action

    def _view(self) -> Json:
        best = _solve.best(self.board, self.left, self.state) or "up"
        return {
            "kind": self.task.kind,
            "actions": list(ACTIONS),
            "oracle": f"[{self._engine_action(best)}]",  # the exchange is its own inverse
            "calls_left": self.data["calls"] - self.calls,
        }


def _rendered(lines: Sequence[Line]) -> str:
    return "\n".join(f"[GAME] {line.text}" for line in lines)


def _refuse_other(rows: Sequence[str], task: Task) -> None:
    found = board_hash(task.data["game"], task.data["settings"], rows)
    if found != task.data["hash"]:
        raise ClaasbenchError(
            f"{task.kind}, seed {task.seed}: the engine made board {'/'.join(rows)} ({found}), "
            f"the manifest expects {'/'.join(task.data['board'])} ({task.data['hash']})"
        )
