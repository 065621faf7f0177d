"""Six classic faults of continual learning, each put into the running code: `MUTANT=name pytest -p mutants ...`."""

import copy
import os

from claasbench import metrics
from claasbench.learners import oel, sdpo
from claasbench.policies.hf import Hf
from claasbench.runner import Runner
from claasbench.training import credit


def advantage_sign():
    """What earned most is made less likely."""
    normalised = credit.normalised
    credit.normalised = lambda rows: [[-value for value in row] for row in normalised(rows)]


def teacher_without_knowledge():
    """The teacher reads what the student reads."""
    oel.informed = lambda prompt, text, kind: prompt
    sdpo.with_context = lambda prompt, text: prompt


def stale_adapter():
    """The policy goes on answering with the weights it began with."""
    answers, first = Hf._answers, {}

    def stale(policy, requests, module, served):
        own = first.setdefault(id(policy), copy.deepcopy(policy.loaded.module))
        return answers(policy, requests, own, served)

    setup = Hf.adopt

    def adopt(policy, weights):
        first[id(policy)] = copy.deepcopy(policy.loaded.module)
        setup(policy, weights)

    Hf.adopt, Hf._answers = adopt, stale


def evaluation_leaks():
    """The learner also looks at what is measured."""
    measure = Runner._measure

    def leaky(runner, row, name):
        for event in measure(runner, row, name):
            if event.episode is not None:
                list(runner.learner.observe([event.episode.experience]))
            yield event

    Runner._measure = leaky


def forgetting_off_by_one():
    """A split is compared with the row before it was learned."""

    def wrong(matrix):
        last = len(matrix) - 1
        return sum(matrix[max(j - 1, 0)][j] - matrix[last][j] for j in range(last)) / last

    metrics.forgetting = metrics.OF_MATRIX["forgetting"] = wrong


def seed_ignored():
    """All trials draw alike."""
    draw = Runner._draw

    def fixed(runner, table):
        own = draw(runner, table)
        other = copy.copy(runner)
        other.config = copy.copy(runner.config)
        object.__setattr__(other.config, "trial", type(runner.config.trial)())
        return draw(other, table) or own

    Runner._draw = fixed


MUTANTS = {
    function.__name__.replace("_", "-"): function
    for function in (
        advantage_sign,
        teacher_without_knowledge,
        stale_adapter,
        evaluation_leaks,
        forgetting_off_by_one,
        seed_ignored,
    )
}


def pytest_configure():
    """Put the fault in before any test is collected."""
    if name := os.environ.get("MUTANT"):
        MUTANTS[name]()
