"""What is refused before anything is loaded or written, and what a run's identity covers."""

from dataclasses import dataclass

import pytest

from claasbench import config, registry
from claasbench.errors import ClaasbenchError, InfraError
from claasbench.launch._parts import assemble, configure
from claasbench.streams import check_stream
from claasbench.types import Measure, Split, Stream, Task
from toys import done, password, play, rows, tables


def task(name, kind="k"):
    return Task(name, "c", kind, 0, {})


def stream(names=("a", "b"), ids=("1", "2", "3", "4"), measures=("m",), cells=2, shared=False):
    splits = tuple(Split(name, "k", (task(ids[n]),)) for n, name in enumerate(names))
    made = tuple(task(ids[len(names) + n]) for n in range(min(cells, len(ids) - len(names))))
    return Stream(splits, tuple(Measure(name, tuple((one,) for one in made), shared) for name in measures))


@pytest.mark.parametrize(
    ("made", "fault"),
    [
        (stream(names=("a", "a")), "one name"),
        (stream(names=("a", "x/y")), "no plain file name"),
        (stream(names=("a", "..")), "no plain file name"),
        (stream(ids=("1", "1", "3", "4")), "occurs twice"),
        (stream(ids=("1", "2", "1", "4")), "occurs twice"),
        (stream(measures=()), "no measure"),
        (stream(cells=1), "exactly one cell per split"),
        (stream(cells=2, shared=True), "exactly one cell per split"),
        (Stream((), ()), "no split"),
    ],
)
def test_a_stream_that_could_not_be_told_apart_is_refused(made, fault):
    with pytest.raises(ClaasbenchError, match=fault):
        check_stream(made)


def test_a_sound_stream_passes():
    check_stream(stream())


@pytest.mark.parametrize(
    "made",
    [
        {"policy": 5},
        {"learner": "icl"},
        {"trial": 5},
        {"sampling": {"train": 5}},
        {"seats": {"attacker": 5}},
        {"policy": {"model": 5}},
        {"policy": {"model": "scripted:oracle", "engine": 5}},
        {"seats": {"learner": {"model": "scripted:oracle"}}},
        {"measure": {"names": []}},
        {"policy": {"model": "scripted:oracle", "offline": True}},
    ],
)
def test_ill_formed_tables_are_one_line(made, tmp_path):
    with pytest.raises(ClaasbenchError) as error:
        configure(tables(password(tmp_path)) | made)
    assert "\n" not in str(error.value)


PLUGIN = """
from dataclasses import dataclass
from claasbench.learners.base import Learner
from claasbench.types import Update

@dataclass
class Mine(Learner):
    seen: int = 0

    def observe(self, experiences):
        self.seen += {step}
        yield Update("seen", {{"seen": self.seen}})
{more}
"""
SAVES = """
    def save(self, folder):
        (folder / "seen").write_text(str(self.seen))

    def load(self, folder):
        self.seen = int((folder / "seen").read_text())
"""


def test_a_learner_that_learns_and_is_not_saved_is_refused(tmp_path):
    (tmp_path / "mine.py").write_text(PLUGIN.format(step=1, more=""))
    with pytest.raises(ClaasbenchError, match="does not define both save and load"):
        configure(tables(password(tmp_path), str(tmp_path / "mine.py")))


def test_a_plug_in_that_was_edited_is_another_run(tmp_path):
    made = tables(password(tmp_path), str(tmp_path / "mine.py"))
    (tmp_path / "mine.py").write_text(PLUGIN.format(step=1, more=SAVES))
    play(made, tmp_path / "run")
    (tmp_path / "mine.py").write_text(PLUGIN.format(step=2, more=SAVES))
    with pytest.raises(ClaasbenchError, match=r"resolved\.plugins\.learner"):
        play(made, tmp_path / "run", resume=True)


