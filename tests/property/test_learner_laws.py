"""What every built-in learner promises: a saved state loads to the same state, and experiences are not changed."""

from copy import deepcopy

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from claasbench import registry
from claasbench.learners._placebo import Placebo
from claasbench.learners.base import Learner
from claasbench.policies.scripted import Scripted
from claasbench.types import Experience, Key, Message, Prompt, Request, Sample, Sampling, Slot, Turn

text = st.text(alphabet=st.characters(blacklist_categories=["Cs"]), max_size=12)
turn = st.builds(
    lambda news, reply, reward, feedback: Turn(Prompt((), news=news), Sample(reply), reward, feedback),
    text, text, st.sampled_from([None, 0.0, 1.0]), st.none() | text,
)  # fmt: skip
experience = st.builds(
    lambda kind, turns: Experience("task-1", kind, "episode", tuple(turns)),
    st.sampled_from(["a", "b"]), st.lists(turn, max_size=3),
)  # fmt: skip


def ready(name, **settings_):
    learner = registry.find("learners", name)(**settings_)
    learner.setup({"learner": Scripted("scripted:oracle")}, 5)
    return learner


def saved(learner, folder):
    folder.mkdir()
    learner.save(folder)
    return {path.name: path.read_bytes() for path in folder.iterdir()}


WEIGHTLESS = [name for name in registry.names("learners") if not registry.find("learners", name).needs]


@pytest.mark.parametrize("name", WEIGHTLESS)
@given(batches=st.lists(st.lists(experience, max_size=4), max_size=3))
@settings(max_examples=25, deadline=None)
def test_save_and_load_give_the_same_learner(name, batches, tmp_path_factory):
    tmp_path = tmp_path_factory.mktemp("state")
    before = deepcopy(batches)
    learner = ready(name)
    for batch in batches:
        list(learner.observe(batch))
    list(learner.end_split("s"))
    assert batches == before
    first = saved(learner, tmp_path / "first")
    again = ready(name)
    again.load(tmp_path / "first")
    assert saved(again, tmp_path / "second") == first
    assert again.notes() == learner.notes()
    for one in (learner, again):
        list(one.observe([Experience("task-2", "a", "episode", (Turn(Prompt((), news="n"), Sample("r"), 1.0),))]))
    assert saved(learner, tmp_path / "third") == saved(again, tmp_path / "fourth")


@given(st.lists(experience, max_size=12), st.integers(1, 4), st.integers(1, 60), st.integers(1, 10))
@settings(max_examples=60, deadline=None)
def test_icl_stays_within_its_bounds_and_drops_the_oldest(experiences, items, tokens, capacity):
    learner = ready("icl", items=items, memory_tokens=tokens, capacity=capacity)
    (update,) = learner.observe(experiences)
    shown, dropped = learner.memory("")
    assert len(shown.split()) <= tokens
    assert update.metrics["dropped"] == dropped
    told = [e for e in experiences if e.turns]
    assert update.metrics["kept"] == min(capacity, len(told))
    assert shown.count("[Episode ") - sum(x.count("[Episode ") for x in map(str, told)) <= items


def wins(news, reward):
    return Experience("t-1", "k", "episode", (Turn(Prompt((), news=news), Sample("go"), reward, "fb"),))


def test_icl_similar_shows_the_likest_success_last_and_no_failure():
    learner = ready("icl", select="similar", items=2)
    list(learner.observe([wins("red door", 1.0), wins("blue door", 1.0), wins("red gate", 1.0), wins("red cat", 0.0)]))
    shown, dropped = learner.memory("blue door today")
    assert dropped == 0
    assert "red gate" not in shown
    assert "red cat" not in shown
    assert shown.index("red door") < shown.index("blue door")


def test_icl_chooses_once_per_episode():
    learner = ready("icl")
    prompt = Prompt((Message("user", "top\n\nrest"),), Slot(0, 4), "news", {"actions": ["x"], "oracle": "x"})
    asked = []
    learner.policy.inner.sample = lambda requests: asked.extend(requests) or [Sample("x") for _ in requests]
    list(learner.observe([wins("first", 1.0)]))
    learner.policy.sample([Request(Key("t", 0, "learner", 0), prompt, 0, Sampling())])
    list(learner.observe([wins("second", 1.0)]))
    learner.policy.sample([Request(Key("t", 0, "learner", 1), prompt, 0, Sampling())])
    learner.policy.close([Key("t", 0, "learner", 0)])
    learner.policy.sample([Request(Key("t", 0, "learner", 0), prompt, 0, Sampling())])
    seen = ["second" in request.prompt.messages[0].content for request in asked]
    assert seen == [False, False, True]
    assert asked[0].prompt.messages[0].content.startswith("top\nNotes from earlier episodes")
    assert asked[0].prompt.messages[0].content.endswith("End of the notes.\nrest")


class Seen(Learner):
    def __init__(self):
        self.seen = []

    def observe(self, experiences):
        self.seen += experiences
        yield from ()


@given(st.lists(st.integers(1, 4), min_size=1, max_size=6), st.integers(1, 3), st.sampled_from(["episode", "turn"]))
def test_a_placebo_keeps_the_outcomes_and_shifts_them_by_one_episode(lengths, width, credit):
    inner = Seen()
    placebo = Placebo(inner)
    made = [
        Experience(
            str(n), "k", credit, tuple(Turn(Prompt(()), Sample("x"), n + t / 10, f"{n}/{t}") for t in range(size))
        )
        for n, size in enumerate(lengths)
    ]
    for start in range(0, len(made), width):
        list(placebo.observe(made[start : start + width]))
    donors = [made[:width][-1], *made]
    for own, told, donor in zip(made, inner.seen, donors, strict=False):
        last = -1 if credit == "episode" else min(len(own.turns), len(donor.turns)) - 1
        assert told.turns[-1].reward == donor.turns[last].reward
        assert told.turns[-1].feedback == donor.turns[last].feedback
        assert [turn.sample for turn in told.turns] == [turn.sample for turn in own.turns]
        if credit == "episode":
            assert told.turns[:-1] == own.turns[:-1]
