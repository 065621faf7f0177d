"""REINFORCE++: policy gradient without a critic, its advantage normalised over the batch.

Paper: arXiv 2501.03262, the form for one answer per prompt: reward at the last token, less beta times k1 to the base
model at every token; return to go; less the mean and divided by the deviation over all action tokens of the batch.
Departures: single use and replay as in CLaaS (arXiv 2606.05559), so a truncated weight corrects for the policy that
sampled; the KL of later turns is not charged to earlier ones; the deviation has a floor of .1, as equal rewards with a
little KL would otherwise be blown up to unit size.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from claasbench.learners._gradient import Gradient
from claasbench.learners._replay import NANO, NANO_IH
from claasbench.learners.base import nano, nano_ih


@dataclass
class Reinforcepp(Gradient):
    """An answer earned its return."""

    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "paper": {},
        "nano": nano("reinforcepp", **{**NANO, "lr": 3e-5, "kl": 0.1}),
        "nano-ih": nano_ih("reinforcepp", **{**NANO_IH, "lr": 1e-4, "kl": 0.01}),
    }
