"""The golden gate: recorded updates and runs of every learner, and what must hold of any run whatever its numbers.

`test_mutants.py` shows that each of six classic faults turns it red.
"""

import json
import statistics

import pytest

import gates
from claasbench import metrics
from claasbench.store import read_lines
from claasbench.types import LEARNER, Key, Message, Prompt, Request, Row, Sampling

UPDATES = json.loads((gates.GOLDEN / "updates.json").read_text())
RUNS = json.loads((gates.GOLDEN / "runs.json").read_text())
M = [[0.8, 0.3, 0.2], [0.7, 0.9, 0.4], [0.6, 0.8, 0.85]]
OF_M = {
    "final": 0.75,
    "forward": 0.3,
    "forgetting": 0.15,
    "forgetting_best": 0.15,
    "forgetting_pairs": 0.4 / 3,
    "bwt": -0.15,
}


@pytest.mark.parametrize("name", gates.LEARNERS)
def test_updates_on_fixed_answers_are_the_recorded_ones(name):
    learner = gates.ready(name)
    found = gates.updates(learner)
    assert len(found) == len(UPDATES[name]) >= 3
    for step, recorded in zip(found, UPDATES[name], strict=True):
        assert step == pytest.approx(recorded, rel=1e-4, abs=1e-4)
    probe(learner)


def probe(learner):
    """What the policy answers with is what was trained: its own log-probs are those of the trainer's student."""
    prompt = Prompt((Message("user", "You stand at control panel A."),))
    request = Request(Key("probe", 0, LEARNER, 0), prompt, 7, Sampling(1.0, max_tokens=12))
    (answer,) = learner.policy.sample([request])
    row = Row(answer.prompt_ids, answer.token_ids)
    assert list(answer.logprobs) == pytest.approx(learner.trainer.score([row])[0], abs=1e-4)
    base = learner.trainer.score([row], "base")[0]
    assert max(abs(one - other) for one, other in zip(answer.logprobs, base, strict=True)) > 1e-3
    (untrained,) = learner.policy.at("base").sample([request])
    row = Row(untrained.prompt_ids, untrained.token_ids)
    assert list(untrained.logprobs) == pytest.approx(learner.trainer.score([row], "base")[0], abs=1e-4)


def test_the_numbers_of_a_matrix_worked_out_by_hand():
    found = metrics.summary(M, [0.1, 0.2, 0.3])
    assert {name: found[name] for name in OF_M} == pytest.approx(OF_M)
    assert found["forgetting"] == pytest.approx(statistics.mean([0.8 - 0.6, 0.9 - 0.8]))


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    """The small run of each learner, played once: its folder and the tasks that it learned from."""
    found = {}

    def get(name):
        if name not in found:
            folder = tmp_path_factory.mktemp("gate") / "run"
            found[name] = folder, gates.small(name, folder)
        return found[name]

    return get


@pytest.mark.slow
def test_a_seed_changes_the_draws_and_an_order_does_not(played, tmp_path):
    def measured(folder):
        return gates.rows(folder)["init"]["measured"]

    folder, _ = played("none")
    for name, trial in (("seed", {"trial__seed": 1}), ("order", {"trial__order": 1})):
        gates.small("none", tmp_path / name, measure__rows="last", **trial)
    assert measured(tmp_path / "order") == measured(folder)
    assert measured(tmp_path / "seed") != measured(folder)


@pytest.mark.slow
@pytest.mark.parametrize("name", gates.RUNS)
def test_nothing_measured_is_ever_learned_from(name, played):
    folder, seen = played(name)
    episodes = [row for path in folder.glob("splits/*/episodes.jsonl") for row in read_lines(path)]
    trained = {episode["task"] for episode in episodes if "measure" not in episode}
    measured = {episode["task"] for episode in episodes if "measure" in episode}
    assert len(trained) == len(measured) == 12
    assert seen == trained
    assert not seen & measured


@pytest.mark.slow
@pytest.mark.parametrize("name", gates.RUNS)
def test_a_small_run_is_the_recorded_one_to_the_last_bit(name, played):
    if gates.here() != RUNS["platform"]:
        pytest.skip(f"recorded on {RUNS['platform']}, this is {gates.here()}")
    assert gates.rows(played(name)[0]) == RUNS["runs"][name]
