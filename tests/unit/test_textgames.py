"""The two text games on the real engine: streams, refusals, facts and the process around them."""

import json
import random
import subprocess
import sys
import threading

import pytest

from claasbench import registry
from claasbench.config import build
from claasbench.errors import ClaasbenchError
from claasbench.scenarios import _engine, _manifest
from claasbench.scenarios.frozen_lake import FrozenLake
from claasbench.scenarios.sokoban import Sokoban
from claasbench.types import Sample, content_hash
from toys import played

GAMES = (FrozenLake, Sokoban)
PROTOCOLS = ("shift", "drift", "return", "oel")


def boards(tasks):
    return [tuple(task.data["board"]) for task in tasks]


def everything(stream):
    train = [task for split in stream.splits for task in split.train]
    return train + [task for cell in stream.measures[0].cells for task in cell]


# --- streams


@pytest.mark.parametrize("data", ["main", "dev"])
@pytest.mark.parametrize(
    ("game", "protocol", "names"),
    [
        (FrozenLake, "shift", ["4x4", "4x4-mirrored", "4x4-exchanged", "5x5"]),
        (FrozenLake, "return", ["4x4", "4x4-mirrored", "4x4-exchanged", "5x5", "4x4-again"]),
        (Sokoban, "drift", ["6x6", "7x7", "6x6-two-boxes"]),
        (Sokoban, "return", ["6x6", "7x7", "6x6-two-boxes", "6x6-again"]),
    ],
)
def test_splits_and_sizes(game, protocol, names, data):
    stream = game(protocol, data).stream(0)
    assert [split.name for split in stream.splits] == names
    assert [len(split.train) for split in stream.splits] == [32] * len(names)
    (measure,) = stream.measures
    assert (measure.name, measure.shared) == ("held-out", False)
    assert [len(cell) for cell in measure.cells] == [64] * len(names)
    kinds = [split.kind for split in stream.splits]
    assert len(set(kinds)) == len(kinds) - (protocol == "return")
    if protocol == "return":
        assert kinds[-1] == kinds[0]
        assert boards(measure.cells[-1]) == boards(measure.cells[0])


@pytest.mark.parametrize("game", GAMES)
def test_oel_has_the_seeds_of_the_reference(game):
    stream = game("oel").stream(7)
    assert [task.seed for task in stream.measures[0].cells[0]] == [468460046 + 1000 * i for i in range(128)]
    assert stream.measures[0].shared
    for r, split in enumerate(stream.splits, start=1):
        extraction = [468460046 + 500000 * r + 1000 * (128 + j) for j in range(25)]
        deploy = [505209463 + 10**7 * (r - 1) + 1000 * t for t in range(64, 64 + 1280)]
        assert split.name == f"round-{r}"
        assert [task.seed for task in split.train] == extraction + deploy
        assert {task.data["calls"] for task in split.train} == {5}


@pytest.mark.parametrize("game", GAMES)
def test_boards_are_disjoint_as_promised(game):
    main, dev = (game("return", data).stream(0) for data in ("main", "dev"))
    for stream in (main, dev):
        own = [task for split in stream.splits for task in split.train]
        own += [task for cell in stream.measures[0].cells[:-1] for task in cell]
        assert len(set(boards(own))) == len(own)  # by board, so also splits 1 and 3, and train and measured
        again = stream.measures[0].cells[-1]
        assert [task.content for task in again] == [task.content for task in stream.measures[0].cells[0]]
    contents = [{task.content for task in everything(stream)} for stream in (main, dev)]
    assert not contents[0] & contents[1]
    for index, (left, right) in enumerate(zip(main.splits, dev.splits, strict=True)):
        mine, other = (
            {*boards(split.train), *boards(stream.measures[0].cells[index])}
            for split, stream in ((left, main), (right, dev))
        )
        assert not mine & other


def test_oel_dev_leaves_out_the_boards_of_main_where_boards_suffice():
    contents = [{task.content for task in everything(Sokoban("oel", data).stream(0))} for data in ("main", "dev")]
    assert not contents[0] & contents[1]
    lakes = [{task.content for task in everything(FrozenLake("oel", data).stream(0))} for data in ("main", "dev")]
    assert len(lakes[0]) == 19
    assert lakes[0] == lakes[1]


@pytest.mark.parametrize("game", GAMES)
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_order_permutes_training_tasks_inside_a_split_only(game, protocol):
    first, second = (game(protocol).stream(order) for order in (0, 1))
    assert first.measures == second.measures
    for left, right in zip(first.splits, second.splits, strict=True):
        assert (left.name, left.kind) == (right.name, right.kind)
        assert {task.id: task for task in left.train} == {task.id: task for task in right.train}
        assert (left.train == right.train) == (protocol == "oel")
    assert game(protocol).stream(1) == second


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_ids_are_unique_and_contents_hash_the_data(protocol):
    tasks = everything(FrozenLake(protocol).stream(0))
    assert len({task.id for task in tasks}) == len(tasks)
    for task in tasks[:20]:
        assert task.content == content_hash(json.loads(json.dumps(task.data)))
        assert task.id.startswith(task.content[:16])


def test_smaller_streams_take_the_first_of_the_manifest():
    small = Sokoban(splits=2, tasks_per_split=5, measured_per_split=3)
    full = _manifest.load("sokoban", "shift").shelves["6x6"].sets
    first, second = small.stream(0), small.stream(3)
    assert [split.name for split in first.splits] == ["6x6", "7x7"]
    for stream in (first, second):
        assert {task.seed for task in stream.splits[0].train} == {seed for seed, _ in full["main/train"][:5]}
        assert [task.seed for task in stream.measures[0].cells[0]] == [seed for seed, _ in full["main/measured"][:3]]


