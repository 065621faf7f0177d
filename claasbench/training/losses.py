"""The losses, on flat tensors: T action tokens of a micro-batch one after another, B rows, K ids of a support.

A loss returns its sum; the trainer divides it by its denominator over the whole batch, so that how a batch is cut into
micro-batches changes nothing. Formulas: PPO (arXiv 1707.06347), dual clip (1912.09729), decoupled ratio (2110.00641),
generalised Jensen-Shannon divergence as in SDPO's code (lasgroup/SDPO), KL estimators (Schulman, 2020).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

import torch
from torch import Tensor

if TYPE_CHECKING:
    from claasbench.training.forward import Batch, Scored

Tail: TypeAlias = Literal["tail", "renorm", "raw"]
FAR = 20.0
"""Log-ratios are clamped to plus or minus this before exp."""


def clipped(ratio_T: Tensor, advantage_T: Tensor, clip: float, dual: float) -> Tensor:
    """Return PPO's loss per token, min(r A, clip(r) A) negated; where A < 0 it is at most `dual` times -A (0: off)."""
    plain_T = ratio_T * advantage_T
    loss_T = -torch.minimum(plain_T, ratio_T.clamp(1 - clip, 1 + clip) * advantage_T)
    if not dual:
        return loss_T
    return torch.where(advantage_T < 0, torch.minimum(loss_T, -dual * advantage_T), loss_T)


def truncated(log_ratio_T: Tensor, cap: float) -> Tensor:
    """Return the importance weights exp(log ratio), at most `cap`, without gradient."""
    return log_ratio_T.detach().clamp(-FAR, FAR).exp().clamp(max=cap)


def squared_error(value_B: Tensor, old_B: Tensor, return_B: Tensor, clip: float) -> Tensor:
    """Return PPO's value loss per row: half the larger squared error of V and of V kept within `clip` of the old V."""
    near_B = old_B + (value_B - old_B).clamp(-clip, clip)
    return 0.5 * torch.maximum((value_B - return_B).square(), (near_B - return_B).square())


def k1(logprob_T: Tensor, reference_T: Tensor) -> Tensor:
    """Return log(p/q) per sampled token: unbiased for KL(p||q), for rewards alone.

    As a loss its expected gradient is zero.
    """
    return logprob_T - reference_T


def k2(logprob_T: Tensor, reference_T: Tensor) -> Tensor:
    """Return half the squared log-ratio per sampled token: as a loss its expected gradient is that of KL(p||q)."""
    return 0.5 * (logprob_T - reference_T).square()


def k3(logprob_T: Tensor, reference_T: Tensor) -> Tensor:
    """Return q/p - 1 - log(q/p) per sampled token: never negative and unbiased for KL(p||q); a monitor, no loss."""
    log_T = (reference_T - logprob_T).clamp(-FAR, FAR)
    return log_T.exp() - 1 - log_T


def mean_k3(logprobs: Sequence[float], references: Sequence[float]) -> float:
    """Return the mean of k3 over tokens, in nats."""
    return float(k3(torch.tensor(logprobs), torch.tensor(references)).mean())


def bucketed(logprob_TK: Tensor, tail: Tail) -> Tensor:
    """Return log-probs over a support that stand for a whole distribution.

    tail: one more bucket with the mass outside (so a divergence is a lower bound of the full one); renorm: divided by
    the mass inside; raw: as they are, so that a divergence may be negative and falls as mass leaves the support.
    """
    if tail == "raw":
        return logprob_TK
    inside_T1 = logprob_TK.logsumexp(-1, keepdim=True)
    if tail == "renorm":
        return logprob_TK - inside_T1
    rest_T1 = torch.log(-torch.expm1(inside_T1.clamp(max=-1e-7)))
    return torch.cat([logprob_TK, rest_T1], -1)


def divergence(student_TK: Tensor, teacher_TK: Tensor, alpha: float) -> Tensor:
    """Return a divergence per token between log-probs: alpha 0 is KL(teacher||student), 1 is KL(student||teacher).

    Between them (1-a) KL(s||m) + a KL(c||m) with the mixture m = (1-a) s + a c; no gradient reaches the teacher. Its
    scale changes with alpha: at .5 value and gradient are about a quarter of the two KLs.
    """
    teacher_TK = teacher_TK.detach()
    if alpha == 0:
        return _kl(teacher_TK, student_TK)
    if alpha == 1:
        return _kl(student_TK, teacher_TK)
    weights = torch.tensor([1 - alpha, alpha], dtype=student_TK.dtype, device=student_TK.device).log()
    mixture_TK = torch.logaddexp(student_TK + weights[0], teacher_TK + weights[1])
    return (1 - alpha) * _kl(student_TK, mixture_TK) + alpha * _kl(teacher_TK, mixture_TK)


