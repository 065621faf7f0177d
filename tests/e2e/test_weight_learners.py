"""Learners that change weights, on the bundled toy model and real games: resumed is as never stopped."""

import json

import pytest
import torch
from safetensors.torch import load_file

from claasbench import config, store
from claasbench.errors import ClaasbenchError
from claasbench.launch._parts import assemble, configure
from claasbench.learners.sdpo import Sdpo
from claasbench.runner import Runner
from toys import command, done, fingerprint, play, rows, tables

METHODS = ["sft", "reinforce++", "ppo", "sdpo", "oel"]
SIZE = {"scenario__splits": 2, "scenario__tasks_per_split": 8, "scenario__measured_per_split": 4, "stream__batch": 4}
REPLAY = {"learner__b_min": 4, "learner__batch": 4, "learner__updates_per_episode": 1}
ROUND = {"learner__games": 4, "learner__accumulations": 2, "learner__steps": 2, "learner__prefixes": 4}


def methods(*quick):
    """All methods; those not named are slow tests."""
    return [method if method in quick else pytest.param(method, marks=pytest.mark.slow) for method in METHODS]


def small(method, **more):
    own = ROUND if method == "oel" else REPLAY | ({"learner__warmup": 2} if method == "ppo" else {})
    return tables("frozen-lake", method, "nano-grid", **(SIZE | own | more))


@pytest.mark.parametrize("method", methods("ppo"))
def test_a_run_stopped_after_every_unit_leaves_the_same_bytes(method, tmp_path):
    made = small(method)
    play(made, tmp_path / "whole")
    last, stops = "", 0
    while last != "end":
        parts = assemble(configure(made))
        written = {**parts.config.tables(), "resolved": parts.resolved}
        digest = config.digest(parts.config.tables(), parts.resolved)
        held = store.resume(tmp_path / "run", written, digest, config.differing)
        runner = Runner(parts.config, parts.resolved, parts.scenario, parts.learner, parts.seats, held)
        for event in runner.events():
            runner.stop |= event.kind in ("episode", "update")  # asked for in the middle of every unit
            last = event.kind
        held.close()
        stops += 1
    assert stops >= 6
    assert fingerprint(tmp_path / "run") == fingerprint(tmp_path / "whole")


@pytest.mark.parametrize("method", methods("ppo", "oel"))
def test_weights_move_are_named_told_in_notes_and_only_in_training(method, tmp_path):
    play(small(method), tmp_path)
    first, *trained = rows(tmp_path)
    served = [row["served"] for row in trained]
    assert served[0] != first["served"]
    assert int(served[1].removeprefix("v").split("-")[0]) > 0
    updates = [json.loads(line) for line in (tmp_path / "updates.jsonl").read_text().splitlines()]
    assert {update["phase"] for update in updates} == ({"train", "end"} if method == "oel" else {"train"})
    steps = [update["metrics"] for update in updates if update["name"] == "step"]
    assert len(steps) == 4 if method == "oel" else len(steps) > 4
    assert all(step["skipped"] == 0 for step in steps)
    variants = set(trained[-1]["measures"][0]["variants"])
    assert variants == ({"learner", "in-context"} if method == "oel" else {"learner"})
    if method == "oel":
        notes = (tmp_path / "splits/00-4x4/notes.md").read_text()
        assert notes.startswith("# Knowledge\n\n## Text 1 of ")
        assert "- EXPERIENCE ITEM:" in notes


@pytest.mark.parametrize(("teacher", "moved"), [("round", True), ("untrained", False)])
def test_the_teacher_of_oel_starts_each_round_anew_or_stays_untrained(teacher, moved, tmp_path):
    play(small("oel", learner__teacher=teacher, learner__steps=1), tmp_path)
    first, last = (
        load_file(tmp_path / f"splits/{row}/checkpoint/teacher.safetensors") for row in ("00-4x4", "01-4x4-mirrored")
    )
    assert any(not torch.equal(first[name], last[name]) for name in first) == moved


def test_the_replay_is_accounted_for(tmp_path):
    play(small("reinforce++", learner__b_min=20, learner__a_max=3), tmp_path)
    last = done(tmp_path, "01-4x4-mirrored")["updates"]["last"]
    assert last["owed"] == 16
    assert last["dropped"] + last["done"] == last["owed"]
    assert last["dropped"] > 0
    assert last["evicted_old"] > 0


def test_matched_updates_are_spread_over_the_episodes(tmp_path):
    play(small("reinforce++", learner__updates_per_episode=3, learner__match_updates=0.5), tmp_path)
    counts = [done(tmp_path, row)["updates"]["last"]["done"] for row in ("00-4x4", "01-4x4-mirrored")]
    assert counts == [4, 8]


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"learner__name": "grpo"}, "needs several answers to the same prompt"),
        ({"learner__preset": "papr"}, "preset.*'paper'"),
        ({"learner__b_max": 2}, "learner.b_max = 2"),
        ({"learner__lr": 0.0}, "learner.lr = 0.0"),
        ({"sampling__train__top_p": 0.9}, "sampling.train.top_p = 0.9"),
        ({"sampling__train__temperature": 0.0}, "sampling.train.temperature = 0.0"),
        ({"policy__model": "scripted:oracle"}, "needs logprobs, weights"),
    ],
)
def test_what_cannot_be_learned_from_is_refused_before_anything_is_played(change, match):
    with pytest.raises(ClaasbenchError, match=match):
        assemble(configure(small("reinforce++", **change)))


def test_a_preset_is_chosen_by_the_model_and_overridden_by_settings():
    plan = configure(small("sdpo", learner__lr=0.5))
    assert (plan.config.learner["preset"], plan.config.learner["tune"], plan.config.learner["lr"]) == (
        "nano",
        "full",
        0.5,
    )
    made = small("sdpo") | {"policy": {"model": "smollm2"}}
    assert configure(made).config.learner["tune"] == "lora"


def test_the_dev_study_of_a_preset_is_named_only_where_its_settings_are_used_unchanged(monkeypatch):
    monkeypatch.setattr(
        Sdpo, "presets", {"paper": {}, "nano": {"lr": 0.1, "tuned": ("dev-sdpo", "frozen-lake", "nano-grid")}}
    )

    def found(scenario="frozen-lake", model="nano-grid", **change):
        return configure(tables(scenario, "sdpo", model, **change)).config.learner.get("tuned")

    assert (found(), found(learner__lr=0.5), found(learner__preset="paper")) == ("dev-sdpo", None, None)
    assert (found(learner__lr=0.1), found(scenario="sokoban"), found(model="smollm2")) == ("dev-sdpo", None, None)
    assert found(learner__lr=0.5, learner__tuned="mine") == "mine"
    assert found(learner__placebo=True) == "dev-sdpo"


def test_an_oel_round_without_prefixes_is_refused(tmp_path):
    with pytest.raises(ClaasbenchError, match=r"learner\.games = 8 leaves none of the 8 games"):
        play(small("oel", learner__games=8), tmp_path)


def test_list_names_them():
    _, out, _ = command("list", "learners")
    assert {"sft", "reinforce++", "ppo", "sdpo", "oel"} <= set(out.split())
