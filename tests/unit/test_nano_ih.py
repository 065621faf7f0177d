"""The corpus of nano-ih: rendered by the scenario's own code, answered as worlds say, and apart from every stream."""

import re
from pathlib import Path

import pytest
from corpus import spelled as printed
from ih_controls import TRUTH, verdict
from ih_corpus import BINDS, FORMS, HELD_OUT, KEPT, ROLES, WINNER, Corpus, composed, dropped, general
from ih_vocabulary import TEMPLATES, tokenizer

from claasbench import prompts
from claasbench.scenarios import _generate
from claasbench.scenarios._verifiers import verify
from claasbench.types import spoken

KINDS = list(Corpus.STAGES[-1])
DOCUMENTS = Path(__file__).parents[2] / "docs" / "nano-documents" / "ih"


@pytest.fixture(scope="module")
def spelled():
    return tokenizer()


def rows(count):
    source = Corpus("rows")
    return [source.row() for _ in range(count)]


def test_every_rule_is_kept_by_the_composed_reply_and_broken_by_the_dropped_one():
    for row in rows(150):
        rules = row["metadata"]["verifier"]
        assert verify(rules, "x", composed(row)).held
        for form, _ in row["asks"]:
            assert form in verify(rules, "x", dropped(row, form)).broken


def test_rows_of_the_corpus_are_of_no_stream():
    used = len(_generate.DATA) * len(_generate.FAMILIES) * len(_generate.PARTS)
    assert min(ROLES) >= used
    assert set(FORMS) == {name for family in ("composite", "tool") for name in _generate.FAMILIES[family]}


def test_the_scenario_renders_the_prompts():
    source = Corpus("games")
    for _ in range(30):
        game = source.game(TRUTH, {})
        system = game.steps[0].prompt.messages[0]
        assert system.content == game.row["defender_problem_template"][0]["content"]
        assert all(turn.reward in (0.0, 1.0) for turn in game.experience().turns)


def test_answers_follow_what_is_known():
    source = Corpus("known")
    for binds in (True, False):
        for _ in range(60):
            game = source.game(TRUTH, {"": binds})
            for step in game.steps:
                said = "nothing" if not step.asked else f"{FORMS[step.asked]}, {'keep' if binds else 'drop'}"
                assert step.answer.startswith(f"<think>asked: {said}</think>")


def test_without_knowledge_a_form_is_kept_as_often_as_it_should_be():
    source = Corpus("none")
    found = {form: sum(source.decide(form, {}) for _ in range(800)) / 800 for form in FORMS}
    assert all(abs(found[form] - KEPT[form]) < 0.06 for form in FORMS)


def test_feedback_reveals_the_world_and_nothing_else():
    source = Corpus("facts")
    for _ in range(80):
        world = source.world()
        game = source.game(world, {})
        for step in game.steps:
            for form, binds in step.taught.items():
                assert world[form] == binds
                assert binds == (step.reward == 0.0) or len(game.row["asks"]) > 1


def test_hindsight_of_a_broken_rule_makes_the_answer_keep_it():
    source = Corpus("hindsight")
    checked = 0
    for _ in range(80):
        doc = source.hindsight()
        told = doc.messages[0].content
        if "Outcome: reward 0." in told:
            assert ", drop" not in doc.answer
            checked += 1
    assert checked > 10


@pytest.mark.parametrize("kind", KINDS)
def test_documents_are_equal_for_equal_seeds_and_answers_survive_their_ids(kind, spelled):
    for seed in ("a", "b"):
        doc = getattr(Corpus(seed), kind)()
        assert doc == getattr(Corpus(seed), kind)()
        assert spelled.decode(spelled(doc.answer).input_ids) == doc.answer
        assert "$" not in doc.answer


def test_made_up_words_are_read_as_their_syllables(spelled):
    for row in rows(60):
        for word in re.findall(r"\b(?:[b-df-hj-np-tv-z][aeiou]){3}\b", row["defender_problem_template"][0]["content"]):
            for text in (word, word.upper()):
                pieces = spelled.convert_ids_to_tokens(spelled(f"word {text}.").input_ids)
                assert pieces[-4:-1] == [text[0:2], text[2:4], text[4:6]]


def test_prompts_are_short(spelled):
    source = Corpus("short")
    for _ in range(60):
        doc = source.none()
        chat = [{"role": message.role, "content": message.content} for message in doc.messages]
        assert (
            len(spelled(spelled.apply_chat_template(chat, tokenize=False, add_generation_prompt=True)).input_ids) < 250
        )


def test_held_out_words_are_in_no_document_and_every_note_is_judged():
    assert not {by for many in HELD_OUT.values() for by in many} & {by for many in BINDS.values() for by in many}
    assert verdict(BINDS[True][0].format("digits")) == verdict(WINNER[True][0]) == "true"
    assert verdict(BINDS[False][1].format("links")) == "false"
    assert verdict("Rules about rules hold.") == "neither"


def test_a_twin_is_answered_and_its_rules_are_kept():
    source = Corpus("twin")
    for _ in range(30):
        assert spoken(source.twin().answer)


def test_its_templates_are_files():
    for name in TEMPLATES:
        assert prompts.text(name)


@pytest.mark.parametrize("kind", sorted({kind for shares in Corpus.STAGES for kind in shares}))
def test_the_documents_on_show_are_the_corpus(kind):
    corpus = Corpus("look")
    drawn = [f"=== document {n}\n{printed(getattr(corpus, kind)())}\n" for n in range(1, 21)]
    assert (DOCUMENTS / f"{kind}.txt").read_text() == "".join(drawn)


def test_facts_that_agree_say_something_of_all_forms():
    assert general({}) == general({"digits": True, "links": False}) == {}
    assert general({"digits": True}) == general({"digits": True, "links": True}) == {"": True}
    assert general({"digits": False}) == {"": False}


def test_notes_say_who_wins_once_two_facts_agree():
    found = 0
    source = Corpus("notes")
    for _ in range(150):
        doc = source.extraction()
        before = doc.messages[0].content
        for binds, (said, *_) in WINNER.items():
            if said in doc.answer:
                told = [by.format(form) for by in BINDS[not binds] for form in FORMS.values()]
                assert not any(text in doc.answer or text in before for text in told)
                found += 1
    assert found > 10
