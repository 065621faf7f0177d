"""Batches change nothing: any width gives the same episodes, and credit always sums to what was paid."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from hypothesis import given, settings
from hypothesis import strategies as st

from claasbench import config, draws
from claasbench.policies.base import Policy
from claasbench.rollout import Game, Table, play
from claasbench.scenarios.base import Numberer, Scenario
from claasbench.types import LEARNER, Message, Outcome, Place, Prompt, Request, Sample, Sampling, Slot, with_context

SEATS = ("learner", "attacker")


@dataclass
class Talk(Scenario):
    """Asks the seats that task.data names, in that order, and pays each for its previous answer."""

    seats = SEATS

    def stream(self, order):
        raise AssertionError("not asked for")

    def bounds(self, tasks):
        raise AssertionError("not asked for")

    def play(self, task):
        said, paid = [], dict.fromkeys(SEATS, 0)
        for seat in task.data["asks"]:
            earned = {"reward": float(paid[seat]), "feedback": str(paid[seat])} if paid[seat] else {}
            sample = yield Prompt((Message("user", "/".join(said)),), seat=seat, **earned)
            said.append(sample.text)
            paid[seat] += 1
        return Outcome(1.0, float(paid[LEARNER]), "end", {"said": said})


@dataclass
class Dice(Policy):
    served = "dice"

    def sample(self, requests: Sequence[Request]):
        return [Sample(str(draws.seed(request.seed) % 97)) for request in requests]

    def count(self, messages):
        return 0


def episodes(asks, width):
    numberer = Numberer()
    seats = {seat: Dice() for seat in SEATS}
    tasks = [numberer.task("k", 0, {"asks": list(names)}) for names in asks]
    games = [Game(task, Place("s", 0), 0, seats) for task in tasks]
    return list(play(Table(Talk(), Sampling(), lambda key: draws.seed(*key)), games, width))


talks = st.lists(st.lists(st.sampled_from(SEATS), max_size=6), max_size=12)


@given(talks, st.integers(1, 15))
@settings(max_examples=60, deadline=None)
def test_any_width_gives_the_same_episodes(asks, width):
    assert episodes(asks, width) == episodes(asks, 1)


@given(talks)
@settings(max_examples=60, deadline=None)
def test_every_answer_earns_its_own_reward(asks):
    for episode, names in zip(episodes(asks, 4), asks, strict=True):
        assert [turn.prompt.seat for turn in episode.turns] == names
        for seat in SEATS:
            own = [turn.reward for turn in episode.turns if turn.prompt.seat == seat]
            last = [float(len(own))] if seat == LEARNER and own else [None] if own else []
            assert own == [float(n + 1) for n in range(len(own) - 1)] + last
        assert len(episode.experience.turns) == names.count(LEARNER)


@given(st.text(max_size=30), st.text(max_size=10), st.data())
def test_context_is_inserted_and_nothing_else_changes(body, text, data):
    offset = data.draw(st.integers(0, len(body)))
    prompt = Prompt((Message("system", "s"), Message("user", body)), Slot(1, offset))
    filled = with_context(prompt, text)
    assert filled.messages[0] == prompt.messages[0]
    gap = "\n\n" if text and body and offset == len(body) else ""
    assert filled.messages[1].content == body[:offset] + gap + text + body[offset:]
    added = with_context(Prompt(prompt.messages, Slot(1)), text or "x", "developer")
    assert added.messages == (prompt.messages[0], Message("developer", text or "x"), prompt.messages[1])


@given(st.floats(0, 2), st.floats(0.01, 1), st.integers(0, 100), st.integers(1, 4096))
def test_sampling_survives_its_table(temperature, top_p, top_k, max_tokens):
    sampling = Sampling(temperature, top_p, top_k, max_tokens)
    assert config.build(Sampling, asdict(sampling), "sampling.train") == sampling
