import subprocess
import sys

import pytest

from claasbench import store
from claasbench.config import differing
from claasbench.errors import ClaasbenchError, Halted


def save(folder):
    (folder / "learner").mkdir()
    (folder / "learner" / "state").write_text("x")


def begun(folder):
    held = store.new(folder, {"a": {"b": 1}}, "d1")
    held.append("updates.jsonl", [{"n": 1}])
    held.commit({"row": 0, "phase": "train", "batch": 0}, save)
    return held


def again(folder, config=None, digest="d1"):
    return store.resume(folder, config or {"a": {"b": 1}}, digest, differing)


def test_resume_cuts_what_was_not_committed_and_says_so(tmp_path):
    held = begun(tmp_path)
    held.append("updates.jsonl", [{"n": 2}])
    with (tmp_path / "updates.jsonl").open("a") as file:
        file.write('{"n": 3')  # a torn last line
    held.write("splits/init/done.json", b"{}")
    held.close()
    held = again(tmp_path)
    assert (tmp_path / "updates.jsonl").read_text() == '{"n":1}\n'
    assert not (tmp_path / "splits").exists()
    assert held.repaired == [
        "removed splits/init/done.json, which was not committed",
        "cut 15 uncommitted bytes off updates.jsonl",
    ]
    assert (held.live / "learner" / "state").read_text() == "x"
    held.close()


def test_a_file_shorter_than_its_commit_is_damage(tmp_path):
    begun(tmp_path).close()
    (tmp_path / "updates.jsonl").write_text("")
    with pytest.raises(ClaasbenchError, match=r"updates\.jsonl.*damaged"):
        again(tmp_path)


def test_another_configuration_is_refused_by_key(tmp_path):
    begun(tmp_path).close()
    with pytest.raises(ClaasbenchError, match=r"a\.b: 1 -> 2"):
        again(tmp_path, {"a": {"b": 2}}, "d2")


def test_a_used_folder_is_refused_and_left_alone(tmp_path):
    (tmp_path / "mine.txt").write_text("keep")
    for start in (lambda: store.new(tmp_path, {}, "d"), lambda: again(tmp_path), lambda: store.clean(tmp_path)):
        with pytest.raises(ClaasbenchError):
            start()
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_clean_removes_a_run_and_nothing_else(tmp_path):
    begun(tmp_path).close()
    (tmp_path / "mine.txt").write_text("keep")
    with pytest.raises(ClaasbenchError, match=r"mine\.txt"):
        store.clean(tmp_path)
    assert (tmp_path / "digest.txt").exists()
    (tmp_path / "mine.txt").unlink()
    store.clean(tmp_path)
    assert not store.used(tmp_path)


def test_resume_touches_no_file_of_the_user(tmp_path):
    begun(tmp_path).close()
    (tmp_path / "mine.txt").write_text("keep")
    (tmp_path / "report").mkdir()
    (tmp_path / "report/report.md").write_text("keep")
    again(tmp_path).close()
    assert (tmp_path / "mine.txt").exists()
    assert (tmp_path / "report/report.md").exists()


@pytest.mark.parametrize("left", [[], ["config.json"], ["config.json.tmp"], ["config.json", "digest.txt.tmp"]])
def test_a_start_killed_at_once_can_be_resumed(tmp_path, left):
    for name in left:
        (tmp_path / name).write_text("half")
    held = again(tmp_path)
    assert held.cursor == {}
    held.close()


def test_one_process_at_a_time(tmp_path):
    held = begun(tmp_path)
    code = (
        "from pathlib import Path; from claasbench import store\n"
        "try: store.resume(Path(__import__('sys').argv[1]), {}, 'd1', lambda a, b: [])\n"
        "except Exception as error: print(error)"
    )
    found = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True)
    assert "is in use by process" in found.stdout
    assert store.holder(tmp_path).startswith("process")
    held.close()
    assert store.holder(tmp_path) == ""


def test_a_full_disk_stops_in_one_line_and_the_commit_stands(tmp_path):
    held = begun(tmp_path)
    (tmp_path / "timing.jsonl").symlink_to("/dev/full")
    with pytest.raises(Halted, match=r"no room to write .*timing\.jsonl.*--resume"):
        held.append("timing.jsonl", [{"n": 2}])
    assert Halted.code == 1
    held.close()
    (tmp_path / "timing.jsonl").unlink()
    held = again(tmp_path)
    assert held.cursor == {"row": 0, "phase": "train", "batch": 0}
    held.close()


def test_lines_refuse_nan():
    with pytest.raises(ValueError, match="not JSON compliant"):
        store.line({"x": float("nan")})
