"""Published numbers against ours: which runs they are compared with, the verdicts, and files that are wrong."""

import json

import pytest

import fake_results as fake
from claasbench.errors import ClaasbenchError
from claasbench.report import check, load, published
from toys import command

SPLITS = ["a", "b"]
HEAD = 'source = "A paper"\nscenario = "frozen-lake"\nmodel = "smollm2"\nstatus = "table"\nmethod = "icl"\n'


@pytest.fixture
def study(tmp_path):
    """Four trials with finals of 50, 60, 50 and 60 points; the untrained row has 20."""
    for k in range(4):
        rows = [[fake.ones(2, 10)] * 2, [fake.ones(9, 10), fake.ones(3, 10)], [fake.ones(5 + k % 2, 10)] * 2]
        folder = tmp_path / "icl" / f"o{k}-s{k}"
        fake.write(folder, SPLITS, rows, (), fake.config(order=k, seed=k))
    return tmp_path


@pytest.fixture
def against(tmp_path):
    def write(*numbers, head=HEAD):
        path = tmp_path / "published.toml"
        path.write_text(head + "".join(f"[[number]]\n{number}\n" for number in numbers))
        return path

    return write


def checked(study, path):
    return check.check(published.read(path), load.load([study]))


def verdicts(study, path):
    return [one.verdict for one in checked(study, path)]


def test_met_missed_and_undecided(study, against):
    path = against(
        'metric = "final"\nvalue = 55\nerror = 0.1\nmargin = 7',  # 90 % interval: 55 +- t(.95, 3) * 2.887 = 6.79
        'metric = "final"\nvalue = 55\nerror = 0.1\nmargin = 6.5',
        'metric = "final"\nvalue = 80\nerror = 0.1',
        'metric = "forward"\nvalue = 30\nerror = 1.0\ntrials = 9',
    )
    found = checked(study, path)
    assert [one.verdict for one in found] == ["met", "undecided", "missed", "met"]
    assert found[0].values == pytest.approx([50, 60, 50, 60])
    assert found[0].gap.interval.high == pytest.approx(2.3534 * 2.8868, abs=0.02)
    assert check.exit_code(found) == 1


def test_a_row_and_a_length(study, against):
    for path in study.glob("icl/*"):
        fake.edit(path, shorter, "01-*")
    numbers = ("row = -1\nvalue = 20", "row = 0\nvalue = 60", "row = 1\nvalue = 55")
    path = against(*(f'metric = "row"\n{number}' for number in numbers), 'metric = "length"\nrow = 1\nvalue = 50')
    means = [sum(one.values) / len(one.values) for one in checked(study, path)]
    assert means == pytest.approx([20, 60, 55, 50])


def shorter(done):
    for measure in done["measures"]:
        for cell in measure["variants"]["learner"]:
            cell["counts"]["reply_tokens"] //= 2


def test_a_single_published_run_is_only_inside_or_outside(study, against):
    # one further run: 55 +- t(.975, 3) * 5.774 * sqrt(5/4) = 20.5
    path = against('metric = "final"\nvalue = 75', 'metric = "final"\nvalue = 76')
    found = checked(study, path)
    assert [one.verdict for one in found] == ["inside", "outside"]
    assert found[0].predicted.high == pytest.approx(55 + 3.1824 * 5.7735 * 1.25**0.5, abs=0.01)
    assert check.exit_code(found) == 3


def test_what_the_source_contradicts_is_shown_and_never_judged(study, against):
    path = against(
        'metric = "final"\nvalue = 1\nerror = 0.1\nstatus = "contradictory"',
        'metric = "final"\nvalue = 55\nerror = 0.1\nmargin = 9',
    )
    found = checked(study, path)
    assert [one.verdict for one in found] == ["shown", "met"]
    assert check.exit_code(found) == 0


def test_another_model_is_never_taken_for_the_published_one(study, against):
    path = against('metric = "final"\nvalue = 55\nerror = 9\nmodel = "Qwen/Qwen3-8B"')
    (found,) = checked(study, path)
    assert (found.verdict, found.why) == ("not run", "it is of Qwen/Qwen3-8B, the runs of icl are of smollm2")
    assert check.exit_code([found]) == 3


def test_neither_is_a_placebo(study, against):
    for path in study.glob("icl/*"):
        fake.edit(path, lambda done: done["config"]["learner"].update(placebo=True))
    assert verdicts(study, against('metric = "final"\nvalue = 55\nerror = 9')) == ["not run"]
    wanted = 'metric = "final"\nvalue = 55\nerror = 0.1\nmargin = 9\nwhere = { "learner.placebo" = true }'
    assert verdicts(study, against(wanted)) == ["met"]


def test_one_trial_is_undecided(study, against):
    path = against('metric = "final"\nvalue = 50\nerror = 1')
    (found,) = check.check(published.read(path), load.load([study / "icl" / "o0-s0"]))
    assert (found.verdict, found.why) == ("undecided", "one trial has no error")


def test_two_methods_that_fit_are_refused_with_what_tells_them_apart(study, against):
    for k in range(2):
        configuration = fake.config(order=k, seed=k, learner={"items": 4})
        fake.write(study / "more" / f"o{k}-s{k}", SPLITS, [[fake.ones(2, 10)] * 2] * 3, (), configuration)
    with pytest.raises(ClaasbenchError, match=r"any of 2 methods.*they differ in learner\.items"):
        checked(study, against('metric = "final"\nvalue = 50\nerror = 1'))
    one = against('metric = "final"\nvalue = 20\nerror = 1\nwhere = { "learner.items" = 4 }')
    assert verdicts(study, one) == ["met"]


@pytest.mark.parametrize(
    ("number", "message"),
    [
        ('metric = "finale"\nvalue = 1', "number 1: metric = 'finale' is unknown: did you mean 'final'?"),
        ('metric = "final"\nvalue = 1\nstatus = "rumour"', "number 1: status = 'rumour' is unknown"),
        ('metric = "final"\nvalue = 1\nmargins = 2', "did you mean 'margin'?"),
        ('metric = "final"\nvalue = "1"', "number 1: value = '1' is not allowed: a float"),
        ('metric = "final"', "number 1: value is missing"),
        ('metric = "final"\nvalue = 1\nmargin = 0', "a margin above 0"),
        ("metric = final", "cannot be read"),
    ],
)
def test_a_wrong_file_is_one_line(against, number, message):
    with pytest.raises(ClaasbenchError) as error:
        published.read(against(number))
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_a_file_without_numbers_or_source_is_refused(against, tmp_path):
    for head in (HEAD, 'number = []\nsource = "A"\n', HEAD.replace("A paper", "")):
        with pytest.raises(ClaasbenchError, match=r"source|number"):
            published.read(against(head=head))
    with pytest.raises(ClaasbenchError, match="cannot be read"):
        published.read(tmp_path / "none.toml")


@pytest.mark.parametrize(("value", "code"), [(55, 0), (99, 1)])
def test_the_command_says_it_writes_it_and_exits_by_it(study, against, value, code):
    path = against(f'metric = "final"\nvalue = {value}\nerror = 0.1\nmargin = 9\nnote = "a remark"')
    found, out, err = command("check", str(study), "--against", str(path))
    assert found == code
    assert ("met" if code == 0 else "missed") in out
    file = study / "report" / "REPRODUCIBILITY.md"
    assert err == f"wrote {file}\n"
    text = file.read_text()
    assert text.startswith("# Reproducibility\n")
    assert "a remark" in text
    assert json.dumps(value) in text