def test_one_plug_in_has_one_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    password(tmp_path)
    tasks = {"tasks_per_split": 1, "measured_per_split": 1}
    prints = set()
    for name in ("pass_word.py", "./pass_word.py", str(tmp_path / "pass_word.py")):
        parts = assemble(configure({**tables(name), "scenario": {"name": name, **tasks}}))
        prints.add(config.digest(parts.config.tables(), parts.resolved))
    assert len(prints) == 1
    assert registry.canonical("scenarios", "frozen_lake") == "frozen-lake"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("import nothing_like_this", "ModuleNotFoundError"),
        ("def broken(:", "SyntaxError"),
        ("x = 1", "exactly one public Learner"),
        ("from claasbench.learners.base import Learner\nclass Mine(Learner):\n    pass", "is no dataclass"),
    ],
)
def test_a_broken_plug_in_is_one_line(text, said, tmp_path):
    (tmp_path / "mine.py").write_text(text)
    with pytest.raises(ClaasbenchError, match=said) as error:
        configure(tables(password(tmp_path), str(tmp_path / "mine.py")))
    assert "\n" not in str(error.value)


def test_an_abstract_plug_in_names_what_it_lacks(tmp_path):
    text = "from dataclasses import dataclass\nfrom claasbench.scenarios.base import Scenario\n"
    (tmp_path / "mine.py").write_text(text + "@dataclass\nclass Mine(Scenario):\n    pass")
    with pytest.raises(ClaasbenchError, match="lacks bounds, play, stream"):
        configure(tables(str(tmp_path / "mine.py")))


@pytest.mark.parametrize(
    "value", ["x", 'quo"te', "new\nline", "tab\t\x7f", "smile 😀", 5, 1.5, True, ["a", 2], {"k": [1]}]
)
def test_a_literal_is_read_back_as_written(value):
    made = {}
    config.assign(made, f"a.b={config.literal(value)}")
    assert made == {"a": {"b": value}}


def test_a_kind_that_never_changes_is_no_return(tmp_path):
    made = tables("frozen-lake", "none", "scripted:silent", scenario__protocol="oel")
    made["scenario"] |= {"tasks_per_split": 1, "measured_per_split": 1}
    play(made, tmp_path / "oel")
    made["scenario"] |= {"protocol": "return"}
    play(made, tmp_path / "return")
    assert done(tmp_path / "oel", "init")["returns"] is False
    assert done(tmp_path / "return", "init")["returns"] is True


def test_rows_with_failures_are_not_copied(tmp_path):
    made = tables(password(tmp_path), "none", "scripted:oracle")
    parts = assemble(configure(made))
    policy = parts.seats["learner"]
    answer, calls = policy.sample, []

    def out_for_a_moment(requests):
        calls.append(len(requests))
        if len(calls) <= 3:
            raise InfraError("gone")
        return answer(requests)

    policy.sample = out_for_a_moment
    run_parts(parts, tmp_path / "run")
    found = rows(tmp_path / "run")
    assert [row["copied"] for row in found] == [None, None, "00-room-a"]
    counts = [cell["counts"] for cell in found[0]["measures"][0]["variants"]["learner"]]
    assert sum(count["failed"] for count in counts) == 32
    assert sum(count["retries"] for count in counts) == 64
    assert all(score is None for cell in found[0]["measures"][0]["variants"]["learner"] for score in cell["scores"])


def run_parts(parts, folder):
    from claasbench import store
    from claasbench.runner import Runner

    digest = config.digest(parts.config.tables(), parts.resolved)
    held = store.new(folder, {**parts.config.tables(), "resolved": parts.resolved}, digest)
    list(Runner(parts.config, parts.resolved, parts.scenario, parts.learner, parts.seats, held).events())
    held.close()


@dataclass
class Odd:
    either: list[int] | str = ""


def test_a_union_takes_each_of_its_types():
    assert config.build(Odd, {"either": [1, 2]}, "t").either == [1, 2]
    assert config.build(Odd, {"either": "x"}, "t").either == "x"
    with pytest.raises(ClaasbenchError, match=r"t\.either"):
        config.build(Odd, {"either": 1.5}, "t")
