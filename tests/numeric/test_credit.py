"""Credit against closed forms: returns, advantages over turns and tokens, batch normalisation, the replay trace."""

import math

import pytest

from claasbench.errors import ClaasbenchError
from claasbench.training import credit
from claasbench.training.buffer import Buffer, Entry
from claasbench.types import Experience, Prompt, Sample, Turn


def near(values):
    return pytest.approx(values, abs=1e-5)


@pytest.mark.parametrize(
    ("gamma", "lam", "expected"),
    [
        (1, 0.95, (0.465750, 0.385000, 0.3)),
        (1, 1, (0.5, 0.4, 0.3)),
        (1, 0, (0.1, 0.1, 0.3)),
        (0.9, 0.95, (0.284958, 0.286500, 0.3)),
    ],
)
def test_gae(gamma, lam, expected):
    assert credit.gae([0, 0, 1], [0.5, 0.6, 0.7], gamma, lam) == near(expected)


def test_gae_over_turns():
    assert credit.gae([0, 0, 1], [0.4, 0.5, 0.8]) == near((0.6, 0.5, 0.2))
    assert credit.gae([0, 0, 1], [0.4, 0.5, 0.8], lam=0.95) == near((0.5655, 0.49, 0.2))


@pytest.mark.parametrize(("lam", "expected"), [(0.95, (0.732225, 0.6655, 0.49, 0.2)), (1, (0.8, 0.7, 0.5, 0.2))])
def test_gae_passes_over_the_environments_tokens(lam, expected):
    mask = [True, True, False, False, True, True]
    found = credit.gae([0, 0, 0, 0, 0, 1], [0.2, 0.3, 9, 9, 0.5, 0.8], lam=lam, mask=mask)
    assert [value for value, acted in zip(found, mask, strict=True) if acted] == near(expected)
    assert credit.gae([0, 0, 0, 1], [0.2, 0.3, 0.5, 0.8], lam=lam) == near(expected)


def test_return_to_go_is_not_reset_by_the_environments_tokens():
    mask = [True, True, False, False, True, True]
    assert credit.to_go([0, 0, 0, 0, 0, 1], mask) == [1, 1, 0, 0, 1, 1]


def test_normalised_over_all_action_tokens():
    """REINFORCE++ on rewards (1, 0, 0, 1) and lengths (1, 2, 4, 1)."""
    values = [[1.0], [0.0] * 2, [0.0] * 4, [1.0]]
    found = credit.normalised(values)
    assert found[0] == near([1.732051])
    assert found[2] == near([-0.577350] * 4)
    shaped = [[0.96, 0.97], [-0.02], [0, 0, 0.01], [0.96, 1]]
    told = credit.normalised(shaped)
    assert told[0] == near((0.973962, 0.994467))
    assert told[1] == near([-1.035475])
    assert told[2] == near((-0.994467, -0.994467, -0.973962))


def test_kl_in_the_reward_runs_to_the_end():
    k1 = [[0.1, 0.3], [0.2], [0, 0.1, -0.1], [0.4, 0]]
    rewards = [[-0.1 * value for value in row] for row in k1]
    for row, reward in zip(rewards, (1, 0, 0, 1), strict=True):
        row[-1] += reward
    expected = [[0.96, 0.97], [-0.02], [0, 0, 0.01], [0.96, 1]]
    for row, wanted in zip(rewards, expected, strict=True):
        assert credit.to_go(row) == near(wanted)


def test_equal_returns_teach_nothing_and_near_equal_ones_little():
    assert credit.normalised([[0.1, 0.1], [0.1]]) == [[0, 0], [0]]
    assert credit.normalised([[], []]) == [[], []]
    told = credit.normalised([[1.0], [1.001]])
    assert told[1] == near([0.005])  # by the floor of .1; without it, 1


def test_effective_sample_size():
    for weights, expected in (((0.5, 1, 2, 4), 0.661765), ((0.5, 1, 2, 2), 3.270270 / 4), ((1, 1, 1, 1), 1)):
        found = credit.effective(sum(weights) / 4, sum(weight**2 for weight in weights) / 4)
        assert found == near(expected)


def test_explained_variance():
    assert credit.explained([0, 1], [0, 1]) == 1
    assert credit.explained([0.5, 0.5], [0, 1]) == 0
    assert credit.explained([1, 0], [0, 1]) == -3
    assert credit.explained([1, 0], [1, 1]) == 0


def experience(rewards, kind="episode"):
    turns = tuple(Turn(Prompt(()), Sample("x"), reward) for reward in rewards)
    return Experience("t", "k", kind, turns)


def test_a_turn_is_credited_with_its_own_reward_or_all_that_follows():
    assert credit.returns(experience([0.5, None, 1.0])) == [1.5, 1.0, 1.0]
    assert credit.returns(experience([0.5, None, 1.0], "turn")) == [0.5, 0.0, 1.0]
    for wrong in (math.nan, math.inf):
        with pytest.raises(ClaasbenchError, match="finite number"):
            credit.returns(experience([wrong]))


def entry(version):
    return Entry((1,), (2,), (-1.0,), 1.0, version, 0.0)


def test_replay_follows_algorithm_1():
    """A_max 1, B_max 3, B_min 2, one insert, then one step if there may be one."""
    buffer, version, trace = Buffer(3, 2, 1), 0, []
    names = {}
    for n in range(5):
        made = entry(version)
        names[id(made)] = n
        buffer.insert([made])
        if buffer.ready:
            buffer.draw(2, n)
            version += 1
            buffer.evict(version)
        trace.append((version, [names[id(held)] for held in buffer.entries]))
    assert trace == [(0, [0]), (1, [0, 1]), (2, [2]), (3, [3]), (4, [4])]


def test_replay_is_first_in_first_out_and_survives_a_save(tmp_path):
    buffer = Buffer(4, 1, 100)
    buffer.insert([entry(n) for n in range(6)])
    assert [held.version for held in buffer.entries] == [2, 3, 4, 5]
    drawn = buffer.draw(3, "seed", 1)
    assert len({held.version for held in drawn}) == 3
    assert sum(buffer.uses) == 3
    buffer.save(tmp_path / "a")
    other = Buffer(4, 1, 100)
    other.load(tmp_path / "a")
    assert (other.entries, other.uses, other.evicted) == (buffer.entries, buffer.uses, buffer.evicted)
    other.save(tmp_path / "b")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert [held.version for held in other.draw(3, "seed", 2)] == [held.version for held in buffer.draw(3, "seed", 2)]
