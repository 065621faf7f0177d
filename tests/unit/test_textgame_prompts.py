"""One episode of a text game on the real engine: prompts, echoes, feedback and endings."""

import itertools

import pytest
import textarena

from claasbench.errors import ClaasbenchError
from claasbench.scenarios import _solve
from claasbench.scenarios._engine import IDS
from claasbench.scenarios.frozen_lake import FrozenLake
from claasbench.scenarios.sokoban import Sokoban
from claasbench.types import Sample, with_context
from toys import played

STREAMS = [(game, protocol) for game in (FrozenLake, Sokoban) for protocol in ("shift", "drift", "oel")]


def first(scenario, split=0):
    return scenario.stream(0).splits[split].train[0]


def text(prompt):
    return prompt.messages[0].content


def board_task(scenario, rows, cell=0):
    """Return the first measured task whose board begins with `rows`."""
    return next(t for t in scenario.stream(0).measures[0].cells[cell] if "/".join(t.data["board"]).startswith(rows))


# --- prompts


@pytest.mark.parametrize(("game", "protocol"), STREAMS)
def test_every_prompt_is_one_user_message_that_asks_and_hides_the_rules(game, protocol):
    scenario = game(protocol)
    for split in scenario.stream(0).splits:
        task = split.train[0]
        raw = textarena.make(IDS[task.data["game"]], **task.data["settings"])
        raw.reset(num_players=1, seed=task.seed)
        ((_, rules, _),) = [message for message in raw.get_observation()[1] if message[2].name == "PROMPT"]
        hidden = [line.strip() for line in rules.splitlines() if line.strip()]
        for prompt in played(scenario, task, ["[left]", "[right]", "none", "[up]"])[0]:
            assert [message.role for message in prompt.messages] == ["user"]
            assert text(prompt).endswith("?")
            assert not [line for line in hidden if line in text(prompt) or line in prompt.news]


@pytest.mark.parametrize("game", [FrozenLake, Sokoban])
def test_only_named_rooms_are_named(game):
    kinds = game.rooms.values()
    assert len({room.name for room in kinds}) == len(kinds)
    for index, room in enumerate(kinds):
        ((shift,), _), ((drift,), _) = (played(game(p), first(game(p), index), []) for p in ("shift", "drift"))
        assert f"\nYou stand at {room.name}. The letter P" in text(shift)
        assert shift.news.startswith(f"You stand at {room.name}.\n[GAME] Current Board:")
        assert text(drift) == text(shift).replace(f"You stand at {room.name}. ", "")
        assert drift.news.startswith("[GAME] Current Board:")


@pytest.mark.parametrize(("game", "protocol"), STREAMS)
def test_context_goes_right_after_the_opening(game, protocol):
    scenario = game(protocol)
    ((prompt,), _) = played(scenario, first(scenario), [])
    (message,) = with_context(prompt, "REMEMBER THIS").messages
    opening, _, rest = message.content.partition("\nREMEMBER THIS\n")
    assert f"{opening}\n\n{rest}" == text(prompt)
    assert "\n" not in opening
    assert "[GAME]" in rest


def test_the_log_grows_and_news_is_what_is_new():
    scenario = FrozenLake()
    seen, _ = played(scenario, board_task(scenario, "P."), ["[left]", "[right]"])
    assert [prompt.reward for prompt in seen] == [None, 0.0, 0.0]
    assert seen[0].feedback is None
    assert seen[1].feedback.startswith("You attempted an invalid move. Reason: You tried to move left")
    for before, after in itertools.pairwise(seen):
        log = text(before).removesuffix("\n\nWhich move do you make next?")
        assert text(after).startswith(log + "\n[Player] ")
        assert f"\n{after.news}\n\nWhich move" in text(after)
        assert "[Player]" not in after.news
    assert [prompt.view["calls_left"] for prompt in seen] == [10, 9, 8]


def test_sokoban_shows_no_board_after_an_invalid_move():
    scenario = Sokoban()
    ((_, prompt), _) = played(scenario, first(scenario), ["nothing"])
    assert prompt.news.startswith("[GAME] You attempted an invalid move.")
    assert "Current Board" not in prompt.news


def test_exchanged_rooms_echo_the_models_own_word_and_tell_what_it_did():
    scenario = FrozenLake()
    ((_, bumped, moved), _) = played(scenario, board_task(scenario, "P.", cell=2), ["I go [Down]", "[right]"])
    assert "\n[Player] [down]\n[GAME] You attempted an invalid move. Reason: You tried to move up" in text(bumped)
    assert "\n[Player] [right]\n[GAME] You moved right to" in text(moved)
    ((_, prompt), _) = played(scenario, first(scenario, 2), ["[ S ]"])
    assert "\n[Player] [s]\n[GAME] You attempted an invalid move. Reason: You tried to move up" in text(prompt)


def test_the_view_holds_the_oracle_in_the_models_words():
    scenario = FrozenLake()
    for cell, words in ((0, {"[down]", "[right]"}), (1, {"[down]", "[left]"}), (2, {"[up]", "[right]"})):
        task = scenario.stream(0).measures[0].cells[cell][0]
        ((prompt,), _) = played(scenario, task, [])
        assert prompt.view["kind"] == task.kind
        assert prompt.view["actions"] == ["[up]", "[down]", "[left]", "[right]"]
        assert prompt.view["oracle"] in words


