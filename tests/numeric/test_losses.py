"""Losses against closed forms: two-token distributions, hand-made ratios, and what their gradients must be."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import tensor

from claasbench.training import losses
from claasbench.training.forward import Batch, Scored

S2, C2 = tensor([[0.8, 0.2]]).double().log(), tensor([[0.5, 0.5]]).double().log()
S4, C4 = tensor([[0.6, 0.3, 0.06, 0.04]]).double().log(), tensor([[0.5, 0.1, 0.3, 0.1]]).double().log()


def close(found, expected):
    torch.testing.assert_close(torch.as_tensor(found).double(), torch.as_tensor(expected).double(), atol=2e-6, rtol=0)


@pytest.mark.parametrize(
    ("alpha", "expected"), [(1, 0.192745), (0, 0.223144), (0.25, 0.039580), (0.5, 0.050672), (0.75, 0.036894)]
)
def test_divergence_between_two_tokens(alpha, expected):
    close(losses.divergence(S2, C2, alpha), [expected])


def test_the_mixture_tends_to_the_two_kls():
    close(losses.divergence(S2, C2, 1e-6) / 1e-6, [0.223143])
    close(losses.divergence(S2, C2, 1 - 1e-6) / 1e-6, [0.192745])


@pytest.mark.parametrize(("alpha", "expected"), [(1, 0.221807), (0, 0.3), (0.5, 0.061380)])
def test_gradient_of_the_divergence_at_the_logits(alpha, expected):
    logits = S2.clone().requires_grad_()
    losses.divergence(logits.log_softmax(-1), C2, alpha).sum().backward()
    close(logits.grad, [[expected, -expected]])


@pytest.mark.parametrize(
    ("ids", "tail", "expected"),
    [
        ([0, 1, 2, 3], "raw", (0.373438, 0.305759, 0.078745)),
        ([0, 1], "tail", (0.353496, 0.300347, 0.076624)),
        ([0, 1], "renorm", (0.070428, 0.082287, 0.018797)),
        ([0, 2], "renorm", (0.297216, 0.211806, 0.059722)),
        ([0, 1, 2], "tail", (0.373438, 0.305759, 0.078745)),
    ],
)
def test_divergence_over_a_support(ids, tail, expected):
    student, teacher = losses.bucketed(S4[:, ids], tail), losses.bucketed(C4[:, ids], tail)
    for alpha, value in zip((0, 1, 0.5), expected, strict=True):
        close(losses.divergence(student, teacher, alpha), [value])


def test_raw_support_may_be_negative():
    close(losses.divergence(S4[:, [0, 1]], C4[:, [0, 1]], 1), [0.438977])
    student, teacher = tensor([[0.4, 0.3]]).double().log(), tensor([[0.45, 0.5]]).double().log()
    close(losses.divergence(student, teacher, 1), [-0.200361])


def test_the_tail_is_guarded_and_its_gradient_sums_to_zero():
    whole = losses.bucketed(tensor([[0.0]]).double(), "tail")
    close(whole[:, 1], [-16.118096])
    logits = S4.clone().requires_grad_()
    student = losses.bucketed(logits.log_softmax(-1)[:, [0, 1]], "tail")
    losses.divergence(student, losses.bucketed(C4[:, [0, 1]], "tail"), 0.5).sum().backward()
    close(logits.grad, [[0.001438, 0.048487, -0.029955, -0.019970]])


@given(st.lists(st.floats(-4, 4), min_size=12, max_size=12), st.integers(1, 5), st.sampled_from([0, 0.5, 1]))
def test_a_tail_never_exceeds_the_whole_and_is_never_negative(values, k, alpha):
    student, teacher = tensor(values).double().view(2, 6).log_softmax(-1)[:, None]
    ids = student.topk(k).indices
    part = losses.divergence(
        losses.bucketed(student.gather(-1, ids), "tail"), losses.bucketed(teacher.gather(-1, ids), "tail"), alpha
    )
    assert -1e-9 <= float(part) <= float(losses.divergence(student, teacher, alpha)) + 1e-9


def test_kl_estimates_and_what_they_do_as_losses():
    p, q = tensor([0.8, 0.2]).double(), tensor([0.5, 0.5]).double()
    expected = {losses.k1: (0.470004, -0.916291), losses.k2: (0.110452, 0.419794), losses.k3: (0.095004, 0.583709)}
    for estimate, values in expected.items():
        close(estimate(p.log(), q.log()), values)
    for estimate, gradient in ((losses.k1, 0.0), (losses.k2, 0.221807), (losses.k3, 0.3)):
        logits = p.log().requires_grad_()
        (p * estimate(logits.log_softmax(-1), q.log())).sum().backward()
        close(logits.grad, [gradient, -gradient])


def test_mean_k3_of_sampled_tokens():
    assert losses.mean_k3([math.log(0.8), math.log(0.2)], [math.log(0.5)] * 2) == pytest.approx(
        (0.095004 + 0.583709) / 2, abs=1e-6
    )
    assert losses.mean_k3([-0.5], [-0.5]) == 0


@pytest.mark.parametrize(
    ("advantage", "ratio", "dual", "expected"),
    [(1, 1.5, 0, -1.2), (1, 0.5, 0, -0.5), (-1, 1.5, 0, 1.5), (-1, 0.5, 0, 0.8), (-1, 5, 0, 5), (-1, 5, 3, 3)],
)
def test_clipped_ratio(advantage, ratio, dual, expected):
    close(losses.clipped(tensor([float(ratio)]), tensor([float(advantage)]), 0.2, dual), [expected])


def test_value_loss():
    v, old, ret = tensor([0.9]), tensor([0.5]), tensor([1.0])
    close(losses.squared_error(v, old, ret, 0.2), [0.045])
    close(losses.squared_error(v, old, ret, 0.5), [0.005])


def test_truncated_weights():
    moved = tensor([-0.7, -1.0, -0.9]) - tensor([-1.0, -2.0, -0.5])
    close(losses.truncated(moved, 2.0), [1.349859, 2.0, 0.670320])


def made(sizes, start=None, **tensors):
    rows = torch.repeat_interleave(torch.arange(len(sizes)), tensor(sizes))
    blank = torch.zeros(len(rows))
    values = {"old_T": blank, "advantage_T": blank, "weight_T": blank + 1, **tensors}
    return Batch(
        [],
        rows,
        blank.long(),
        values["old_T"],
        values["advantage_T"],
        values["weight_T"],
        blank + 1,
        torch.zeros(len(sizes)),
        torch.zeros(len(sizes)),
        start,
    )


def scored(logprobs, **more):
    return Scored(logprobs, logprobs.detach() * 0, None, None, torch.zeros(1, 1), **more)


def test_stale_answers_keep_a_gradient_where_a_coupled_ratio_has_none():
    logprobs = tensor([-0.9], requires_grad=True)
    batch = made([1], start=tensor([-1.0]), old_T=tensor([-1.2]), advantage_T=tensor([1.0]))
    loss, logged = losses.PolicyGradient()(batch, scored(logprobs))
    loss.backward()
    close(loss.detach(), -1.349859)
    assert logprobs.grad < 0
    coupled = losses.clipped((logprobs.detach() + 1.2).exp(), tensor([1.0]), 0.2, 0)
    close(coupled, [-1.2])
    close(logged["weight"], 1.221403)


def test_on_policy_the_first_pass_is_the_policy_gradient():
    logits = torch.zeros(3, requires_grad=True)
    logprob = logits.log_softmax(-1)[:1]
    loss, _ = losses.PolicyGradient()(made([1], old_T=logprob.detach(), advantage_T=tensor([2.0])), scored(logprob))
    loss.backward()
    close(logits.grad, [-4 / 3, 2 / 3, 2 / 3])


def test_distillation_is_a_global_token_mean_with_capped_weights():
    """Divergences [[.1, .2, .3], [.4]], weights [[1, 3, .5], [1]], cap 2: .2625, not the mean of means .308333."""

    class Fixed(losses.Distillation):
        pass

    wanted = tensor([0.1, 0.2, 0.3, 0.4]).double()
    students = [solve(value) for value in wanted]
    top = torch.stack([tensor([s, 1 - s]) for s in students]).double().log()
    teacher = tensor([[0.5, 0.5]]).double().log().expand(4, 2)
    ratios = tensor([1.0, 3.0, 0.5, 1.0]).double()
    out = Scored(ratios.log(), ratios * 0, None, top, torch.zeros(1, 1), teacher)
    loss = Fixed(alpha=1, k=2, tail="raw", cap=2.0)
    batch = made([3, 1])
    close(loss(batch, out)[0] / loss.denominator(batch), 0.2625)
    masked = made([3, 1], weight_T=tensor([1.0, 1, 1, 0]))
    close(loss(masked, out)[0] / loss.denominator(masked), 0.216667)


def solve(wanted):
    """Return p with KL((p, 1-p) || (.5, .5)) = wanted."""
    low, high = 0.5, 1 - 1e-12
    for _ in range(200):
        p = (low + high) / 2
        kl = p * math.log(2 * p) + (1 - p) * math.log(2 * (1 - p))
        low, high = (p, high) if kl < wanted else (low, p)
    return low


def test_cross_entropy_is_weighted():
    batch = made([2, 1], weight_T=tensor([1.0, 1.0, 0.5]))
    loss = losses.CrossEntropy()
    close(loss(batch, scored(tensor([-1.0, -2.0, -4.0])))[0] / loss.denominator(batch), 2.0)
