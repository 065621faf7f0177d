"""No test waits: the pause before a retry is gone."""

import pytest

from claasbench import rollout


@pytest.fixture(autouse=True)
def no_pause(monkeypatch):
    monkeypatch.setattr(rollout, "PAUSE", 0.0)
