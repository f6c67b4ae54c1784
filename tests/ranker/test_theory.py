"""The numbers behind docs/theory.md: each claim of the derivation, checked without the code that relies on it."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import conv2d, logsigmoid

from steelyard.config import ranker_preset
from steelyard.ranker.dropout import bayesian, draw_for_pairs
from steelyard.ranker.loss import l2, rank_net
from steelyard.ranker.network import build_network
from steelyard.ranker.scoring import batches_of, draw_scores, last_layer

# ------------------------------------------------------------------ P11: the KL term


def kl_by_monte_carlo(
    m: Tensor, keep: float, sigma: float, samples: int, generator: torch.Generator
) -> Tensor:
    """KL(q ‖ N(0, I)) of one column, q = keep·N(m, σ²I) + (1−keep)·N(0, σ²I): z summed exactly, ε sampled."""
    k = len(m)
    noise = sigma * torch.randn(samples, k, generator=generator, dtype=m.dtype)

    def log_normal(w: Tensor, mean: Tensor, deviation: float) -> Tensor:
        square = ((w - mean) / deviation).square().sum(dim=1)
        return -0.5 * square - k * math.log(deviation) - 0.5 * k * math.log(2 * math.pi)

    total = torch.zeros((), dtype=m.dtype)
    for weight, mean in ((keep, m), (1 - keep, torch.zeros_like(m))):
        w = mean + noise
        log_q = torch.logaddexp(
            math.log(keep) + log_normal(w, m, sigma),
            math.log(1 - keep) + log_normal(w, torch.zeros_like(m), sigma),
        )
        total = total + weight * (log_q - log_normal(w, torch.zeros_like(m), 1.0)).mean()
    return total


def kl_by_p11(m: Tensor, keep: float, sigma: float) -> Tensor:
    """keep/2 ‖m‖² plus what does not depend on m."""
    k = len(m)
    entropy = -keep * math.log(keep) - (1 - keep) * math.log(1 - keep)
    return keep / 2 * m.square().sum() + k / 2 * (sigma**2 - 1 - math.log(sigma**2)) - entropy


@pytest.mark.parametrize("keep", [0.5, 0.8])
@pytest.mark.parametrize("sigma", [0.01, 0.1])
def test_kl_of_p11_against_monte_carlo(keep: float, sigma: float) -> None:
    generator = torch.Generator().manual_seed(0)
    m = torch.randn(40, generator=generator, dtype=torch.float64).requires_grad_()
    sampled, closed = kl_by_monte_carlo(m, keep, sigma, 20_000, generator), kl_by_p11(m, keep, sigma)
    assert closed.item() == pytest.approx(sampled.item(), abs=0.02)
    (by_sampling,) = torch.autograd.grad(sampled, m)
    (by_formula,) = torch.autograd.grad(closed, m)
    assert torch.allclose(by_formula, keep * m)
    assert (by_sampling - by_formula).norm() < 0.01 * by_formula.norm()


def test_kl_of_p11_needs_columns_that_are_long_against_sigma() -> None:
    """Where the two components overlap the formula is off, by at most the entropy of the coin, log 2."""
    generator = torch.Generator().manual_seed(0)
    m = torch.full((4,), 0.001, dtype=torch.float64)
    gap = kl_by_monte_carlo(m, 0.5, 0.1, 20_000, generator) - kl_by_p11(m, 0.5, 0.1)
    assert gap.item() == pytest.approx(math.log(2), abs=0.02)


# ------------------------------------------------------------------ P7–P10: dropout training is the sampled lower bound


def test_gradient_of_the_dropout_objective_is_that_of_the_sampled_lower_bound() -> None:
    """One hidden layer: our contexts, loss and L2 against explicit weight matrices Ŵⁿ = M diag(zⁿ) + σε and a sampled KL."""
    n, width, hidden, p, sigma = 12, 30, 25, 0.2, 1e-4
    keep = 1 - p
    generator = torch.Generator().manual_seed(0)
    torch.manual_seed(0)
    network = nn.Sequential(
        nn.Linear(width, hidden, bias=False), nn.Tanh(), nn.Linear(hidden, 1, bias=False)
    ).double()
    bayesian(network, p)
    left, right = torch.randn(2, n, width, generator=generator, dtype=torch.float64)
    answers = torch.ones(n, dtype=torch.float64)

    seen: list[Tensor] = []  # masked inputs of the two layers, and the hidden values before masking
    network[0].register_forward_pre_hook(lambda _, args: seen.append(args[0].detach()))
    network[1].register_forward_hook(lambda _, args, out: seen.append(out.detach()))
    network[2].register_forward_pre_hook(lambda _, args: seen.append(args[0].detach()))

    # docs/theory.md: the KL term keep/(2N) ‖M‖² with M = W/keep, because our masks are z/keep.
    lam = 1 / (2 * n * keep)
    with draw_for_pairs(network, 5):
        scores = network(torch.cat([left, right])).squeeze(1)
    (rank_net(scores[:n] - scores[n:], answers).mean() + lam * l2(network)).backward()
    ours = [network[0].weight.grad, network[2].weight.grad]

    z1 = (seen[0] / torch.cat([left, right])).mul(keep).round()
    z2 = (seen[2] / seen[1]).mul(keep).round()
    assert torch.equal(z1[:n], z1[n:])  # P9
    assert torch.equal(z2[:n], z2[n:])
    assert 0.7 < z1.mean() < 0.9

    means = [(network[k].weight.detach() / keep).requires_grad_() for k in (0, 2)]  # M
    bound = torch.zeros((), dtype=torch.float64)
    for k in range(n):
        drawn = []
        for mean, z in zip(means, (z1, z2), strict=True):
            noise = sigma * torch.randn(mean.shape, generator=generator, dtype=torch.float64)
            drawn.append(mean * z[k] + noise)  # P8
        y1, y2 = (drawn[1] @ torch.tanh(drawn[0] @ x[k]) for x in (left, right))  # P9: one draw, both images
        bound = bound + logsigmoid(y1 - y2).squeeze() / n  # P10
    kl = sum(
        kl_by_monte_carlo(column, keep, sigma, 200, generator)
        for mean in means
        for column in mean.T
        if len(column) > 1
    )
    kl = kl + sum(
        keep / 2 * weight.square() for weight in means[1].reshape(-1)
    )  # columns of one number: by formula
    (kl / n - bound).backward()
    for gradient, mean in zip(ours, means, strict=True):
        assert gradient is not None
        assert mean.grad is not None
        expected = mean.grad / keep  # by the chain rule, M = W / keep
        assert (gradient - expected).norm() < 0.01 * expected.norm()


def test_one_draw_a_pair_is_unbiased_and_separate_draws_are_for_another_objective() -> None:
    """All masks of a linear f enumerated: the shared draw gives E_q log p(c | W), separate draws something else."""
    rng = np.random.default_rng(0)
    w, x1, p = rng.normal(size=4), rng.normal(size=4), 0.3
    x2 = x1 - 0.5 * w  # images that resemble each other, the first one worse
    masks = [np.array(bits) for bits in itertools.product((0, 1), repeat=4)]
    chance = [np.prod(np.where(z, 1 - p, p)) for z in masks]

    def log_likelihood(first: np.ndarray, second: np.ndarray) -> float:
        return -math.log1p(math.exp(-((w * first / (1 - p)) @ x1 - (w * second / (1 - p)) @ x2)))

    shared = sum(c * log_likelihood(z, z) for z, c in zip(masks, chance, strict=True))
    separate = sum(
        c1 * c2 * log_likelihood(z1, z2)
        for (z1, c1), (z2, c2) in itertools.product(zip(masks, chance, strict=True), repeat=2)
    )
    assert sum(chance) == pytest.approx(1)
    assert shared - separate > 0.05  # for images alike, noise of their own is noise in the difference

    layer = bayesian(nn.Linear(4, 1, bias=False).double(), p)
    with torch.no_grad():
        layer.weight.copy_(torch.from_numpy(w)[None])
        count = 20_000
        batch = torch.cat([torch.from_numpy(x).expand(count, -1) for x in (x1, x2)])
        with draw_for_pairs(layer, 0):
            scores = layer(batch).squeeze(1)
    ours = logsigmoid(scores[:count] - scores[count:])
    assert ours.mean().item() == pytest.approx(shared, abs=4 * ours.std().item() / count**0.5)
    assert abs(ours.mean().item() - separate) > 4 * ours.std().item() / count**0.5


# ------------------------------------------------------------------ P8: masks at single positions are no draw of the weights


def fit_kernel(x: Tensor, y: Tensor) -> float:
    """Share of y that no 3 × 3 kernel on x can explain (least squares over all kernels)."""
    columns = nn.functional.unfold(x, 3, padding=1)  # (B, 9·C, positions)
    a = columns.permute(0, 2, 1).reshape(-1, columns.shape[1])
    b = y.permute(0, 2, 3, 1).reshape(-1, y.shape[1])
    best = torch.linalg.lstsq(a, b).solution
    return ((a @ best - b).norm() / b.norm()).item()


def test_masks_at_single_positions_are_no_draw_of_the_weights() -> None:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(8, 4, 12, 12, generator=generator, dtype=torch.float64)
    kernel = torch.randn(5, 4, 3, 3, generator=generator, dtype=torch.float64)
    by_channel = (torch.rand(1, 4, 1, 1, generator=generator) > 0.3).double()
    by_position = (torch.rand(1, 4, 12, 12, generator=generator) > 0.3).double()
    assert 0 < by_channel.sum() < 4

    def masked(mask: Tensor, images: Tensor) -> Tensor:
        return conv2d(images * mask, kernel, padding=1)

    # A channel mask is a kernel – the one with those channels switched off; a mask of positions is no kernel at all.
    assert torch.allclose(masked(by_channel, x), conv2d(x, kernel * by_channel, padding=1))
    assert fit_kernel(x, masked(by_channel, x)) < 1e-10
    assert fit_kernel(x, masked(by_position, x)) > 0.3

    # Every convolution moves with its image; away from the border this one does not.
    def moves(mask: Tensor) -> float:
        shifted = masked(mask, x.roll(2, dims=3))[..., 3:-3]
        return (shifted - masked(mask, x).roll(2, dims=3)[..., 3:-3]).abs().max().item()

    assert moves(by_channel) < 1e-10
    assert moves(by_position) > 1


# ------------------------------------------------------------------ P12 and the last layer


def test_analytic_last_layer_covariance_against_ten_thousand_draws() -> None:
    """K_ij = p/(1−p) Σ_k w_k² h_ik h_jk within 2%, with dropout before the last layer only."""
    config = ranker_preset("features", kind="network", hidden=64, dropout=0.0, posterior="laplace")
    network = build_network(config, seed=0, width=20)
    bayesian(network.last, 0.2)
    rows = np.random.default_rng(0).normal(size=(60, 20)).astype(np.float32)
    layer = last_layer(network, batches_of(rows, 60))
    scaled = layer.features_N_D * layer.weights_D
    exact = layer.p / (1 - layer.p) * scaled @ scaled.T
    scores = draw_scores(network, batches_of(rows, 60), draws=10_000, seed=0)
    found = np.cov(scores.T, bias=True)
    assert np.trace(found) == pytest.approx(np.trace(exact), rel=0.02)
    # One variance from 10,000 draws is itself known to √(2/10,000) = 1.4%, so it is their mean deviation that is held.
    assert np.mean(np.abs(np.diag(found) / np.diag(exact) - 1)) < 0.02
    i, j = np.triu_indices(60, 1)
    of_difference = [k[i, i] + k[j, j] - 2 * k[i, j] for k in (found, exact)]
    assert np.mean(np.abs(of_difference[0] / of_difference[1] - 1)) < 0.02
    assert np.linalg.norm(found - exact) < 0.05 * np.linalg.norm(exact)
    assert scores.mean(axis=0) == pytest.approx(scaled.sum(axis=1) + layer.bias, abs=0.02 * scores.std())


def test_shared_draws_keep_the_covariance_that_separate_masks_lose() -> None:
    """Two copies of one image: their difference has no variance under a draw, and twice a score's with separate masks."""
    rows = np.repeat(np.random.default_rng(0).normal(size=(1, 20)).astype(np.float32), 2, axis=0)
    for masks, expected in (("shared", 0.0), ("independent", 2.0)):
        config = ranker_preset("features", kind="network", hidden=64, masks=masks)
        network = build_network(config, seed=0, width=20)
        scores = draw_scores(network, batches_of(rows, 2), draws=1000, seed=0)
        ratio = np.var(scores[:, 0] - scores[:, 1]) / np.var(scores)
        assert ratio == pytest.approx(expected, abs=0.15 * expected + 1e-9)
