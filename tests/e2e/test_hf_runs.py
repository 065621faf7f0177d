"""Whole runs with a real (tiny, random) language model: no network, equal bytes, exact accounting."""

import json
import socket

import pytest

from tiny import tiny_model
from toys import command, done, fingerprint

SMALL = ["--set", "scenario.tasks_per_split=2", "--set", "scenario.measured_per_split=2", "--set", "scenario.splits=2"]
SHORT = ["--set", "sampling.train.max_tokens=6", "--set", "sampling.measure.max_tokens=6"]
MEMORY = ["--set", "learner.memory_tokens=1500"]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return tiny_model(tmp_path_factory.mktemp("model"), context=8192)


def run(model, folder, *words, method="icl"):
    return command(
        "run", "frozen-lake", "--method", method, "--model", str(model), "--out", str(folder), *SMALL, *words
    )


@pytest.fixture
def no_network(monkeypatch):
    def refuse(*args, **kwargs):
        raise AssertionError("a socket was opened")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "create_connection", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


@pytest.mark.usefixtures("no_network")
def test_a_run_offline_opens_no_socket(model, tmp_path):
    code, _, err = run(model, tmp_path / "run", "--offline", *SHORT, *MEMORY)
    assert code == 0, err
    config = json.loads((tmp_path / "run/config.json").read_text())
    assert "offline" not in config["policy"]


def test_two_runs_are_byte_equal_and_count_their_tokens(model, tmp_path):
    for name in ("one", "two"):
        code, _, err = run(model, tmp_path / name, *SHORT, *MEMORY)
        assert code == 0, err
    assert fingerprint(tmp_path / "one") == fingerprint(tmp_path / "two")
    row = done(tmp_path / "one", "01-4x4-mirrored")
    cells = row["measures"][0]["variants"]["learner"]
    counts = [cell["counts"] for cell in cells]
    assert all(c["reply_tokens"] <= 6 * c["turns"] for c in counts)
    assert all(0 < c["prefilled"] < c["prompt_tokens"] for c in counts)
    assert row["served"].startswith("v0-")
    assert row["resolved"]["policies"]["learner"]["device"] == "cpu"


def test_memory_that_leaves_no_room_is_overflow_not_a_cut_prompt(model, tmp_path):
    memory = ["--set", "learner.memory_tokens=100000", "--set", "policy.context=1900"]
    code, _, err = run(model, tmp_path / "run", *SHORT, *memory)
    assert code == 0, err
    cells = done(tmp_path / "run", "01-4x4-mirrored")["measures"][0]["variants"]["learner"]
    assert sum(cell["counts"]["overflow"] for cell in cells) > 0
    assert all(
        score == 0.0 for cell in cells for score, s in zip(cell["scores"], cell["statuses"], strict=True) if s != "ok"
    )


def test_a_template_argument_reaches_the_prompt(model):
    words = ["run", "frozen-lake", "--method", "none", "--model", str(model), "--dry-run"]
    plain = command(*words)[1]
    argued = command(*words, "--set", "policy.template.enable_thinking=false")[1]
    assert "<think></think>" not in plain
    assert argued.rstrip().endswith("<|im_start|>assistant\n<think></think>")


def test_the_first_prompt_is_shown_as_rendered(model):
    _, out, _ = command("run", "sokoban", "--method", "none", "--model", str(model), "--dry-run")
    prompt = out.partition("first prompt (")[2]
    tokens, _, text = prompt.partition(" tokens):\n")
    assert text.startswith("<|im_start|>user\nYou play a game on a grid")
    assert (
        int(tokens)
        == len(text.rstrip("\n").encode()) - sum(len(s) - 1 for s in ("<|im_start|>",) * 2 + ("<|im_end|>",)) + 1
    )
