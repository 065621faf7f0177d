"""The measure of retention: its forms, its tasks, and its place beside a scenario's own measures."""

import pytest

from claasbench import prompts
from claasbench.scenarios import _retention as retention
from claasbench.scenarios.frozen_lake import FrozenLake
from claasbench.types import LEARNER, Sample

KEPT = [
    ("lower", "", "so it is, 5 times.", "So it is."),
    ("lower", "", "ok", "12 34"),
    ("upper", "", "SO IT IS.", "SO it IS."),
    ("words", 3, "one, two  three.", "one two"),
    ("words", 3, "one\ntwo\nthree", "one two three four"),
    ("lines", 2, "a\nb", "a\n\nb"),
    ("lines", 2, "a\nb", "a\nb\nc"),
    ("bullets", 2, "* a\n* b", "* a\nb"),
    ("bullets", 2, "* a\n* b", "- a\n- b"),
    ("bullets", 2, "* a\n* b", "Here:\n* a\n* b"),
    ("bullets", 2, "* a\n* b", "* a\n*  "),
    ("opening", "In short:", "In short: yes.", "in short: yes."),
    ("ending", "Good day!", "Yes. Good day!", "Good day! Yes."),
    ("json", "text", '{"text": "yes"}', '{"text": "yes", "more": 1}'),
    ("json", "text", '{"text": "yes"}', '```json\n{"text": "yes"}\n```'),
    ("json", "text", '{"text": "yes"}', '{"text": 5}'),
    ("json", "text", '{"text": "yes"}', '{"text": " "}'),
    ("json", "text", '{"text": "yes"}', "[" * 100_000),
    ("twice", "maybe", "Maybe yes, maybe no.", "maybe, maybe, maybe"),
    ("twice", "maybe", "Maybe yes, maybe no.", "maybes maybe"),
    ("quoted", "", '"yes"', '"yes" and "no"'),
    ("quoted", "", '"yes"', '""'),
]


@pytest.mark.parametrize(("form", "value", "right", "wrong"), KEPT)
def test_a_form_is_kept_or_not(form, value, right, wrong):
    data = {"form": form, "value": value}
    assert retention.kept(data, right)
    assert retention.kept(data, f"\n {right} \n")  # blanks around an answer are nobody's fault
    assert not retention.kept(data, wrong)


def test_every_task_can_be_kept_and_neither_silence_nor_a_refusal_keeps_one():
    tasks = retention.tasks()
    assert len(tasks) == 40 == len({task.content for task in tasks})
    assert tasks == retention.tasks()
    for task in tasks:
        assert retention.kept(task.data, retention.FORMS[task.data["form"]].witness(task.data["value"]))
        assert not retention.kept(task.data, "")
        assert not retention.kept(task.data, prompts.piece("retention", "refusal"))


def test_a_value_is_told_to_the_model():
    for task in retention.tasks():
        (message,) = next(retention.episode(task)).messages
        assert message.role == "user"
        assert str(task.data["value"]) in message.content
        assert task.data["request"] in message.content


def ended(task, sample):
    play = retention.episode(task)
    next(play)
    with pytest.raises(StopIteration) as end:
        play.send(sample)
    return end.value.value


def test_an_answer_counts_without_its_thinking_and_not_where_it_was_cut():
    task = next(task for task in retention.tasks() if task.data["form"] == "lower")
    assert ended(task, Sample("so it is")).score == 1
    assert ended(task, Sample("<think>Hm.</think>so it is")).score == 1
    assert ended(task, Sample("so it is", finish="length")).score == 0
    assert ended(task, Sample("<think>so it is")).score == 0


def test_it_stands_beside_the_measures_of_any_scenario():
    inner = FrozenLake()
    scenario = retention.Retained(inner)
    stream = scenario.stream(3)
    assert stream.splits == inner.stream(3).splits
    assert stream.measures[:-1] == inner.stream(3).measures
    measure = stream.measures[-1]
    assert (measure.name, measure.shared, measure.cells) == ("retention", True, (retention.tasks(),))
    assert scenario.bounds(measure.cells[0]) == (0, 1, 1)
    held_out = stream.measures[0].cells[0]
    assert scenario.bounds(held_out) == inner.bounds(held_out)
    assert scenario.length(measure.cells[0][0]) == 1
    assert scenario.length(held_out[0]) == inner.length(held_out[0])
    assert next(scenario.play(held_out[0])).messages == next(inner.play(held_out[0])).messages
    assert (scenario.credit, scenario.seats, scenario.batch) == ("episode", (LEARNER,), 16)
