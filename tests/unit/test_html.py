"""The page: which episodes it holds, that nothing a run recorded can be more than text, and what its policy allows."""

import base64
import hashlib
import json
import re

import pytest

import fake_results as fake
from claasbench.errors import ClaasbenchError
from claasbench.report import episodes, html, load, numbers
from toys import command

SPLITS = ["4x4", "5x5"]
HOSTILE = "</script><script>document.title='hacked'</script><img src=x onerror=\"document.title='hacked'\">&lt;b&gt;"
CONTROL = "\x1b[31mred\x1b[0m \u202eright to left\u202c \ud800 zero\u200bwidth"


@pytest.fixture
def run(tmp_path):
    rows = [[fake.ones(2, 4), fake.ones(1, 4)]] * 3
    return fake.write(tmp_path / "icl" / "o0-s0", SPLITS, rows, [fake.ones(1, 4)] * 2)


def study(*paths):
    return numbers.study(load.load(paths))


def sample(run, **limits):
    return episodes.sample(study(run).sections, **limits)


def many(run, n, failed=()):
    rows = [
        (
            {"task": f"t{k}", "score": None, "status": "infra_error"} if k in failed else {"task": f"t{k}"},
            [{"text": "x"}],
        )
        for k in range(n)
    ]
    fake.episodes(run, "init", rows)


def page(run):
    return html.page(study(run))


def data(text):
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.S)[1])


def test_few_episodes_are_all_there_with_their_turns(run):
    fake.episodes(run, "init", [({"task": "a"}, [{"news": "see", "text": "do", "feedback": "so", "reward": 1.0}])])
    fake.episodes(run, "01-5x5", [({"task": "a", "score": 0.0}, []), ({"task": "b", "score": 0.5}, [])])
    found = sample(run)
    assert found.told == "All 3 recorded episodes."
    assert [(one["row"], one["task"], one["outcome"]) for one in found.episodes] == [
        ("init", "a", "won"),
        ("01-5x5", "a", "lost"),
        ("01-5x5", "b", "in part"),
    ]
    assert found.episodes[0]["turns"] == [
        {
            "reward": 1.0,
            "news": "see",
            "text": "do",
            "feedback": "so",
            "seat": "learner",
            "finish": "stop",
            "served": "",
        }
    ]
    assert found.episodes[0]["show"] == f"claasbench show {run} --row init --task a"


def test_training_and_measured_episodes_of_one_task_keep_their_own_turns(run):
    fake.episodes(run, "00-4x4", [({"task": "a"}, [{"text": "measured"}])])
    place = run / "splits" / "00-4x4"
    heads, turns = (place / f"{name}.jsonl" for name in ("episodes", "turns"))
    head, turn = json.loads(heads.read_text()), json.loads(turns.read_text())
    for row in (head, turn):
        row.pop("measure"), row.pop("variant")
    heads.write_text(heads.read_text() + json.dumps(head) + "\n")
    turns.write_text(turns.read_text() + json.dumps({**turn, "text": "trained"}) + "\n")
    told = {one["measure"]: [turn["text"] for turn in one["turns"]] for one in sample(run).episodes}
    assert told == {"held-out": ["measured"], "training": ["trained"]}


def test_of_many_all_failed_ones_come_first_and_the_sample_is_the_same_every_time(run):
    many(run, 400, failed=range(0, 400, 40))
    found = sample(run, most=50)
    assert found.told == "50 of 400 recorded episodes: all 10 that failed, then a seeded sample of the others."
    tasks = [int(one["task"][1:]) for one in found.episodes]
    assert tasks == sorted(tasks)
    assert set(range(0, 400, 40)) < set(tasks)
    assert found == sample(run, most=50)
    spread = [sum(start <= task < start + 100 for task in tasks) for start in range(0, 400, 100)]
    assert min(spread) >= 4, "a sample comes from everywhere"


def test_more_failures_than_room_are_said(run):
    many(run, 30, failed=range(20))
    assert sample(run, most=5).told.startswith("5 of 30 recorded episodes: 5 of the 20 that failed")


