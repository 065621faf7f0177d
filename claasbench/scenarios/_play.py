"""One episode of a grid game: what the model sees, how its answer is read, and how the game ends."""

from __future__ import annotations

import re
from collections.abc import Sequence

from claasbench.errors import ClaasbenchError
from claasbench.scenarios import _solve
from claasbench.scenarios._engine import Engine, Line, board
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
    prompt = game.prompt(game.introduction, None, None)
    for _ in range(task.data["calls"]):
        sample = yield prompt
        said = game.answer(sample.text)
        if game.engine.done:
            break
        effect = "\n".join(line.text for line in said if line.type != "GAME_BOARD")
        prompt = game.prompt(_rendered(said), 0.0, effect)
    return game.outcome()


class _Game:
    """The engine of one episode with the log so far and the counts of what happened."""

    def __init__(self, task: Task, texts: Texts) -> None:
        self.task = task
        self.texts = texts
        self.data = task.data
        self.oel = self.data["parser"] == "oel"
        self.engine = Engine(self.data["game"], self.data["settings"], task.seed)
        rows = board(self.engine.opening[-1].text)
        _refuse_other(rows, task)
        self.board = _solve.parse(rows)
        self.state = self.board.start  # follows the engine, for the view of scripted seats only
        self.left = _solve.distances(self.board)
        # The reference glues what Sokoban says to the text before it and drops the player's own lines there.
        self.glued = self.oel and self.data["game"] == "sokoban"
        first = _rendered(self.engine.opening)
        self.log = f"\n{first}" if self.glued else first
        room = self.data["room"]
        self.introduction = f"{texts.fill('room', room=room)}\n{first}" if room else first
        self.calls = self.invalid = self.no_action = 0

    def prompt(self, news: str, reward: float | None, feedback: str | None) -> Prompt:
        """Return the next question, with the whole log in it."""
        opening, rest = self.texts.halves(self.data["room"], self.log)
        message = Message("user", opening + rest)
        return Prompt((message,), Slot(0, len(opening)), news, self._view(), reward=reward, feedback=feedback)

    def answer(self, text: str) -> list[Line]:
        """Play the action that `text` names and return what the engine says to it."""
        word = last_literal(text) if self.oel else last_word(text)
        action = self._engine_action(WORDS[word]) if word else None
        said = self.engine.act(f"[{action}]" if action else NO_ACTION)
        if action:
            self.state = self.board.move(self.state, action)[1]
        self.calls += 1
        self.invalid += any(line.type == "GAME_ADMIN" for line in said) or self.engine.result().invalid
        self.no_action += word is None
        echo = f"[{WORDS[word] if self.oel else word}]" if word else NO_ACTION
        self.log += _rendered(said) if self.glued else f"\n[Player] {echo}\n{_rendered(said)}"
        return said

    def outcome(self) -> Outcome:
        """Return how the episode ended: reaching the goal is the only success."""
        won, invalid, reason = self.engine.result()
        lost = "invalid" if invalid else "lost"
        end = ("goal" if won else lost) if self.engine.done else "budget"
        feedback = self.texts.fill(end, calls=str(self.calls), reason=reason)
        counts = {"invalid": self.invalid, "no_action": self.no_action, "calls": self.calls}
        info = {**counts, "won": won, "optimal": self.data["optimal"], "end": end}
        return Outcome(float(won), float(won), feedback, info)

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