# --- the reference's structure


def test_oel_echoes_actions_on_the_lake_and_drops_them_in_sokoban():
    lake, boxes = FrozenLake("oel"), Sokoban("oel")
    ((start, prompt), _) = played(lake, first(lake), ["thinking of [left], then [s]"])
    assert "[d][GAME] Current Board:" in text(start)
    assert "[a], [s], [d]\n[Player] [down]\n[GAME] You moved down" in text(prompt)
    ((start, prompt), _) = played(boxes, first(boxes), ["[up]"])
    assert "[d]\n[GAME] Current Board:" in text(start)
    assert "left, right[GAME] You  moved [up]." in text(prompt)
    assert "[Player]" not in text(prompt)


# --- endings


def ending(scenario, task, answers):
    outcome = played(scenario, task, answers)[1]
    return outcome.score, outcome.reward, outcome.feedback, outcome.info


def test_reaching_the_goal_is_the_only_success():
    scenario = FrozenLake()
    task = first(scenario)
    play = scenario.play(task)
    prompt, outcome = next(play), None
    while outcome is None:
        try:
            prompt = play.send(Sample(prompt.view["oracle"]))
        except StopIteration as stop:
            outcome = stop.value
    assert (outcome.score, outcome.reward) == (1.0, 1.0)
    assert outcome.feedback.startswith("You won with move 6. The game says: Congratulations!")
    assert outcome.info == {"invalid": 0, "no_action": 0, "calls": 6, "won": True, "optimal": 6, "end": "goal"}


def test_a_hole_loses_with_the_engines_reason():
    scenario = FrozenLake()
    score, reward, feedback, info = ending(scenario, board_task(scenario, "PH"), ["[right]"])
    assert (score, reward, info["end"], info["calls"], info["won"]) == (0.0, 0.0, "lost", 1, False)
    assert feedback.startswith("You lost with move 1. The game says: You fell into a hole!")


def test_two_invalid_moves_in_a_row_lose():
    scenario = FrozenLake()
    _, _, feedback, info = ending(scenario, first(scenario), ["[up]", "up"])
    assert (info["end"], info["invalid"], info["no_action"], info["calls"]) == ("invalid", 2, 1, 2)
    assert "second invalid move in a row" in feedback
    assert "Invalid Move: " in feedback
    oel = FrozenLake("oel")
    assert "Failure" in ending(oel, first(oel), ["[up]", "[up]"])[2]


def to_and_fro(scenario):
    """Return a task and answers that walk over two cells without touching a box or a hole."""
    for task in scenario.stream(0).measures[0].cells[0]:
        board = _solve.parse(task.data["board"])
        for there, back in itertools.permutations(_solve.STEPS, 2):
            end, state = board.move(board.start, there)
            if end == "moved" and board.move(state, back) == ("moved", board.start):
                return task, [f"[{there}]", f"[{back}]"] * task.data["calls"]
    raise AssertionError("no such board")


@pytest.mark.parametrize("game", [FrozenLake, Sokoban])
@pytest.mark.parametrize("protocol", ["shift", "oel"])
def test_calls_run_out(game, protocol):
    scenario = game(protocol)
    task, answers = to_and_fro(scenario)
    score, _, feedback, info = ending(scenario, task, answers)
    assert (score, info["end"], info["calls"]) == (0.0, "budget", task.data["calls"])
    assert "no round is left" in feedback if protocol == "oel" else f"all {info['calls']} moves" in feedback


# --- a user's texts


def test_a_users_file_replaces_texts_and_changes_the_hash(tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text('prompt = "Play. $room\\n$context\\n$log\\nWhat now?"\nlost = "Gone: $reason"\n', encoding="utf-8")
    scenario = FrozenLake(prompts=str(file))
    ((prompt,), _) = played(scenario, first(scenario), [])
    assert text(prompt).startswith("Play. You stand at control panel A. \n\n[GAME] Current Board:")
    assert with_context(prompt, "X").messages[0].content.startswith("Play. You stand at control panel A. \nX\n[GAME]")
    assert scenario.facts()["prompts"] != FrozenLake().facts()["prompts"]
    assert ending(scenario, board_task(scenario, "PH"), ["[right]"])[2].startswith("Gone: You fell")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('promt = "x"', "did you mean 'prompt'"),
        ('prompt = "$log"', "must hold [$]context and after it [$]log"),
        ('prompt = "$log $context"', "must hold"),
        ('goal = "$score"', "goal may use [$]calls, [$]reason only"),
        ("goal = 3", "goal must be a text"),
        ("goal = ", "no TOML"),
        (None, "cannot be read"),
    ],
)
def test_a_wrong_file_of_texts_is_refused(tmp_path, content, message):
    file = tmp_path / "mine.toml"
    if content is not None:
        file.write_text(content, encoding="utf-8")
    with pytest.raises(ClaasbenchError, match=message):
        FrozenLake(prompts=str(file)).facts()
