"""What training minimises: P3, P6, Rao–Kupper's ties, and cross-entropy for the compared classification.

Every function returns a value a pair (or an image); the mean over the batch is taken by the caller, once. So a step minimises
mean + λ Σ‖W‖², as the authors' code does; P3 as printed has the sum over the batch (docs/theory.md, "Sum or mean"). All are
written with softplus, so that differences of ±10⁴ stay finite in value and gradient.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, softplus
from torch.nn.modules.conv import _ConvNd

__all__ = ["grade_loss", "graded", "l2", "l2_weights", "rank_net", "rao_kupper"]


def rank_net(difference: Tensor, answers: Tensor) -> Tensor:
    """P3 without its L2 term, by pair: −C log σ(Δ) − (1−C) log σ(−Δ).

    Args:
        difference: Δ = f(x_i) − f(x_j), shape (n,).
        answers: C of P1, shape (n,): 1, 0.5 or 0.
    """
    return answers * softplus(-difference) + (1 - answers) * softplus(difference)


def rao_kupper(difference: Tensor, answers: Tensor, tau: Tensor) -> Tensor:
    """Ties as an outcome of their own: P(i≻j) = σ(Δ−τ), P(j≻i) = σ(−Δ−τ), a tie is the rest; −log of what came.

    The rest is σ(Δ+τ) σ(τ−Δ) (1 − e^(−2τ)), which has no difference of nearly equal numbers in it.

    Args:
        difference: Δ, shape (n,).
        answers: C of P1, shape (n,); 0.5 is a tie.
        tau: τ ≥ 0, a scalar.
    """
    first = softplus(tau - difference)
    second = softplus(tau + difference)
    # τ = 0 makes a tie impossible; the floor keeps its loss and gradient finite until τ has grown.
    tie = (
        softplus(-difference - tau)
        + softplus(difference - tau)
        - torch.log(-torch.expm1(-2 * tau.clamp_min(1e-6)))
    )
    return torch.where(answers == 1, first, torch.where(answers == 0, second, tie))


def graded(scores: Tensor, grades: Tensor) -> Tensor:
    """P6 by pair: (f(x_i) − A_i)² + (f(x_j) − A_j)², over the images that carry a grade.

    Args:
        scores: shape (n, 2).
        grades: shape (n, 2), below 0 where an image carries none.
    """
    known = grades >= 0
    return torch.where(known, scores - grades, torch.zeros_like(scores)).square().sum(dim=1)


def grade_loss(logits: Tensor, grades: Tensor) -> Tensor:
    """Cross-entropy by image, for the compared "conventional" method: logits (n, G), grades (n,) codes."""
    return cross_entropy(logits, grades, reduction="none")


def l2_weights(module: nn.Module) -> list[nn.Parameter]:
    """The weights that P3's λ holds for: of convolutions and linear layers; no biases, no batch norm, no τ."""
    found = [m._parameters["weight"] for m in module.modules() if isinstance(m, (nn.Linear, _ConvNd))]
    return [w for w in found if w is not None and w.requires_grad]


def l2(module: nn.Module) -> Tensor:
    """Σ_l ‖W_l‖²_F of P3.

    Training does not add λ·l2 to the loss but its gradient 2λW to the gradient (Adam's coupled `weight_decay` = 2λ),
    which is the same thing without a pass over all weights; a test holds the two together.
    """
    total = torch.zeros(())
    for weight in l2_weights(module):
        total = total.to(weight.device) + weight.square().sum()
    return total
