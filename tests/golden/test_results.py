"""The committed study is what its file makes today: every number of every done.json.

To record it anew (and say why in the commit): rm -r results/first, then
claasbench sweep experiments/first.toml --out results/first && claasbench report results/first
"""

import json
from pathlib import Path

import pytest

from claasbench.launch import study
from toys import play

ROOT = Path(__file__).parents[2]
PLANNED = {str(study.folder(run.tables, run.values)): run for run in study.runs(ROOT / "experiments/first.toml")}


def comparable(path):
    """Return a done.json without seconds, which the clock decides."""
    return json.loads(path.read_text()) | {"seconds": None}


@pytest.mark.parametrize("name", PLANNED)
def test_the_committed_results_are_reproduced(name, tmp_path):
    play(PLANNED[name].tables, tmp_path)
    committed = ROOT / "results/first" / name
    rows = sorted(path.relative_to(committed) for path in committed.glob("splits/*/done.json"))
    assert rows == sorted(path.relative_to(tmp_path) for path in tmp_path.glob("splits/*/done.json"))
    assert len(rows) == 5
    for row in rows:
        assert comparable(tmp_path / row) == comparable(committed / row)
