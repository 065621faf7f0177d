"""Plays many episodes side by side: one call of the policy per step and seat, credit to the right answer."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from claasbench.errors import InfraError
from claasbench.policies.base import Policy
from claasbench.scenarios.base import Scenario
from claasbench.types import (
    LEARNER,
    Episode,
    Key,
    Outcome,
    Place,
    Play,
    Prompt,
    Request,
    Sample,
    Sampling,
    Status,
    Task,
    Turn,
)

TRIES = 3
"""How often one request is put to a failing policy before its episode is given up, unscored."""

PAUSE = 0.5
"""Seconds before a failed request is put again; doubled each time."""

AHEAD = 4
"""Finished episodes are handed on in order; at most AHEAD x width games may be open or waiting for that."""


@dataclass(frozen=True, slots=True)
class Game:
    """One episode to play: its task, where it belongs and who sits where."""

    task: Task
    place: Place
    attempt: int
    seats: Mapping[str, Policy]


@dataclass(frozen=True, slots=True)
class Table:
    """The rules all games of a call share: the scenario, the sampling, and the seed of each answer."""

    scenario: Scenario
    sampling: Sampling
    draw: Callable[[Key], int]


@dataclass(slots=True)
class _Open:
    """One game under way."""

    index: int
    game: Game
    play: Play
    prompt: Prompt
    turns: list[Turn] = field(default_factory=list)
    asked: Counter[str] = field(default_factory=Counter)  # answers per seat
    last: dict[str, int] = field(default_factory=dict)  # seat -> position of its last turn
    asks: int = 0  # how often this question was put to the policy
    tries: int = 0  # the same, with what the policy itself repeated

    @property
    def key(self) -> Key:
        seat = self.prompt.seat
        return Key(self.game.task.id, self.game.attempt, seat, self.asked[seat])

    @property
    def policy(self) -> Policy:
        return self.game.seats[self.prompt.seat]


def play(table: Table, games: Sequence[Game], width: int) -> Iterator[Episode]:
    """Play `games` at most `width` at a time and yield their episodes in the order of `games`."""
    waiting = list(enumerate(games))[::-1]
    active: list[_Open] = []
    ready: dict[int, Episode] = {}
    head = 0
    try:
        while waiting or active:
            while waiting and len(active) < width and waiting[-1][0] < head + AHEAD * width:
                index, game = waiting.pop()
                _seat(table, index, game, active, ready)
            active = _step(table, active, ready)
            while head in ready:
                yield ready.pop(head)
                head += 1
    finally:
        for left in active:
            _leave(left)
    while head in ready:
        yield ready.pop(head)
        head += 1


def _seat(table: Table, index: int, game: Game, active: list[_Open], ready: dict[int, Episode]) -> None:
    generator = table.scenario.play(game.task)
    try:
        opened = _Open(index, game, generator, next(generator))
    except StopIteration as end:  # a task that asks nobody anything
        ready[index] = _episode(table, game, [], end.value)
        return
    _credit(opened, opened.prompt.seat, opened.prompt.reward, opened.prompt.feedback)
    active.append(opened)


def _step(table: Table, active: list[_Open], ready: dict[int, Episode]) -> list[_Open]:
    """Ask every open game its question and return the games that go on."""
    answers = _ask(table, active)
    for game, sample in zip(active, answers, strict=True):
        game.asks += 1
        game.tries += sample.tries
    failed = [game.asks for game, sample in zip(active, answers, strict=True) if sample.finish == "error"]
    if any(asks < TRIES for asks in failed):
        time.sleep(PAUSE * 2 ** (min(failed) - 1))
    going = []
    for game, sample in zip(active, answers, strict=True):
        if sample.finish == "error" and game.asks < TRIES:
            going.append(game)
            continue
        episode = _advance(table, game, replace(sample, tries=game.tries))
        if episode is None:
            game.asks = game.tries = 0
            going.append(game)
        else:
            _leave(game)
            ready[game.index] = episode
    return going


def _ask(table: Table, active: Sequence[_Open]) -> list[Sample]:
    """Return one sample per game: one call for all games whose next seat has the same policy."""
    groups: dict[tuple[int, str], list[int]] = {}
    for position, game in enumerate(active):
        groups.setdefault((id(game.policy), game.prompt.seat), []).append(position)
    answers: dict[int, Sample] = {}
    for positions in groups.values():
        requests = [_request(table, active[position]) for position in positions]
        answers |= zip(positions, _sample(active[positions[0]].policy, requests), strict=True)
    return [answers[position] for position in range(len(active))]


def _request(table: Table, game: _Open) -> Request:
    sampling = table.sampling
    if game.prompt.max_tokens is not None:
        sampling = replace(sampling, max_tokens=game.prompt.max_tokens)
    return Request(game.key, game.prompt, table.draw(game.key), sampling)


def _sample(policy: Policy, requests: Sequence[Request]) -> list[Sample]:
    try:
        return policy.sample(requests)
    except InfraError:  # the whole call failed: every request of it is asked again, with the same key and draws
        return [Sample("", finish="error") for _ in requests]


def _advance(table: Table, game: _Open, sample: Sample) -> Episode | None:
    """Hand the answer to the game; return the episode when that ended it."""
    seat = game.prompt.seat
    if sample.finish in ("overflow", "error"):
        game.play.close()
        status: Status = "infra_error" if sample.finish == "error" else "overflow" if seat == LEARNER else "incomplete"
        lost = {"retries": game.tries - 1} if seat == LEARNER else {}
        return _episode(
            table, game.game, game.turns, Outcome(0.0 if status == "overflow" else None, 0.0, info=lost), status
        )
    game.last[seat] = len(game.turns)
    game.asked[seat] += 1
    game.turns.append(Turn(game.prompt, sample))
    try:
        game.prompt = game.play.send(sample)
    except StopIteration as end:
        outcome: Outcome = end.value
        if LEARNER in game.last:
            _credit(game, LEARNER, outcome.reward, outcome.feedback)
        return _episode(table, game.game, game.turns, outcome)
    _credit(game, game.prompt.seat, game.prompt.reward, game.prompt.feedback)
    return None


def _credit(game: _Open, seat: str, reward: float | None, feedback: str | None) -> None:
    """Write what was earned onto the seat's own last answer."""
    if seat in game.last:
        position = game.last[seat]
        game.turns[position] = replace(game.turns[position], reward=reward, feedback=feedback)
    elif reward is not None or feedback is not None:
        raise ValueError(f"the scenario rewards seat {seat!r} before it has answered")


