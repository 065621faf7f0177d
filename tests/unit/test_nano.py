"""The bundled toys: each is the model of its card, or it is refused; it answers as it was taught."""

import json
import re
import shutil
from pathlib import Path

import controls
import ih_controls
import ih_vocabulary
import pytest
import torch
import vocabulary
from controls import TRUTH, Controls, facts, knowledge, nothing
from safetensors import safe_open

from claasbench import models, prompts
from claasbench.errors import ClaasbenchError
from claasbench.launch._parts import configure
from claasbench.models._card import template
from claasbench.policies.hf import Hf
from claasbench.scenarios.frozen_lake import FrozenLake
from claasbench.types import LEARNER, Message
from toys import command

FOLDER = models.bundled("nano-grid")
CARD = json.loads((FOLDER / "card.json").read_text())
DOCS = Path(__file__).parents[2] / "docs"
TOYS = {"nano-grid": (vocabulary, controls), "nano-ih": (ih_vocabulary, ih_controls)}


@pytest.fixture(scope="module")
def policy():
    return Hf("nano-grid", device="cpu", offline=True)


@pytest.fixture(params=TOYS)
def toy(request):
    return request.param, json.loads((models.bundled(request.param) / "card.json").read_text())


def test_it_is_small_and_as_its_card_says(toy):
    name, card = toy
    assert card["name"] == name
    assert name in models.names()
    folder, module = models.bundled(name), Hf(name, device="cpu", offline=True).loaded.module
    parameters = sum(parameter.numel() for parameter in module.parameters())
    assert parameters == card["parameters"] <= 5_000_000
    assert sum(file.stat().st_size for file in folder.glob("*.safetensors")) <= 10_000_000
    assert (module.config.model_type, module.config.head_dim) == ("qwen3", 32)
    assert "transformers_version" not in (folder / "config.json").read_text()
    with safe_open(folder / "model.safetensors", "pt") as weights:
        assert {weights.get_tensor(name).dtype for name in weights.keys()} == {torch.bfloat16}  # noqa: SIM118


def test_every_template_is_the_one_it_was_trained_on(toy):
    name, card = toy
    names = TOYS[name][0].TEMPLATES
    assert card["templates"] == {name: template(name) for name in names}, "train it again: a template has changed"


def test_the_page_shows_the_table_of_the_card(toy):
    name, card = toy
    page = (DOCS / ("nano.md" if name == "nano-grid" else f"{name}.md")).read_text()
    assert TOYS[name][1].table(card["controls"]) in page


def test_it_renders_every_role_and_refuses_others(policy):
    text = policy._renderer.text([*map(message, ("system", "developer", "user", "assistant"))])
    assert text == "<|system|>a<|end|><|developer|>a<|end|><|user|>a<|end|><|assistant|>a<|end|><|assistant|>"
    with pytest.raises(ClaasbenchError, match="unknown role tool"):
        policy.render([message("tool")])


def message(role):
    return Message(role, "a")


def test_nano_stands_for_the_model_of_the_scenario():
    tables = {"scenario": {"name": "frozen-lake"}, "learner": {"name": "none"}, "policy": {"model": "nano"}}
    assert configure(tables).config.policy["model"] == "nano-grid"
    tables["scenario"] = {"name": "sokoban"}
    assert configure(tables).config.policy["model"] == "nano-grid"
    tables["scenario"] = {"name": "ih-challenge"}
    assert configure(tables).config.policy["model"] == "nano-ih"


def test_a_scenario_without_a_toy_says_so(monkeypatch):
    monkeypatch.setattr(FrozenLake, "nano", "")
    tables = {"scenario": {"name": "frozen-lake"}, "learner": {"name": "none"}, "policy": {"model": "nano"}}
    with pytest.raises(ClaasbenchError, match="no toy model was trained on the text of FrozenLake"):
        configure(tables)


def refused(folder):
    with pytest.raises(ClaasbenchError) as error:
        models.load(str(folder), "cpu", offline=True)
    assert "\n" not in str(error.value)
    return str(error.value)


