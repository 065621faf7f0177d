"""The trainer on a tiny random Qwen3: aligned, exact, isolated, and the same after a save as without one."""

import shutil
import warnings
from dataclasses import replace

import pytest
import torch
from peft import PeftModel
from transformers import AutoModelForCausalLM

from claasbench.errors import ClaasbenchError
from claasbench.policies.hf import Hf
from claasbench.training import forward
from claasbench.training.losses import CrossEntropy, Distillation, PolicyGradient, Value
from claasbench.training.trainer import Recipe, Trainer
from claasbench.types import Key, Message, Prompt, Request, Row, Sampling
from tiny import tiny_model

LORA = Recipe(rank=4, alpha=8, lr=1e-2)
FULL = Recipe(tune="full", lr=1e-3)
ROWS = [
    Row((5, 6, 7), (8, 9), (4, 5, 6, 7), (-1.0, -2.0), (1.0, 1.0), ret=1.0),
    Row((3, 4, 5, 6, 7, 8), (9,), (2, 3), (-3.0,), (-0.5,)),
    Row((9, 8), (7, 6, 5, 4), (1, 2, 3), (-1.0,) * 4, (0.3,) * 4, temperature=0.7),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tiny_model(tmp_path_factory.mktemp("tiny"))


def opened(folder, recipe=LORA, seed=0):
    return Trainer(Hf(str(folder), device="cpu", threads=1), recipe, seed)


def weights(trainer):
    return {name: parameter.detach().clone() for name, parameter in trainer.weights.trained.items()}


def equal(one, other):
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def test_a_token_is_scored_by_the_logits_before_it_at_its_temperature(folder):
    trainer = opened(folder)
    found = trainer.score(ROWS)
    module = AutoModelForCausalLM.from_pretrained(folder)
    for row, logprobs in zip(ROWS, found, strict=True):
        with torch.no_grad():
            logits = module(torch.tensor([[*row.prompt_ids, *row.token_ids]])).logits[0]
        plain = (logits / row.temperature).log_softmax(-1)
        first = len(row.prompt_ids) - 1
        expected = [float(plain[first + n, token]) for n, token in enumerate(row.token_ids)]
        assert logprobs == pytest.approx(expected, abs=1e-5)


def test_what_was_sampled_is_scored_with_the_same_log_probs(folder):
    policy = Hf(str(folder), device="cpu", threads=1)
    trainer = Trainer(policy, LORA, 0)
    trainer.step(ROWS, [CrossEntropy()])
    trainer.publish()
    sampling = Sampling(temperature=0.8, max_tokens=12)
    prompts = [Prompt((Message("user", "question" * n),)) for n in (1, 4)]
    asked = [Request(Key(str(n), 0, "learner", 0), prompt, n, sampling) for n, prompt in enumerate(prompts)]
    for which in ("student", "base"):
        samples = policy.at(which).sample(asked)
        rows = [Row(s.prompt_ids, s.token_ids, temperature=0.8) for s in samples]
        for sample, logprobs in zip(samples, trainer.score(rows, which), strict=True):
            assert list(sample.logprobs) == pytest.approx(logprobs, abs=1e-4)
        served = {sample.served for sample in samples}
        assert served == {policy.at(which).served}


@pytest.mark.parametrize("recipe", [LORA, FULL], ids=["lora", "full"])
def test_base_is_untouched_and_the_teacher_stays_where_it_was_copied(folder, recipe):
    trainer = opened(folder, recipe)
    before = trainer.score(ROWS)
    assert trainer.score(ROWS, "base") == before  # a fresh adapter changes nothing
    trainer.weights.copy()
    for _ in range(3):
        trainer.step(ROWS, [CrossEntropy()])
    assert trainer.score(ROWS, "base") == before
    assert trainer.score(ROWS, "teacher") == before
    assert trainer.score(ROWS) != before
    assert trainer.score(ROWS) == trainer.score(ROWS)


def test_at_step_0_only_the_second_factor_moves(folder):
    trainer = opened(folder)
    before = weights(trainer)
    trainer.step(ROWS, [CrossEntropy()])
    moved = {name for name, value in weights(trainer).items() if not torch.equal(value, before[name])}
    # A has no gradient while B is zero, but decays.
    assert {name for name in before if "lora_B" in name} <= moved
    assert all(p.dtype == torch.float32 for p in trainer.weights.trained.values())
    frozen = [p for n, p in trainer.weights.module.named_parameters() if "lora_" not in n]
    assert not any(p.requires_grad for p in frozen)


@pytest.mark.parametrize("recipe", [LORA, FULL], ids=["lora", "full"])
def test_cutting_a_batch_into_micro_batches_changes_nothing(folder, recipe):
    losses = [PolicyGradient(), Distillation(k=5)]
    found = []
    for tokens in (8, 1000):
        trainer = opened(folder, replace(recipe, micro_tokens=tokens))
        trainer.weights.copy()
        metrics = trainer.step(ROWS, losses)
        found.append((metrics, weights(trainer)))
    (few, one), (many, other) = found
    assert few == pytest.approx(many, abs=1e-5)
    for name in one:
        torch.testing.assert_close(one[name], other[name], atol=1e-5, rtol=1e-4)


def test_a_model_that_would_let_rows_see_each_other_is_refused(folder):
    policy = Hf(str(folder), device="cpu", threads=1)
    policy.loaded.module.set_attn_implementation("sdpa")
    with pytest.raises(ClaasbenchError, match=r"policy\.model.*do not keep texts that stand in one row apart"):
        Trainer(policy, LORA, 0)


def test_micro_batches_hold_the_ids_of_student_and_teacher():
    short, told = Row((1, 2), (3,)), Row((1, 2), (3,), (4, 5, 6, 7))
    long = Row(tuple(range(20)), (3,))
    assert forward.pieces([short] * 5, 9) == [[0, 1, 2], [3, 4]]
    assert forward.pieces([told, short, short], 8) == [[0, 1], [2]]  # the teacher reads a row without a context too
    assert forward.pieces([told, told], 9) == [[0], [1]]
    assert forward.pieces([short, long, short], 9) == [[0], [1], [2]]
    assert forward.pieces([], 9) == []


def test_logits_in_chunks_are_the_logits(folder, monkeypatch):
    whole, cut = [], []
    for found, size in ((whole, 1 << 22), (cut, 300)):
        monkeypatch.setattr(forward, "CHUNK", size)
        trainer = opened(folder)
        trainer.weights.copy()
        found += [
            trainer.step(ROWS, [Distillation(k=7, tail="renorm")]),
            [x for row in trainer.score(ROWS) for x in row],
        ]
    assert whole[0] == pytest.approx(cut[0], abs=1e-5)
    assert whole[1] == pytest.approx(cut[1], abs=1e-3)


def test_a_teacher_with_the_students_prompt_has_nothing_to_say(folder):
    trainer = opened(folder)
    trainer.weights.copy()
    same = [replace(row, context_ids=None) for row in ROWS]
    before = weights(trainer)
    metrics = trainer.step(same, [Distillation(k=5)])
    assert metrics["divergence"] == pytest.approx(0, abs=1e-6)
    assert metrics["grad_norm"] == pytest.approx(0, abs=1e-4)
    assert metrics["student_mass"] == pytest.approx(metrics["teacher_mass"], abs=1e-6)
    assert trainer.step(ROWS, [Distillation(k=5)])["divergence"] > 1e-4
    assert not equal(before, weights(trainer))


def test_the_teacher_follows_in_float32(folder):
    trainer = opened(folder)
    trainer.weights.copy()
    with torch.no_grad():
        for name, parameter in trainer.weights.trained.items():
            trainer.weights.taught[name].zero_()
            parameter.fill_(1.0)
    for _ in range(20):
        trainer.weights.follow(0.05)
    for tensor in trainer.weights.taught.values():
        assert float(tensor.mean()) == pytest.approx(0.641514, abs=1e-6)


@pytest.mark.parametrize("recipe", [LORA, FULL, replace(LORA, head_lr=1e-2)], ids=["lora", "full", "head"])
def test_a_saved_training_goes_on_as_one_never_stopped(folder, tmp_path, recipe):
    losses = [PolicyGradient(), Distillation(k=5), *([Value()] if recipe.head_lr else [])]
    whole = opened(folder, recipe)
    whole.weights.copy()
    for n in range(4):
        if n == 2:
            (tmp_path / "a").mkdir()
            whole.save(tmp_path / "a")
        whole.step(ROWS, losses)
        whole.weights.follow(0.1)
    resumed = opened(folder, recipe, seed=7)
    resumed.load(tmp_path / "a")
    (tmp_path / "b").mkdir()
    resumed.save(tmp_path / "b")
    for file in (tmp_path / "a").iterdir():
        assert file.read_bytes() == (tmp_path / "b" / file.name).read_bytes()
    for _ in range(2):
        resumed.step(ROWS, losses)
        resumed.weights.follow(0.1)
    assert equal(weights(whole), weights(resumed))
    assert equal(dict(whole.weights.taught), dict(resumed.weights.taught))
    assert resumed.version == whole.version == 4
    assert resumed.publish() == whole.publish() == resumed.policy.served


def test_the_value_head_learns_and_leaves_the_policy_alone(folder):
    trainer = opened(folder, replace(LORA, head_lr=0.05))
    before = weights(trainer)
    assert trainer.values(ROWS) == [0, 0, 0]
    for _ in range(60):
        trainer.step(ROWS, [Value(clip=10)])
    assert equal(before, weights(trainer))
    assert trainer.values(ROWS) == pytest.approx([1, 0, 0], abs=0.15)


def test_a_step_without_a_finite_gradient_changes_nothing(folder):
    trainer = opened(folder)
    before = weights(trainer)
    metrics = trainer.step([replace(ROWS[0], advantage=(float("inf"), 1.0))], [PolicyGradient()])
    assert (trainer.version, trainer.skipped, metrics["skipped"]) == (0, 1, 1)
    assert equal(before, weights(trainer))
    trainer.step(ROWS, [PolicyGradient()])
    assert trainer.version == 1


def test_weights_of_another_base_or_shape_are_refused(folder, tmp_path):
    trainer = opened(folder)
    trainer.save(tmp_path)
    other = tiny_model(tmp_path / "other", seed=1)
    with pytest.raises(ClaasbenchError, match="another base model"):
        opened(other).load(tmp_path)
    with pytest.raises(ClaasbenchError, match="other adapter settings"):
        opened(folder, replace(LORA, rank=8)).load(tmp_path)
    (tmp_path / "student.safetensors").write_bytes(b"torn")
    with pytest.raises(ClaasbenchError, match="cannot be read"):
        opened(folder).load(tmp_path)


@pytest.mark.parametrize(
    ("row", "match"),
    [
        (Row((), (1,)), "no prompt"),
        (Row((1,), ()), "no action token"),
        (Row((1,) * 600, (1,)), "601 ids, but the model's context holds 512"),
        (Row((1,), (1, 2), old_logprobs=(-1.0,)), "2 action tokens, but 1 old_logprobs"),
    ],
)
def test_rows_that_cannot_be_trained_on_are_refused(folder, row, match):
    with pytest.raises(ClaasbenchError, match=match):
        opened(folder).step([row], [CrossEntropy()])


def test_an_exported_adapter_loads_with_peft(folder, tmp_path):
    trainer = opened(folder)
    for _ in range(3):
        trainer.step(ROWS, [CrossEntropy()])
    trainer.weights.export(tmp_path)
    base = AutoModelForCausalLM.from_pretrained(folder)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        loaded = PeftModel.from_pretrained(base, tmp_path)
    row = replace(ROWS[0], temperature=1.0)
    with torch.no_grad():
        logprobs = loaded(torch.tensor([[*row.prompt_ids, *row.token_ids]])).logits[0].log_softmax(-1)
    expected = [float(logprobs[2, 8]), float(logprobs[3, 9])]
    assert trainer.score([row])[0] == pytest.approx(expected, abs=1e-5)


def test_exported_full_weights_are_a_model(folder, tmp_path):
    trainer = opened(folder, FULL)
    trainer.step(ROWS, [CrossEntropy()])
    trainer.weights.export(tmp_path)
    for found, expected in zip(opened(tmp_path).score(ROWS), trainer.score(ROWS), strict=True):
        assert found == pytest.approx(expected, abs=1e-5)
    shutil.rmtree(tmp_path)


def test_seeds_draw_the_adapter_and_nothing_else(folder):
    torch.manual_seed(3)
    state = torch.get_rng_state()
    one, same, other = opened(folder, seed=1), opened(folder, seed=1), opened(folder, seed=2)
    assert torch.equal(torch.get_rng_state(), state)
    assert equal(weights(one), weights(same))
    assert not equal(weights(one), weights(other))


@pytest.mark.parametrize("recipe", [LORA, FULL], ids=["lora", "full"])
def test_a_look_at_the_teacher_between_forward_and_backward_leaves_the_gradient(folder, recipe):
    found = []
    for looked in (False, True):
        trainer = opened(folder, recipe)
        trainer.weights.copy()
        made = forward.batch(ROWS, torch.device("cpu"))
        with trainer.weights.at("student") as module:
            total = forward.score(module, made).logprob_T.sum()
        if looked:
            trainer.score(ROWS, "teacher")
            trainer.score(ROWS, "base")
        total.backward()
        found.append({name: p.grad.clone() for name, p in trainer.weights.trained.items()})
    assert equal(*found)


def test_a_batch_passed_twice_is_clipped_against_its_start(folder):
    trainer = opened(folder, replace(LORA, lr=0.5))
    starts = trainer.score(ROWS)
    first = trainer.step(ROWS, [PolicyGradient()], starts)
    second = trainer.step(ROWS, [PolicyGradient()], starts)
    assert first["clipped"] == 0
    assert second["clipped"] > 0