def _episode(
    table: Table, game: Game, turns: Sequence[Turn], outcome: Outcome, status: Status | None = None
) -> Episode:
    return Episode(
        task=game.task.id,
        content=game.task.content,
        kind=game.task.kind,
        place=game.place,
        attempt=game.attempt,
        credit=table.scenario.credit,
        turns=tuple(turns),
        score=outcome.score,
        status=status or ("ungraded" if outcome.score is None else "ok"),
        info=outcome.info,
    )


def _leave(game: _Open) -> None:
    """Close the generator and let every policy forget the episode."""
    game.play.close()
    task, attempt = game.game.task.id, game.game.attempt
    for seat, policy in game.game.seats.items():
        policy.close([Key(task, attempt, seat, 0)])


def tally(episode: Episode) -> dict[str, Any]:
    """Return the counts of one episode's learner turns: tokens, cut replies, retries and what its info counts."""
    samples = [turn.sample for turn in episode.turns if turn.prompt.seat == LEARNER]
    tokens = [_tokens(sample) for sample in samples]
    return {
        "turns": len(samples),
        "invalid": int(episode.info.get("invalid", 0)),
        "no_action": int(episode.info.get("no_action", 0)),
        "cut": sum(sample.finish == "length" for sample in samples),
        "prompt_tokens": sum(prompt for prompt, _ in tokens),
        "prefilled": sum(sample.prefilled for sample in samples),
        "reply_tokens": sum(reply for _, reply in tokens),
        "retries": sum(sample.tries - 1 for sample in samples) + int(episode.info.get("retries", 0)),
    }


def spent(episode: Episode) -> dict[str, list[int]]:
    """Return the prompt and reply tokens of every other seat that used some."""
    found: dict[str, list[int]] = {}
    for turn in episode.turns:
        prompt, reply = _tokens(turn.sample)
        if turn.prompt.seat != LEARNER and prompt + reply:
            before = found.get(turn.prompt.seat, [0, 0])
            found[turn.prompt.seat] = [before[0] + prompt, before[1] + reply]
    return found


def _tokens(sample: Sample) -> tuple[int, int]:
    """Return the tokens of prompt and reply: as many as there are ids, else as the endpoint has counted."""
    if sample.token_ids is None and sample.counted is not None:
        return sample.counted
    return len(sample.prompt_ids or ()), len(sample.token_ids or ())
