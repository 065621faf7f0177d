from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from claasbench import draws

parts = st.lists(st.one_of(st.integers(), st.text(max_size=5)), min_size=1, max_size=4)


@given(parts)
def test_draws_are_functions_of_their_parts(names):
    assert draws.uniform(*names) == draws.uniform(*names)
    assert 0 <= draws.uniform(*names) < 1


@given(st.lists(st.integers(), max_size=30), parts)
def test_a_shuffle_is_a_permutation_and_changes_no_argument(items, names):
    before = list(items)
    assert Counter(draws.shuffled(items, *names)) == Counter(items)
    assert items == before


def test_known_values_hold_across_machines_and_versions():
    assert draws.seed("train", 0, 1, "task", 2) == 13290114342978494608
    assert draws.uniform(7, 0) == 0.1493983980609973


def test_uniform_is_uniform_and_parts_do_not_run_together():
    values = [draws.uniform("x", n) for n in range(4000)]
    counts = Counter(int(value * 10) for value in values)
    assert sum((count - 400) ** 2 / 400 for count in counts.values()) < 27.9  # chi-square, 9 degrees, p = .001
    assert draws.seed("ab", "c") != draws.seed("a", "bc")
    assert draws.seed("1") != draws.seed(1)
