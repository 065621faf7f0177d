"""No test waits: the pause before a retry is gone. Workers side by side take one thread each."""

import os

import pytest

from claasbench import rollout

if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ["OMP_NUM_THREADS"] = "1"  # read when torch is imported, here and in the processes of tests


@pytest.fixture(autouse=True)
def no_pause(monkeypatch):
    monkeypatch.setattr(rollout, "PAUSE", 0.0)