def test_the_page_keeps_its_size(run):
    fake.episodes(run, "init", [({"task": f"t{k}"}, [{"text": "x" * 100_000}] * 3) for k in range(20)])
    found = sample(run, room=100_000)
    assert 2 <= len(found.episodes) < 20
    assert len(json.dumps(found.episodes)) <= 100_000
    text = found.episodes[0]["turns"][0]["text"]
    assert len(text) < episodes.TEXT + 100
    assert "94000 characters left out" in text


def test_runs_without_episodes_say_so(run):
    assert "only their done.json files were kept" in page(run)


def test_a_row_that_is_being_written_is_read_up_to_its_last_whole_line(run):
    many(run, 3)
    with (run / "splits" / "init" / "episodes.jsonl").open("a") as file:
        file.write('{"task": "t3", "att')
    assert len(sample(run).episodes) == 3


def test_a_damaged_line_is_refused_by_file_and_number(run):
    many(run, 3)
    file = run / "splits" / "init" / "turns.jsonl"
    file.write_text(file.read_text().replace('{"task":"t1"', '{"task:"t1"').replace('{"task": "t1"', '{"task: "t1"'))
    with pytest.raises(ClaasbenchError, match=r"turns\.jsonl' is damaged: line 2 is no JSON"):
        sample(run)


def test_what_cannot_be_seen_is_spelled_out():
    angle = "\N{LEFT-POINTING ANGLE BRACKET}U+{}\N{RIGHT-POINTING ANGLE BRACKET}"
    assert episodes.shown("a\n\tb é 😀") == "a\n\tb é 😀"
    shown = episodes.shown(CONTROL)
    assert shown.startswith(angle.format("001B") + "[31mred")
    assert all(angle.format(code) in shown for code in ("202E", "202C", "D800", "200B"))
    shown.encode()


def test_hostile_text_is_text(run):
    turns = [{"seat": HOSTILE, "news": HOSTILE, "text": HOSTILE + CONTROL, "feedback": HOSTILE}]
    head = {"task": HOSTILE, "end": HOSTILE, "attacks": [f"{HOSTILE}/x"]}
    fake.episodes(run, "init", [(head, turns)])
    fake.edit(run, lambda done: done["resolved"]["facts"].update({HOSTILE: HOSTILE}))
    text = page(run)
    text.encode()
    assert text.count("<script") == text.count("</script>") == 2
    assert "<img src=x" not in text
    assert data(text)[0]["turns"][0]["news"] == HOSTILE
    assert "&lt;img src=x" in text


def test_the_policy_allows_the_scripts_and_styles_of_the_page_and_nothing_else(run):
    text = page(run)
    policy = re.search(r'Content-Security-Policy" content="(.*?)"', text)[1].replace("&#39;", "'")
    found = dict(part.split(" ", 1) for part in policy.split("; "))
    assert found.keys() == {"default-src", "img-src", "style-src", "script-src"}
    assert (found["default-src"], found["img-src"]) == ("'none'", "data:")
    for name, tag in (("style-src", "style"), ("script-src", "script")):
        body = re.search(rf"<{tag}>(.*?)</{tag}>", text, re.S)[1]
        assert found[name] == f"'sha256-{base64.b64encode(hashlib.sha256(body.encode()).digest()).decode()}'"
    assert not re.search(r"""\s(on\w+|style)=["']""", text)
    assert not re.search(r"""(?:src|href)=["'](?!data:|#)""", text)


def test_it_shows_what_each_method_sees_and_where_its_numbers_come_from(run):
    text = page(run)
    assert '<th scope="col">Learns from</th>' in text
    digest = json.loads((run / "splits" / "init" / "done.json").read_text())["digest"]
    assert f">{digest[:12]}</td>" in text
    assert text.count("data:image/svg+xml;base64,") == 2  # curves and live


def test_the_command_writes_one_file(run, tmp_path):
    file = tmp_path / "deep" / "page.html"
    code, out, err = command("report", str(run), "--html", str(file))
    assert (code, out, err) == (0, "", f"wrote {file}\n")
    assert file.read_text().startswith("<!doctype html>")
    assert not (run / "report").exists()
    code, _, err = command("report", str(run), "--html", str(file), "--json")
    assert code == 2
    assert "one format at a time" in err