# --- refusals


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"protocol": "shfit"}, "scenario.protocol = 'shfit' is unknown: did you mean 'shift'"),
        ({"data": "test"}, "scenario.data = 'test' is unknown"),
        ({"splits": 5}, r"scenario.splits = 5 is not allowed: 0 \(all\) to 4"),
        ({"splits": -1}, "scenario.splits"),
        ({"tasks_per_split": 33}, r"scenario.tasks_per_split = 33 is not allowed: 0 \(all\) to 32"),
        ({"measured_per_split": 65}, r"scenario.measured_per_split = 65 is not allowed: 0 \(all\) to 64"),
    ],
)
def test_wrong_settings_are_named(settings, message):
    with pytest.raises(ClaasbenchError, match=message):
        FrozenLake(**settings).stream(0)


def test_the_registry_finds_both_and_their_settings_are_strict():
    assert registry.find("scenarios", "frozen-lake") is FrozenLake
    assert registry.find("scenarios", "sokoban") is Sokoban
    assert build(Sokoban, {"protocol": "drift", "splits": 1}, "scenario") == Sokoban("drift", splits=1)
    with pytest.raises(ClaasbenchError, match="unknown"):
        build(Sokoban, {"protocoll": "drift"}, "scenario")


def test_another_textarena_is_refused(monkeypatch):
    scenario = FrozenLake()
    task = scenario.stream(0).splits[0].train[0]
    monkeypatch.setattr(_engine, "version", lambda name: "0.7.3")
    for attempt in (lambda: scenario.stream(0), lambda: next(scenario.play(task))):
        with pytest.raises(ClaasbenchError, match=r"textarena 0\.7\.4, found 0\.7\.3") as caught:
            attempt()
        assert "\n" not in str(caught.value)


def test_a_changed_manifest_is_refused(monkeypatch, tmp_path):
    name = "frozen-lake-shift.json"
    body = (_manifest.FOLDER / name).read_text(encoding="utf-8")
    (tmp_path / name).write_text(body.replace('"calls": 10', '"calls": 11', 1), encoding="utf-8")
    monkeypatch.setattr(_manifest, "FOLDER", tmp_path)
    with pytest.raises(ClaasbenchError, match=r"frozen-lake-shift\.json was changed: .* expected"):
        _manifest.load.__wrapped__("frozen-lake", "shift")


def test_another_board_than_the_manifests_is_refused():
    scenario = FrozenLake()
    one, two = scenario.stream(0).splits[0].train[:2]
    swapped = type(one)(one.id, one.content, one.kind, two.seed, one.data)
    with pytest.raises(ClaasbenchError, match=f"seed {two.seed}: .*{two.data['hash']}.* expects .*{one.data['hash']}"):
        next(scenario.play(swapped))


# --- what the process keeps


def test_importing_a_game_is_light():
    code = "import sys, claasbench.scenarios.frozen_lake, claasbench.scenarios.sokoban; print(sorted(sys.modules))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert not [name for name in ("textarena", "numpy", "torch") if f"'{name}'" in loaded]


@pytest.mark.parametrize("game", GAMES)
def test_play_leaves_the_global_random_state_and_standard_output_alone(game, capsys):
    scenario = game()
    task = scenario.stream(0).splits[0].train[0]
    random.seed(5)
    before = random.getstate()
    played(scenario, task, ["[left]", "[up]", "[right]"])
    assert random.getstate() == before
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("game", GAMES)
def test_interleaved_episodes_equal_the_same_ones_alone(game):
    scenario = game()
    tasks = scenario.stream(0).splits[0].train[:2]
    answers = ["[left]", "[up]", "[down]", "[right]", "[right]", "[down]"] * 3
    alone = [played(scenario, task, answers) for task in tasks]
    plays = [scenario.play(task) for task in tasks]
    seen, ends = [[next(play)] for play in plays], [None, None]
    for answer in answers:
        for index in (0, 1):
            if ends[index] is None:
                try:
                    seen[index].append(plays[index].send(Sample(answer)))
                except StopIteration as stop:
                    ends[index] = stop.value
    assert list(zip(seen, ends, strict=True)) == alone


def test_threads_never_get_each_others_boards():
    scenario = Sokoban()
    tasks = scenario.stream(0).splits[0].train[:16]
    wrong = []

    def play(task):
        try:
            next(scenario.play(task))
        except ClaasbenchError as error:
            wrong.append(error)

    threads = [threading.Thread(target=play, args=(task,)) for task in tasks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


# --- facts


@pytest.mark.parametrize(
    ("scenario", "train", "measured", "seen"),
    [
        (FrozenLake(), 128, 256, 0.0),
        (FrozenLake("oel"), 19, 19, 1.0),
        (Sokoban("return"), 128, 192, 0.0),
        (Sokoban("oel"), 2264, 121, 76 / 128),
    ],
)
def test_facts_count_boards_and_the_share_seen(scenario, train, measured, seen):
    facts = json.loads(json.dumps(scenario.facts()))
    assert facts["textarena"] == "0.7.4"
    assert facts["protocol"] == scenario.protocol
    assert (facts["boards_train"], facts["boards_measured"], facts["seen_share"]) == (train, measured, seen)
    assert ("Only 19 boards" in facts.get("note", "")) == (scenario == FrozenLake("oel"))


def test_sampling_follows_the_protocol():
    assert (FrozenLake().sampling().temperature, FrozenLake().sampling().max_tokens) == (1.0, 64)
    oel = Sokoban("oel").sampling()
    assert (oel.temperature, oel.top_p, oel.top_k, oel.max_tokens) == (0.7, 0.8, 20, 1024)
