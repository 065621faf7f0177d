"""The corpus of hidden worlds: rendered as the games are, true to what its context reveals, far from the streams."""

import random
import re
from pathlib import Path

import pytest
from controls import layout
from corpus import REAL, SIZES, Corpus, spelled
from vocabulary import tokenizer
from wordings import HELD_OUT, MARK, NOTHING, PANELS, ROLES
from world import KEYS, LOSES, NAMED, WINS, Choice, Known, Lake, Layout, World, choose, plan, reply

from claasbench.scenarios import _texts
from claasbench.scenarios._play import Log
from claasbench.scenarios.frozen_lake import FrozenLake
from claasbench.types import Sample

KINDS = sorted({kind for shares in Corpus.STAGES for kind in shares})
DOCUMENTS = Path(__file__).parents[2] / "docs" / "nano-documents"
TURNS = ("none", "irrelevant", "knowledge", "transcripts", "hindsight")
ANSWER = re.compile(
    r"I am at \((\d), (\d)\)\. Around me: up (\w+), down (\w+), left (\w+), right (\w+)\. "
    r"Signs: (.+?)\. (\w) is at \((\d), (\d)\): ([\w ]+)\. "
    r"Moves(?: at control panel \w)?: ([\w ]+)\. I step (\w+) onto (\w+): \[(\w+)\]"
)


@pytest.mark.parametrize("protocol", ["shift", "oel"])
def test_the_true_world_is_rendered_byte_for_byte_as_the_game(protocol):
    scenario = FrozenLake(protocol=protocol)
    rng = random.Random(5)
    tasks = [task for cell in scenario.stream(0).measures[0].cells for task in cell[:6]]
    for task in tasks:
        lake = Lake(layout(task), World("G", "H", {}))
        log = Log(_texts.load(protocol == "oel", ""), task.data["room"], lake.opening)
        ours = log.prompt(log.introduction)
        game = scenario.play(task)
        theirs = next(game)
        for call in range(1, task.data["calls"] + 1):
            assert (theirs.messages, theirs.slot, theirs.news) == (ours.messages, ours.slot, ours.news)
            move = rng.choice(["up", "down", "left", "right"])
            keys = KEYS["up and down exchanged"] if task.data["exchanged"] else {}
            ours = log.add(f"[{move}]", lake.act(keys.get(move, move)))
            theirs, outcome = answered(game, move)
            if outcome:
                ended = log.end(lake.result() if lake.done else None, call)
                assert (outcome.info["end"], outcome.feedback, outcome.info["won"]) == (*ended, lake.won)
                break
            assert (theirs.reward, theirs.feedback) == (ours.reward, ours.feedback)


def answered(game, move):
    try:
        return game.send(Sample(text=f"[{move}]")), None
    except StopIteration as end:
        return None, end.value


def docs(kind, count=40):
    corpus = Corpus(f"test/{kind}")
    return [getattr(corpus, kind)() for _ in range(count)]


def boards(text):
    found = [re.findall(r"^(?:\|.*\||(?:\S )+\S)$", part, re.M) for part in text.split("Current Board:\n\n")[1:]]
    return [tuple(re.sub(r"\|?  (.)  \|?", r"\1", row).replace(" ", ".") for row in rows) for rows in found]


@pytest.mark.parametrize("kind", TURNS)
def test_answers_say_what_is_on_the_board_and_step_where_they_say(kind):
    for doc in docs(kind):
        rows = boards(doc.messages[-1].content)[-1]
        found = ANSWER.fullmatch(doc.answer).groups()
        player = next((r, c) for r, row in enumerate(rows) for c, sign in enumerate(row) if sign == "P")
        assert player == (int(found[0]), int(found[1]))
        for (dr, dc), what in zip([(-1, 0), (1, 0), (0, -1), (0, 1)], found[2:6], strict=True):
            r, c = player[0] + dr, player[1] + dc
            inside = 0 <= r < len(rows) and 0 <= c < len(rows)
            assert what == ("edge" if not inside else "floor" if rows[r][c] == "." else rows[r][c])
        roles = dict(said.split() for said in found[6].split(", "))
        assert list(roles) == list(dict.fromkeys(sign for row in rows for sign in row if sign not in ".P"))
        assert rows[int(found[8])][int(found[9])] == found[7]
        assert roles.get(found[13]) != LOSES  # the expert never steps onto what it knows to lose
        assert found[13] != "edge"
        if winner := [sign for sign, role in roles.items() if role == WINS]:
            assert found[7] in winner
        assert found[14] == KEYS[found[11]].get(found[12], found[12])
        assert found[13] == found[2:6][["up", "down", "left", "right"].index(found[12])]


@pytest.mark.parametrize("kind", ["none", "irrelevant"])
def test_what_nobody_told_is_unknown(kind):
    for doc in docs(kind):
        assert set(re.findall(r"[A-Z] (\w+)", ANSWER.fullmatch(doc.answer)[7])) == {"unknown"}


def test_knowledge_is_read_as_it_is_written():
    sentences = [(role, by.split("{}")) for role, many in ROLES.items() for by in many]
    for doc in docs("knowledge", 100):
        text = "".join(message.content for message in doc.messages)
        told = {}
        for line in re.findall(f"^{MARK}(.*)$", text, re.MULTILINE):
            for role, (before, after) in sentences:
                if len(line) == len(before) + 1 + len(after) and line.startswith(before) and line.endswith(after):
                    told[line[len(before)]] = role
        for sign, role in (said.split() for said in ANSWER.fullmatch(doc.answer)[7].split(", ")):
            assert role == told.get(sign, "unknown")