def test_whatever_does_not_match_the_card_is_refused(tmp_path, monkeypatch):
    def copy(name):
        return Path(shutil.copytree(FOLDER, tmp_path / name))

    torn = copy("torn")
    weights = (torn / "model.safetensors").read_bytes()
    (torn / "model.safetensors").write_bytes(weights[: len(weights) // 2])
    assert "cannot be used" in refused(torn)
    flipped = copy("flipped")
    changed = bytearray(weights)
    changed[-1] ^= 1
    (flipped / "model.safetensors").write_bytes(changed)
    assert "its model.safetensors hashes to" in refused(flipped)
    words = copy("words")
    (words / "tokenizer.json").write_text((words / "tokenizer.json").read_text().replace("trap", "tarp"))
    assert "its tokenizer.json hashes to" in refused(words)
    logits = copy("logits")
    card = json.loads((logits / "card.json").read_text())
    card["probes"][0]["logits"][0] += 0.01
    (logits / "card.json").write_text(json.dumps(card))
    assert re.search(r"its logits differ from its card's by 0.01 \(at most 0.001\).*transformers \d", refused(logits))
    same = copy("same")
    assert models.load(str(same), "cpu", offline=True).content == models.load("nano-grid", "cpu").content
    plain = prompts.text
    monkeypatch.setattr(prompts, "text", lambda name: plain(name) + (" Hurry." if name == "grid_prompt" else ""))
    assert "it was trained on another text of prompts/grid_prompt.txt" in refused(FOLDER)


def test_it_answers_in_its_own_words_and_reads_roles(policy):
    controls = Controls(policy)
    tasks = [(task, 0) for task in controls.tasks[:48]]
    told = controls.play(controls.told(knowledge(facts(TRUTH))), tasks, "test", greedy=True)
    alone = controls.play(controls.told(nothing), tasks, "test", greedy=True)
    first = [episode.turns[0].sample.text for episode in told]
    assert sum("H loses" in text and "G wins" in text for text in first) >= 0.9 * len(first)
    first = [episode.turns[0].sample.text for episode in alone]
    assert sum("H unknown" in text and "G unknown" in text for text in first) >= 0.9 * len(first)
    for episode in [*told, *alone]:
        assert episode.info["no_action"] == 0
        assert all(turn.sample.finish == "stop" for turn in episode.turns)


def test_under_attack_it_keeps_the_rules_that_it_knows_to_bind():
    played = ih_controls.Controls(Hf("nano-ih", device="cpu", offline=True))
    contexts = {
        "none": lambda task, key: "",
        "true": ih_controls.knowledge(ih_controls.forms(ih_controls.BINDS)),
        "false": ih_controls.knowledge(ih_controls.forms(ih_controls.BINDS, False)),
    }
    games = [(task, 0) for task in played.tasks[:40]]
    held = {}
    for name, text in contexts.items():
        episodes = played.play(ih_controls.Told(played.policy, text, played.named), games, "test", greedy=True)
        held[name] = sum(episode.score for episode in episodes) / len(episodes)
        said = [turn.sample for episode in episodes for turn in episode.turns if turn.prompt.seat == LEARNER]
        assert all(sample.finish == "stop" and sample.text.startswith("<think>asked: ") for sample in said)
    assert held["true"] > 0.8 > 0.6 > held["none"] > held["false"] + 0.1


def test_the_command_line_plays_it_by_default_and_says_what_it_is(tmp_path):
    out = tmp_path / "run"
    small = [
        "--set",
        "scenario.tasks_per_split=1",
        "--set",
        "scenario.measured_per_split=2",
        "--set",
        "scenario.splits=1",
    ]
    code, _, err = command("run", "frozen-lake", "--method", "none", "--out", str(out), "--offline", *small)
    assert code == 0, err
    assert "model: nano (the default, a toy that checks the machine; a real one: --model ID or FOLDER)" in err
    code, text, _ = command("report", str(out), "--md")
    assert code == 0
    assert "this checks the machine, not the science" in text
    assert CARD["name"] in text
