"""Losses against closed forms, numerical derivatives and their behaviour far out."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from steelyard.ranker.loss import grade_loss, graded, l2, l2_weights, rank_net, rao_kupper

FINITE = st.floats(-30, 30)


@given(FINITE, st.sampled_from([0.0, 0.5, 1.0]))
def test_rank_net_is_the_cross_entropy_of_p3(difference: float, answer: float) -> None:
    p = 1 / (1 + math.exp(-difference))
    q = 1 / (1 + math.exp(difference))
    expected = -(answer * math.log(p) + (1 - answer) * math.log(q))
    found = rank_net(
        torch.tensor([difference], dtype=torch.float64), torch.tensor([answer], dtype=torch.float64)
    )
    assert found.item() == pytest.approx(expected, rel=1e-9, abs=1e-14)  # torch's softplus is x beyond 20


@given(FINITE, st.floats(0.01, 5))
def test_rao_kupper_outcomes_add_up_to_one(difference: float, tau: float) -> None:
    each = torch.full((3,), difference, dtype=torch.float64)
    loss = rao_kupper(
        each, torch.tensor([1.0, 0.5, 0.0], dtype=torch.float64), torch.tensor(tau, dtype=torch.float64)
    )
    p = torch.exp(-loss)
    assert p.sum().item() == pytest.approx(1, rel=1e-10)
    assert p[0].item() == pytest.approx(1 / (1 + math.exp(tau - difference)), rel=1e-10)
    assert p[2].item() == pytest.approx(1 / (1 + math.exp(tau + difference)), rel=1e-10)


def test_rao_kupper_without_ties_and_tau_zero_is_rank_net() -> None:
    difference = torch.linspace(-5, 5, 21, dtype=torch.float64)
    answers = (torch.arange(21) % 2).double()
    assert torch.allclose(rao_kupper(difference, answers, torch.zeros(())), rank_net(difference, answers))


@pytest.mark.parametrize("answer", [0.0, 0.5, 1.0])
def test_derivatives(answer: float) -> None:
    difference = torch.linspace(-6, 6, 13, dtype=torch.float64, requires_grad=True)
    answers = torch.full((13,), answer, dtype=torch.float64)
    raw = torch.tensor(0.3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda d: rank_net(d, answers), (difference,))
    assert torch.autograd.gradcheck(
        lambda d, r: rao_kupper(d, answers, nn.functional.softplus(r)), (difference, raw)
    )


@pytest.mark.parametrize("difference", [-1e4, 1e4, 0.0])
@pytest.mark.parametrize("answer", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("tau", [0.0, 1e-8, 1.0, 50.0])
def test_huge_differences_stay_finite(difference: float, answer: float, tau: float) -> None:
    d = torch.tensor([difference], requires_grad=True)
    t = torch.tensor(tau, requires_grad=True)
    loss = rank_net(d, torch.tensor([answer])) + rao_kupper(d, torch.tensor([answer]), t)
    loss.sum().backward()
    assert d.grad is not None
    assert t.grad is not None
    assert torch.isfinite(loss).all()
    assert torch.isfinite(d.grad).all()
    assert torch.isfinite(t.grad).all()
    right = (difference > 0) == (answer == 1) and answer != 0.5
    if tau == 0 and difference:
        assert loss.item() == (0 if right else pytest.approx(2e4 if answer != 0.5 else 1.5e4, rel=0.02))


def test_small_losses_keep_their_digits() -> None:
    loss = rank_net(torch.tensor([60.0]), torch.tensor([1.0]))
    assert loss.item() == pytest.approx(math.exp(-60), rel=1e-5)


def test_graded_counts_known_grades_only() -> None:
    scores = torch.tensor([[1.0, 2.5], [0.0, 3.0], [7.0, 7.0]], requires_grad=True)
    grades = torch.tensor([[1.5, 2.0], [-1.0, 1.0], [-1.0, -1.0]])
    loss = graded(scores, grades)
    assert loss.tolist() == pytest.approx([0.5, 4.0, 0.0])
    loss.sum().backward()
    assert scores.grad is not None
    assert scores.grad.tolist() == [[-1.0, 1.0], [0.0, 4.0], [0.0, 0.0]]


def test_grade_loss_is_cross_entropy() -> None:
    logits = torch.tensor([[1.0, 2.0, 0.5]])
    expected = -math.log(np.exp(2.0) / np.exp([1.0, 2.0, 0.5]).sum())
    assert grade_loss(logits, torch.tensor([1])).item() == pytest.approx(expected, rel=1e-6)


def test_l2_takes_conv_and_linear_weights_only() -> None:
    module = nn.Sequential(nn.Conv2d(1, 2, 1), nn.BatchNorm2d(2), nn.Flatten(), nn.Linear(2, 1))
    weights = l2_weights(module)
    assert [id(w) for w in weights] == [id(module[0].weight), id(module[3].weight)]
    assert l2(module).item() == pytest.approx(sum((w**2).sum().item() for w in weights))


def test_coupled_weight_decay_is_l2_in_the_loss() -> None:
    """Adam's weight_decay = 2λ moves exactly as λ·l2 in the loss does (and unlike AdamW)."""
    torch.manual_seed(0)
    one, other = nn.Linear(4, 1), nn.Linear(4, 1)
    other.load_state_dict(one.state_dict())
    lam, x = 0.05, torch.randn(8, 4)
    written = torch.optim.Adam(one.parameters(), lr=0.01)
    added = torch.optim.Adam(
        [{"params": [other.weight], "weight_decay": 2 * lam}, {"params": [other.bias]}], lr=0.01
    )
    for _ in range(20):
        written.zero_grad()
        (one(x).square().mean() + lam * l2(one)).backward()
        written.step()
        added.zero_grad()
        other(x).square().mean().backward()
        added.step()
    assert torch.allclose(one.weight, other.weight, atol=1e-6)
    assert torch.allclose(one.bias, other.bias, atol=1e-6)