def test_notes_follow_from_the_game():
    for doc in docs("extraction", 100):
        text = doc.messages[-1].content
        end = re.search(r"Outcome: reward (\d)\. Feedback: (.*)", text)
        entered = re.findall(r"onto (\w+): \[", text)[-1]
        if "control panel" in text.split("The game:")[1]:  # it may have taken the last step elsewhere, unseen
            continue
        lines = [] if doc.answer == NOTHING else doc.answer.split("\n")
        assert all(line.startswith(MARK) for line in lines)
        told = entered in text.split("The game:")[0]
        if "You won" in end[2] and f"{entered} wins" not in text and not told:
            assert f"{MARK}A step onto {entered} wins the game." in lines
        if (
            "fell into a hole" in end[2]
            and f"{entered} loses" not in text
            and entered not in text.split("The game:")[0]
        ):
            assert f"{MARK}A step onto {entered} loses the game." in lines


def test_nothing_of_the_streams_is_in_the_corpus():
    used = {(3, 2), (4, 3), (5, 5)}
    assert not used & {(size, count) for size, counts in SIZES.items() for count in counts}
    for kind in KINDS:
        for doc in docs(kind, 30):
            text = "".join(message.content for message in doc.messages)
            for rows in boards(text):
                signs = {sign for row in rows for sign in row if sign.isalpha()} - {"P"}
                assert not signs >= REAL
                assert not signs >= {"X", "O"} or kind != "boxes"
    assert not {by for many in HELD_OUT.values() for by in many} & {by for many in ROLES.values() for by in many}


def test_equal_seeds_draw_equal_documents():
    drawn = [[Corpus("same").document() for _ in range(1)] + docs("transcripts", 3) for _ in range(2)]
    assert drawn[0] == drawn[1]


def test_the_expert_without_knowledge_walks_over_signs_and_with_it_around_them():
    place = Layout(3, (0, 0), {(0, 1): "H", (1, 1): "H", (2, 2): "G"})
    assert set(plan(place, (0, 0), Known()).moves) == {"right", "down"}
    assert list(plan(place, (0, 0), Known({"H": LOSES})).moves) == ["down"]
    told = plan(place, (0, 0), Known({"H": WINS, "G": LOSES}))
    assert (told.sign, told.cell, list(told.moves)) == ("H", (0, 1), ["right"])
    chosen = Choice(plan(place, (0, 0), Known({"H": LOSES})), "right down", "down")
    assert reply(place, (0, 0), Known({"H": LOSES}), "control panel C", "up and down exchanged", chosen) == (
        "I am at (0, 0). Around me: up edge, down floor, left edge, right H. Signs: H loses, G unknown. "
        "G is at (2, 2): right down. Moves at control panel C: up and down exchanged. I step down onto floor: [up]"
    )


def test_one_token_per_cell_sign_and_digit():
    known = tokenizer()
    place = Layout(4, (1, 2), {(0, 1): "H", (0, 2): "H", (3, 3): "G", (2, 0): "H"})
    board = Lake(Layout(4, (1, 2), place.signs), World("", "", {})).opening[0].text
    cells = known.convert_ids_to_tokens(known(board).input_ids)
    assert "".join(cells).startswith("Current Board:⁰_HH_¹__P_²H___³___G\n\n")
    assert cells[1:21] == list("⁰_HH_¹__P_²H___³___G")
    room = "Current Board:\n\n# # # #\n# P _ #\n# √ X O\n\n"
    assert known.convert_ids_to_tokens(known(room).input_ids)[1:16] == list("⁰####¹#P_#²#√XO")
    for text in ("H loses.", "(1, 2)", "[up]", "Zebra; ü\n\n  two  spaces"):
        assert known.decode(known(text).input_ids) == text
    for kind in TURNS:
        for doc in docs(kind, 10):
            ids = known(doc.answer).input_ids
            assert known.decode(ids) == doc.answer
            assert len(ids) <= 44


def test_every_panel_wording_names_its_panel():
    assert NAMED in PANELS
    assert set(PANELS) == set(KEYS)


@pytest.mark.parametrize("kind", KINDS)
def test_the_documents_on_show_are_the_corpus(kind):
    corpus = Corpus("look")
    drawn = [f"=== document {n}\n{spelled(getattr(corpus, kind)())}\n" for n in range(1, 21)]
    assert (DOCUMENTS / f"{kind}.txt").read_text() == "".join(drawn)


def test_chance_is_in_the_order_of_the_bearing_and_the_step_follows_from_it():
    place = Layout(3, (0, 0), {(0, 1): "H", (1, 1): "H", (2, 2): "G"})
    rng = random.Random(0)
    ignorant = [choose(rng, place, (0, 0), Known()) for _ in range(400)]
    assert all(one.bearing.split()[0] == one.move for one in ignorant)
    assert 150 < sum(one.bearing == "down right" for one in ignorant) < 250
    told = [choose(rng, place, (0, 0), Known({"H": LOSES})) for _ in range(400)]
    assert {one.move for one in told} == {"down"}
    assert 150 < sum(one.bearing == "down right" for one in told) < 250
