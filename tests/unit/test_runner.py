"""The loop: exact matrices of scripted learners, single use, copies, units and what a row says."""

import json
from collections import Counter

import pytest

from claasbench import draws
from claasbench.errors import ClaasbenchError
from claasbench.types import Event
from toys import PLUGINS, done, password, play, rows, tables


@pytest.fixture
def scenario(tmp_path):
    return password(tmp_path / "plugin")


def matrix(folder, variant="learner"):
    """Return {row: [mean score per cell]}."""
    return {
        row["row"]: [sum(c["scores"]) / len(c["scores"]) for c in row["measures"][0]["variants"][variant]]
        for row in rows(folder)
    }


def test_a_scripted_learner_gives_the_matrix_its_skills_say(scenario, tmp_path):
    play(tables(scenario, learner__step=0.05, learner__loss=0.02, trial__seed=3), tmp_path / "run")
    skills = {-1: (0.1, 0.1), 0: (0.9, 0.1), 1: (0.9 - 16 * 0.02, 0.9)}
    for row in rows(tmp_path / "run"):
        for cell, skill in zip(row["measures"][0]["variants"]["learner"], skills[row["row"]], strict=True):
            expected = [float(draws.uniform("skill", 3, task, 0) < skill) for task in cell["tasks"]]
            assert cell["scores"] == expected


def test_a_perfect_forgetter_knows_only_the_last_split(scenario, tmp_path):
    play(tables(scenario, learner__start=0.0, learner__step=1.0, learner__cap=1.0, learner__loss=1.0), tmp_path / "run")
    assert matrix(tmp_path / "run") == {-1: [0.0, 0.0], 0: [1.0, 0.0], 1: [0.0, 1.0]}


def test_none_is_copied_and_forgets_nothing(scenario, tmp_path):
    events = play(tables(scenario, "none", "scripted:random"), tmp_path / "run")
    found = rows(tmp_path / "run")
    assert [row["copied"] for row in found] == [None, "init", "init"]
    assert len({json.dumps(row["measures"]) for row in found}) == 1
    assert [event.note for event in events if event.kind == "copy"] == ["init", "init"]


def test_every_training_task_is_played_once_and_live_scores_are_kept(scenario, tmp_path):
    play(tables(scenario, "none", "scripted:oracle", stream__batch=5), tmp_path / "run")
    lines = (tmp_path / "run/splits/00-room-a/episodes.jsonl").read_text().splitlines()
    assert all(len(line) <= 400 for line in lines)
    played = Counter(json.loads(line)["task"] for line in lines)
    assert len(played) == 16
    assert set(played.values()) == {1}
    live = done(tmp_path / "run", "00-room-a")["live"]
    assert live["tasks"] == list(played)
    assert live["scores"] == [1.0] * 16


def test_order_permutes_training_only_and_measured_draws_ignore_it(scenario, tmp_path):
    for order in (0, 1):
        play(tables(scenario, "none", "scripted:random", trial__order=order), tmp_path / f"o{order}")
    first, second = (done(tmp_path / f"o{order}", "00-room-a") for order in (0, 1))
    assert first["measures"] == second["measures"]
    assert first["live"]["tasks"] != second["live"]["tasks"]
    assert sorted(first["live"]["tasks"]) == sorted(second["live"]["tasks"])


def test_seed_reaches_sampling(scenario, tmp_path):
    for seed in (0, 1):
        play(tables(scenario, "none", "scripted:random", trial__seed=seed), tmp_path / f"s{seed}")
    assert done(tmp_path / "s0", "init")["measures"] != done(tmp_path / "s1", "init")["measures"]
    assert done(tmp_path / "s0", "init")["resolved"]["stream"] == done(tmp_path / "s1", "init")["resolved"]["stream"]


def test_batches_do_not_change_what_is_drawn(scenario, tmp_path):
    for width in (1, 7):
        made = tables(scenario, "none", "scripted:random", stream__batch=width, measure__width=width)
        play(made, tmp_path / f"w{width}")
    for row in ("init", "00-room-a", "01-room-b"):
        first, second = (done(tmp_path / f"w{width}", row) for width in (1, 7))
        assert first["measures"] == second["measures"]
        assert first["live"] == second["live"]


def test_rows_last_measures_the_untrained_and_the_last_row(scenario, tmp_path):
    play(tables(scenario, measure__rows="last"), tmp_path / "run")
    assert [bool(row["measures"]) for row in rows(tmp_path / "run")] == [True, False, True]


def test_attempts_are_paired_by_number(scenario, tmp_path):
    play(tables(scenario, "none", "scripted:random", measure__attempts=2), tmp_path / "run")
    cell = done(tmp_path / "run", "init")["measures"][0]["variants"]["learner"][0]
    assert cell["attempts"] == [0, 1] * 16
    assert cell["scores"][::2] != cell["scores"][1::2]


def test_icl_remembers_training_only(scenario, tmp_path):
    play(tables(scenario, "icl", "scripted:oracle", learner__items=3), tmp_path / "run")
    memory = (tmp_path / "run/splits/01-room-b/checkpoint/memory.jsonl").read_text().splitlines()
    assert len(memory) == 32
    assert not any("measured" in line for line in memory)
    notes = (tmp_path / "run/splits/01-room-b/notes.md").read_text()
    assert notes.count("[Episode") == 3
    words = len(notes.removeprefix("# Memory").split())
    assert done(tmp_path / "run", "01-room-b")["updates"]["last"] == {"kept": 32, "dropped": 0, "tokens": words}


def test_two_seats_take_their_policies(tmp_path):
    made = tables(str(PLUGINS / "duel.py"), "none", "scripted:oracle", seats__attacker={"model": "scripted:silent"})
    play(made, tmp_path / "run")
    turns = [json.loads(line) for line in (tmp_path / "run/splits/init/turns.jsonl").read_text().splitlines()]
    assert [(turn["seat"], turn["text"], turn["served"]) for turn in turns[:2]] == [
        ("attacker", "", "scripted:silent"),
        ("learner", "hit", "scripted:oracle"),
    ]
    assert done(tmp_path / "run", "init")["config"]["seats"]["attacker"]["model"] == "scripted:silent"


def test_an_unknown_seat_is_refused(tmp_path):
    made = tables(str(PLUGINS / "duel.py"), "none", seats__atacker={"model": "scripted:silent"})
    with pytest.raises(ClaasbenchError, match="did you mean 'attacker'"):
        play(made, tmp_path / "run")


def test_events_tell_the_story(scenario, tmp_path):
    events = play(tables(scenario), tmp_path / "run")
    assert all(isinstance(event, Event) for event in events)
    kinds = Counter(event.kind for event in events)
    assert kinds == {"start": 1, "play": 5, "episode": 32 * 3 + 32, "update": 2, "commit": 2, "row": 3, "end": 1}


def test_a_shared_measure_has_one_cell(tmp_path):
    made = tables("frozen-lake", "none", "scripted:random", scenario__protocol="oel")
    made["scenario"] |= {"tasks_per_split": 2, "measured_per_split": 4}
    play(made, tmp_path / "run")
    measure = done(tmp_path / "run", "init")["measures"][0]
    assert measure["shared"]
    assert [cell["split"] for cell in measure["variants"]["learner"]] == [""]
