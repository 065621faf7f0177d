"""What each method that trains weights keeps of an episode and tells of it, on a tiny random model."""

import pytest

from claasbench.errors import ClaasbenchError
from claasbench.learners.oel import Oel
from claasbench.learners.ppo import Ppo
from claasbench.learners.reinforcepp import Reinforcepp
from claasbench.learners.sdpo import Sdpo
from claasbench.learners.sft import Sft
from claasbench.policies.hf import Hf
from claasbench.training.buffer import Entry
from claasbench.types import LEARNER, Experience, Message, Prompt, Sample, Sampling, Slot, Turn
from tiny import tiny_model

TOP = Slot(0, 0)
SMALL = {"rank": 2, "lr": 1e-2, "b_min": 1, "batch": 4}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tiny_model(tmp_path_factory.mktemp("tiny"))


@pytest.fixture
def ready(folder):
    def make(cls, **settings):
        policy = Hf(str(folder), device="cpu", threads=1)
        learner = cls(**{name: value for name, value in (SMALL | settings).items() if value is not None})
        learner.setup({LEARNER: policy}, 0)
        return learner

    return make


def turn(policy, news, reply, reward=None, feedback=None, slot=TOP, temperature=1.0):
    messages = (Message("user", news),)
    ids = policy.render(messages)
    tokens = tuple(policy.loaded.tokenizer.encode(reply, add_special_tokens=False))
    sample = Sample(reply, ids, tokens, (-1.0,) * len(tokens), sampling=Sampling(temperature))
    return Turn(Prompt(messages, slot, news), sample, reward, feedback)


def told(policy, credit="episode", won=1.0, feedback="fell", temperature=1.0):
    """An episode of two turns that ends with a reward."""
    turns = (
        turn(policy, "first", "left", temperature=temperature),
        turn(policy, "second", "down", won, feedback, temperature=temperature),
    )
    return Experience("task", "kind", credit, turns)


def text(learner, entry: Entry):
    return learner.policy.loaded.tokenizer.decode(entry.context_ids)


def test_sdpo_tells_each_answer_how_the_episode_went_on(ready):
    learner = ready(Sdpo)
    first, second = (text(learner, entry) for entry in learner.entries(told(learner.policy), 0))
    assert all(word in first for word in ("Answered: left", "second", "down", "reward 1", "Feedback: fell", "first"))
    assert "Answered: down" in second
    assert "left" not in second


def test_sdpo_tells_an_answer_that_is_an_episode_of_its_own_its_own_verdict(ready):
    learner = ready(Sdpo)
    assert len(kept := learner.entries(told(learner.policy, "turn"), 0)) == 1  # the first turn got no verdict
    assert "Answered: down" in text(learner, kept[0])


def test_sdpo_may_tell_the_verdict_alone(ready):
    learner = ready(Sdpo, feedback="verdict")
    assert (learner.sees, Sdpo.sees) == ("reward, text", "reward, feedback, text")
    context = text(learner, learner.entries(told(learner.policy), 0)[0])
    assert ("fell" in context, "Feedback: none" in context, "reward 1" in context) == (False, True, True)
    assert learner.entries(told(learner.policy, won=None), 0) == []


@pytest.mark.parametrize(("won", "kept"), [(0.0, 2), (1.0, 0)])
def test_sdpo_may_tell_failures_alone(ready, won, kept):
    learner = ready(Sdpo, feedback_on="failures")
    assert len(learner.entries(told(learner.policy, won=won), 0)) == kept


def test_sdpo_leaves_out_what_does_not_fit_and_counts_it(ready):
    learner = ready(Sdpo)
    assert learner.entries(told(learner.policy, feedback="x" * 600), 0) == []
    assert learner.counts()["left_out"] == 2


def test_sdpo_refuses_prompts_that_take_no_context(ready):
    learner = ready(Sdpo)
    bare = Experience("task", "kind", "episode", (turn(learner.policy, "first", "left", 1.0, slot=None),))
    with pytest.raises(ClaasbenchError, match="needs prompts with a slot"):
        learner.entries(bare, 0)


@pytest.mark.parametrize(("won", "kept"), [(1.0, 2), (0.0, 0), (-1.0, 0)])
def test_sft_keeps_successes(ready, won, kept):
    learner = ready(Sft)
    assert len(learner.entries(told(learner.policy, won=won), 0)) == kept


def test_the_kl_in_the_reward_is_to_the_base_and_taken_once(ready):
    learner = ready(Reinforcepp, kl=0.5)
    list(learner.observe([told(learner.policy, won=won) for won in (0.0, 1.0)]))  # the student is no longer the base
    (entry, _) = learner.entries(told(learner.policy, temperature=0.5), 0)
    row = learner.rows([entry])[0]
    assert row.temperature == 0.5
    base, student = learner.trainer.score([row], "base")[0], learner.trainer.score([row])[0]
    assert list(entry.base_logprobs) == pytest.approx(base, abs=1e-6)
    assert student != pytest.approx(base, abs=1e-3)
    *early, last = learner.rewards(entry)
    assert early == pytest.approx([-0.5 * (-1.0 - base) for base in entry.base_logprobs[:-1]])
    assert last == pytest.approx(1.0 - 0.5 * (-1.0 - entry.base_logprobs[-1]))
    assert learner.about([entry])["kl_base"] > 0
    learner.trainer.score = None  # a draw does not ask the base again
    assert learner.rows([entry])[0].advantage


def test_without_a_kl_the_base_is_not_asked(ready):
    learner = ready(Reinforcepp, kl=0.0)
    (entry, _) = learner.entries(told(learner.policy), 0)
    assert (entry.base_logprobs, learner.rewards(entry)[-1]) == ((), 1.0)
    assert "kl_base" not in learner.about([entry])


@pytest.mark.parametrize(("credit", "expected"), [("episode", [1.0, 1.0]), ("turn", [0.0, 1.0])])
def test_before_the_critic_has_learned_the_advantage_of_ppo_is_the_return(ready, credit, expected):
    learner = ready(Ppo)
    entries = learner.entries(told(learner.policy, credit), 0)
    assert [entry.advantage for entry in entries] == pytest.approx(expected)


def test_a_mean_is_over_the_steps_that_log_the_value(ready):
    learner = ready(Ppo, warmup=2)
    steps = [update.metrics for update in learner.observe([told(learner.policy)] * 3)][:-1]
    logged = [step["ess"] for step in steps if "ess" in step]
    assert (len(steps), len(logged)) == (6, 4)
    assert learner.counts()["ess"] == pytest.approx(sum(logged) / 4)


def test_means_over_all_steps_are_shown_and_survive_a_save(ready, tmp_path):
    learner = ready(Sdpo)
    steps = [update.metrics for update in learner.observe([told(learner.policy)] * 3)][:-1]
    shown = learner.counts()
    assert (shown["done"], shown["age"]) == (6, sum(step["age"] for step in steps) / 6)
    learner.save(tmp_path)
    again = ready(Sdpo)
    again.load(tmp_path)
    assert again.counts() == shown


def test_raw_games_that_do_not_fit_are_passed_over(ready):
    learner = ready(Oel, b_min=None, batch=None, source="raw", knowledge_tokens=40)
    long = "up " * 200
    assert learner._fits("one\ntwo")
    assert not learner._fits(long)
    learner.told = ["one", long, "two", long]
    assert learner.read_texts() == ["one\ntwo"]
    learner.told = [long]
    assert learner.read_texts() == []