def _kl(left_TK: Tensor, right_TK: Tensor) -> Tensor:
    return (left_TK.exp() * (left_TK - right_TK)).sum(-1)


@dataclass(frozen=True)
class CrossEntropy:
    """Imitation: minus the log-prob of every action token, weighted by its row; mean over tokens of weight."""

    name = "cross_entropy"
    k = 0

    def denominator(self, batch: Batch) -> float:
        """Return the weight of all tokens."""
        return float(batch.weight_T.sum())

    def __call__(self, batch: Batch, out: Scored) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the sum, and sums over tokens to log."""
        return -(batch.weight_T * out.logprob_T).sum(), {}


@dataclass(frozen=True)
class PolicyGradient:
    """Clipped policy gradient with a decoupled, truncated importance weight; mean over all action tokens.

    The weight corrects from the policy that sampled to the one at the start of the update and is constant; the clip
    holds the moving policy near that start, so it acts from the second pass over a batch on.
    """

    clip: float = 0.2
    dual: float = 3.0
    cap: float = 2.0
    name = "policy"
    k = 0

    def denominator(self, batch: Batch) -> float:
        """Return the number of action tokens."""
        return float(len(batch.old_T))

    def __call__(self, batch: Batch, out: Scored) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the sum, and sums over tokens to log."""
        start_T = out.logprob_T.detach() if batch.start_T is None else batch.start_T
        weight_T = truncated(start_T - batch.old_T, self.cap)
        ratio_T = (out.logprob_T - start_T).clamp(-FAR, FAR).exp()
        loss_T = weight_T * clipped(ratio_T, batch.advantage_T, self.clip, self.dual)
        moved_T = (out.logprob_T - batch.old_T).detach()
        return loss_T.sum(), {
            "capped": (moved_T > torch.tensor(self.cap).log()).float().sum(),
            "clipped": ((ratio_T.detach() - 1).abs() > self.clip).float().sum(),
            "drift": moved_T.abs().sum(),
            "weight": weight_T.sum(),
            "weight_squared": weight_T.square().sum(),
        }


@dataclass(frozen=True)
class Value:
    """PPO's value loss on the value head; mean over rows."""

    clip: float = 0.2
    name = "value"
    k = 0

    def denominator(self, batch: Batch) -> float:
        """Return the number of rows."""
        return float(len(batch.ret_B))

    def __call__(self, batch: Batch, out: Scored) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the sum."""
        assert out.value_B is not None, "the trainer was opened without a value head"
        return squared_error(out.value_B, batch.value_B, batch.ret_B, self.clip).sum(), {}


@dataclass(frozen=True)
class Distillation:
    """A divergence to the teacher over the student's `k` likeliest ids; mean over the tokens of rows with a context.

    `cap` truncates the importance weight from the policy that sampled (0: no weight, for rows just sampled).
    """

    alpha: float = 0.5
    k: int = 100
    tail: Tail = "tail"
    cap: float = 2.0
    name = "distillation"

    def denominator(self, batch: Batch) -> float:
        """Return the weight of all tokens."""
        return float(batch.weight_T.sum())

    def __call__(self, batch: Batch, out: Scored) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the sum, and sums over tokens to log."""
        assert out.top_TK is not None
        assert out.teacher_TK is not None
        student_TK, teacher_TK = bucketed(out.top_TK, self.tail), bucketed(out.teacher_TK, self.tail)
        each_T = divergence(student_TK, teacher_TK, self.alpha)
        weight_T = batch.weight_T
        if self.cap:
            weight_T = weight_T * truncated(out.logprob_T - batch.old_T, self.cap)
        return (weight_T * each_T).sum(), {
            "divergence": each_T.detach().sum(),
            "student_mass": out.top_TK.detach().exp().sum(),
            "teacher_mass": out.teacher_TK.exp().sum(),
            "weight": weight_T.sum(),
            "weight_squared": weight_T.square().sum(),
        }
