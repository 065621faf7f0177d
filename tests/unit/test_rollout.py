"""The lockstep player: order, one call per step and seat, credit, retries, failures."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from claasbench import draws
from claasbench.errors import InfraError
from claasbench.policies.base import Policy
from claasbench.registry import find
from claasbench.rollout import AHEAD, TRIES, Game, Table, play, tally
from claasbench.scenarios.base import Numberer, Scenario
from claasbench.types import Bounds, Message, Outcome, Place, Prompt, Request, Sample, Sampling, Stream, Task
from toys import PLUGINS

PLACE = Place("s", 0)


@dataclass
class Counting(Scenario):
    """Asks task.data["turns"] questions."""

    def stream(self, order: int) -> Stream:
        raise AssertionError("not asked for")

    def play(self, task: Task):
        for number in range(task.data["turns"]):
            earned = {"reward": float(number), "feedback": f"f{number}"} if number else {}
            yield Prompt((Message("user", str(number)),), news=str(number), **earned)
        return Outcome(task.data["score"], 7.0, "end")

    def bounds(self, tasks: Sequence[Task]) -> Bounds:
        return Bounds(0, 1, 1)


@dataclass
class Watcher(Policy):
    """Answers with the turn number and keeps what it was asked."""

    fail: dict = field(default_factory=dict)  # (task, turn) -> how often, or the finish to give
    served = "watcher"
    calls: list = field(default_factory=list)
    closed: list = field(default_factory=list)

    def sample(self, requests: Sequence[Request]) -> list[Sample]:
        self.calls.append(list(requests))
        return [self._one(request) for request in requests]

    def _one(self, request: Request) -> Sample:
        what = self.fail.get((request.key.task, request.key.turn), 0)
        if isinstance(what, str):
            return Sample("", finish=what)
        if what:
            self.fail[request.key.task, request.key.turn] = what - 1
            return Sample("", finish="error")
        return Sample(f"a{request.key.turn}")

    def count(self, messages):
        return 0

    def close(self, keys):
        self.closed += list(keys)


def games(policy, turns, score=1.0):
    numberer = Numberer()
    tasks = [numberer.task("k", n, {"turns": count, "score": score, "n": n}) for n, count in enumerate(turns)]
    return [Game(task, PLACE, 0, {"learner": policy}) for task in tasks]


def table():
    return Table(Counting(), Sampling(max_tokens=5), lambda key: draws.seed(*key))


def test_episodes_come_in_order_whatever_their_length():
    policy = Watcher()
    batch = games(policy, [5, 1, 3, 0, 2])
    episodes = list(play(table(), batch, 2))
    assert [e.task for e in episodes] == [g.task.id for g in batch]
    assert [len(e.turns) for e in episodes] == [5, 1, 3, 0, 2]
    assert max(len(call) for call in policy.calls) == 2


def test_one_call_per_step():
    policy = Watcher()
    list(play(table(), games(policy, [3, 3, 3]), 8))
    assert [len(call) for call in policy.calls] == [3, 3, 3]


def test_open_and_waiting_games_are_bounded():
    policy = Watcher()
    batch = games(policy, [40] + [1] * 60)
    list(play(table(), batch, 2))
    asked = {request.key.task for call in policy.calls[:39] for request in call}
    assert len(asked) == AHEAD * 2


def test_reward_and_feedback_reach_the_answer_that_earned_them():
    (episode,) = play(table(), games(Watcher(), [3]), 1)
    assert [turn.reward for turn in episode.turns] == [1.0, 2.0, 7.0]
    assert [turn.feedback for turn in episode.turns] == ["f1", "f2", "end"]


def test_two_seats_are_credited_apart():
    scenario = find("scenarios", str(PLUGINS / "duel.py"))()
    task = scenario.stream(0).splits[0].train[0]
    learner, attacker = Watcher(), Watcher()
    rules = Table(scenario, Sampling(), lambda key: draws.seed(*key))
    (episode,) = play(rules, [Game(task, PLACE, 0, {"learner": learner, "attacker": attacker})], 1)
    by_seat = {seat: [t for t in episode.turns if t.prompt.seat == seat] for seat in ("learner", "attacker")}
    assert [(t.reward, t.feedback) for t in by_seat["learner"]] == [(1.0, "round 0"), (2.0, "over")]
    assert [(t.reward, t.feedback) for t in by_seat["attacker"]] == [(-1.0, "attack 0 answered"), (None, None)]
    assert [turn.prompt.seat for turn in episode.experience.turns] == ["learner", "learner"]
    assert all(turn.prompt.view is None for turn in episode.experience.turns)
    assert {key.seat for key in attacker.closed} == {"attacker"}
    assert tally(episode)["turns"] == 2


def test_a_failed_request_is_asked_again_with_the_same_key_and_draws():
    batch = games(policy := Watcher(), [2, 2])
    policy.fail = {(batch[0].task.id, 1): 2}
    first, second = play(table(), batch, 2)
    same = [r for call in policy.calls for r in call if r.key[:1] == (first.task,) and r.key.turn == 1]
    assert len(same) == 3
    assert len({(r.key, r.seed) for r in same}) == 1
    assert [t.sample.tries for t in first.turns] == [1, 3]
    assert (first.status, second.status, tally(first)["retries"]) == ("ok", "ok", 2)


def test_a_request_that_keeps_failing_is_no_zero():
    batch = games(policy := Watcher(), [3, 1])
    policy.fail = {(batch[0].task.id, 1): 99}
    first, second = play(table(), batch, 2)
    assert (first.status, first.score) == ("infra_error", None)
    assert (second.status, second.score) == ("ok", 1.0)
    assert sum(r.key.task == first.task and r.key.turn == 1 for call in policy.calls for r in call) == TRIES


def test_a_call_that_fails_as_a_whole_is_repeated():
    class Down(Watcher):
        def sample(self, requests):
            if not self.calls:
                self.calls.append(list(requests))
                raise InfraError("gone")
            return super().sample(requests)

    policy = Down()
    assert [e.status for e in play(table(), games(policy, [1, 1]), 2)] == ["ok", "ok"]
    assert policy.calls[0] == policy.calls[1]


def test_overflow_scores_zero_and_keeps_the_turns_before():
    batch = games(policy := Watcher(), [3])
    policy.fail = {(batch[0].task.id, 2): "overflow"}
    (episode,) = play(table(), batch, 1)
    assert (episode.status, episode.score, len(episode.turns)) == ("overflow", 0.0, 2)


def test_overflow_of_another_seat_is_not_held_against_the_learner():
    scenario = find("scenarios", str(PLUGINS / "duel.py"))()
    task = scenario.stream(0).splits[0].train[0]
    attacker = Watcher(fail={(task.id, 1): "overflow"})
    rules = Table(scenario, Sampling(), lambda key: 0)
    (episode,) = play(rules, [Game(task, PLACE, 0, {"learner": Watcher(), "attacker": attacker})], 1)
    assert (episode.status, episode.score) == ("incomplete", None)


def test_no_verdict_is_ungraded():
    (episode,) = play(table(), games(Watcher(), [1], score=None), 1)
    assert (episode.status, episode.score) == ("ungraded", None)


def test_every_episode_is_closed_also_when_the_caller_leaves():
    policy = Watcher()
    playing = play(table(), games(policy, [1, 5, 5]), 3)
    next(playing)
    playing.close()
    assert len({key.task for key in policy.closed}) == 3


def test_a_reward_before_the_first_answer_is_a_bug_of_the_scenario():
    @dataclass
    class Early(Counting):
        def play(self, task):
            yield Prompt((), reward=1.0)
            return Outcome(1.0, 1.0)

    rules = Table(Early(), Sampling(), lambda key: 0)
    with pytest.raises(ValueError, match="before it has answered"):
        list(play(rules, games(Watcher(), [1]), 1))
