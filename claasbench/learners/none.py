"""The learner that learns nothing: every row equals the untrained one.

Departures: none; this is the reference row of every table.
"""

from dataclasses import dataclass

from claasbench.learners.base import Learner


@dataclass
class Nothing(Learner):
    """Leaves the policy as it is."""
