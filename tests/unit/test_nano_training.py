"""Training nano: resumed is as never stopped, losses fall where they must, and what is exported is what was trained."""

import json

import pytest
import torch
from corpus import Corpus
from train import GRID, KINDS, Recipe, Rows, Training, batches, groups, losses, rate, stage
from transformers import AutoModelForCausalLM, AutoTokenizer

TINY = Recipe(steps=6, batch=300, recall=1, drill=2, short=4, warmup=2, hidden=32, layers=1, inner=32)


@pytest.fixture
def small_check(monkeypatch):
    monkeypatch.setattr("train.CHECKED", 4)


def test_a_resumed_training_ends_with_the_same_weights(tmp_path, small_check):
    whole = Training(TINY, tmp_path / "whole")
    whole.run(minutes=5)
    part = Training(TINY, tmp_path / "part")
    for step, batch in batches(TINY, 0):
        if step == 3:
            break
        part.step(step, batch)
    part.save()
    resumed = Training(TINY, tmp_path / "part")
    assert resumed.state["step"] == 3
    resumed.run(minutes=5)
    assert resumed.state["tokens"] == whole.state["tokens"]
    for one, other in zip(whole.module.parameters(), resumed.module.parameters(), strict=True):
        assert torch.equal(one, other)
    line = json.loads((tmp_path / "whole" / "log.jsonl").read_text().splitlines()[-1])
    assert line["step"] == TINY.steps
    assert set(line["loss"]) <= set(KINDS[GRID].parts)


def test_the_export_is_bfloat16_and_loads_with_its_tokenizer(tmp_path, small_check):
    training = Training(TINY, tmp_path)
    training.export(tmp_path / "model")
    module = AutoModelForCausalLM.from_pretrained(tmp_path / "model")
    assert module.dtype == torch.bfloat16
    assert module.generation_config.eos_token_id == training.rows.tokenizer.eos_token_id
    again = AutoTokenizer.from_pretrained(tmp_path / "model")
    text = Corpus("x").knowledge().messages[0].content
    assert again(text).input_ids == training.rows.tokenizer(text).input_ids
    for one, other in zip(training.module.parameters(), module.parameters(), strict=True):
        assert torch.equal(one.to(torch.bfloat16), other)


def test_losses_are_of_the_answers_alone_and_padding_changes_nothing(small_check, tmp_path):
    training = Training(TINY, tmp_path)
    corpus = Corpus("loss")
    rows = [training.rows.row(corpus.document()) for _ in range(6)]
    with torch.no_grad():
        each, parts, right = losses(training.module, rows)
        assert len(each) == len(parts) == len(right) == sum(len(row.answer) for row in rows)
        alone = torch.cat([losses(training.module, [row])[0] for row in rows])
        torch.testing.assert_close(each, alone)
        row = rows[0]
        logits = training.module(torch.tensor([row.prompt + row.answer])).logits[0].log_softmax(-1)
    start = len(row.prompt)
    plain = [-logits[start - 1 + n, token] for n, token in enumerate(row.answer)]
    torch.testing.assert_close(each[: len(row.answer)], torch.stack(plain))
    assert sorted(map(id, rows)) == sorted(id(row) for group in groups(rows) for row in group)


def test_every_answer_id_has_the_part_it_belongs_to():
    rows = Rows()
    doc = Corpus("parts").none()
    row = rows.row(doc)
    spelled = dict.fromkeys(range(4), "")
    for token, part in zip(row.answer, row.parts, strict=True):
        spelled[part] += rows.tokenizer.decode([token])
    assert spelled[0].startswith("I am at (")
    assert spelled[1].startswith(". Signs: ")
    assert spelled[2].startswith(" is at (")
    assert spelled[2].endswith("]<|end|>")


def test_the_schedule_warms_up_stays_and_ends_on_a_line():
    recipe = Recipe(steps=1000, warmup=10, decay=0.25, recall=100, drill=200, short=600)
    assert [rate(recipe, step) for step in (0, 9, 500, 749)] == [0.1, 1.0, 1.0, 1.0]
    assert rate(recipe, 875) == 0.5
    assert rate(recipe, 999) == 0.05
    assert [stage(recipe, step) for step in (0, 99, 100, 200, 599, 600, 999)] == [0, 0, 1, 2, 2, 3, 3]
