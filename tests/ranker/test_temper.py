"""Answers that share images, and probabilities that come true."""

from __future__ import annotations

import numpy as np
import pytest

from steelyard.evaluate.calibration import calibration
from steelyard.ranker.convex import ConvexHead
from steelyard.ranker.likelihood import outcomes
from steelyard.ranker.posterior import Posterior
from steelyard.ranker.reduction import Reduction
from steelyard.ranker.temper import Sharing, Temper, design_effect, fit_temper, without_images
from steelyard.study.models import load_posterior, save_posterior

Arrays = tuple[np.ndarray, np.ndarray, np.ndarray]


def told(rng: np.random.Generator, delta: np.ndarray, tau: float) -> np.ndarray:
    """Rao–Kupper's answers."""
    p = outcomes(delta, 0.0, tau)
    luck = rng.random(len(delta))
    return np.where(luck < p[:, 0], 1.0, np.where(luck < p[:, :2].sum(1), 0.5, 0.0))


def world(rng: np.random.Generator, *, images: int, answers: int, unseen: float, d: int = 10) -> Arrays:
    """Features, pairs, and answers about severities of which the features do not see a part of this deviation."""
    features = rng.standard_normal((images, d)) / np.sqrt(d)
    severity = features @ rng.normal(0, 2.0, d) + unseen * rng.standard_normal(images)
    pairs = rng.integers(images, size=(2 * answers, 2))
    pairs = pairs[pairs[:, 0] != pairs[:, 1]][:answers]
    return features, pairs, told(rng, severity[pairs[:, 0]] - severity[pairs[:, 1]], 0.7)


def fitted(features: np.ndarray, pairs: np.ndarray, answers: np.ndarray, **options: object) -> ConvexHead:
    """A head on the features as they are."""
    own = Reduction.identity(features.shape[1])
    return ConvexHead.fit(features, pairs, answers, reduction=own, ties="rao_kupper", **options)  # type: ignore[arg-type]


def left(head: ConvexHead, features: np.ndarray, pairs: np.ndarray, answers: np.ndarray) -> Arrays:
    """Which answers, and their differences without the images."""
    from steelyard.ranker.likelihood import curvature, slope

    z = features[pairs[:, 0]] - features[pairs[:, 1]]
    gap, sharing = z @ head.weights, Sharing.of(pairs, z.shape[1])
    pulls, bends = (head.share * part(gap, answers, head.tau) for part in (slope, curvature))
    shift, variance = without_images(z, sharing, head.covariance, pulls, bends)
    return sharing.chosen, gap[sharing.chosen] - shift, variance


def test_it_is_the_refit_without_every_answer_about_either_image(rng: np.random.Generator) -> None:
    features, pairs, answers = world(rng, images=60, answers=150, unseen=0.5)
    head = fitted(features, pairs, answers, precision=1.0)
    chosen, mean, variance = left(head, features, pairs, answers)
    assert chosen.tolist() == list(range(150))
    means, variances = [], []
    for pair in pairs[:40]:
        keep = ~np.isin(pairs, pair).any(axis=1)
        again = fitted(features, pairs[keep], answers[keep], precision=1.0, start=head).posterior(features)
        found = again.difference(pair[None])
        means.append(found[0][0])
        variances.append(found[1][0])
    assert np.corrcoef(mean[:40], means)[0, 1] > 0.99
    assert np.abs(mean[:40] - means).mean() < 0.1 * np.std(means)
    assert np.median(np.abs(variance[:40] / variances - 1)) < 0.1
    # Only its own answer left out, a pair would be told by the others of its images.
    assert np.abs(mean[:40] - means).mean() < 0.5 * np.abs(mean[:40] - (features @ head.weights)[pairs[:40]] @ [1, -1]).mean()  # fmt: skip


def test_answers_that_share_what_features_cannot_see_count_less() -> None:
    shares = {}
    for unseen in (0.0, 2.5):
        heads = [
            fitted(*world(np.random.default_rng(seed), images=150, answers=300, unseen=unseen))
            for seed in range(8)
        ]
        shares[unseen] = float(np.mean([head.share for head in heads]))
    assert shares[0.0] > 0.85
    assert shares[2.5] < 0.7


def test_the_design_effect_is_that_of_known_residuals(rng: np.random.Generator) -> None:
    # Every image pulls its answers one way; nothing else does: the correlation of two answers that share it is ½.
    pulls = rng.standard_normal(4000)
    pairs = np.stack([rng.permutation(4000), rng.permutation(4000)], 1)
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    answers = (pulls[pairs[:, 0]] > pulls[pairs[:, 1]]).astype(float)
    sharing = Sharing.of(pairs, 1)
    nothing, said = np.zeros(len(sharing.chosen)), answers[sharing.chosen]
    known = np.zeros((len(said), 1))
    found = design_effect(sharing, said, nothing, nothing, 0.0, known)
    # Signs of Gaussians that correlate by ½ correlate by (2/π) asin ½ = ⅓; each image is in two answers.
    assert found == pytest.approx(1 + 2 / 3, abs=0.08)
    fair = rng.integers(2, size=len(said)).astype(float)
    assert design_effect(sharing, fair, nothing, nothing, 0.0, known) == pytest.approx(1.0, abs=0.08)
    # Nothing shared, nothing said, no answers.
    alone = Sharing.of(np.arange(20).reshape(10, 2), 1)
    assert design_effect(alone, np.ones(10), np.zeros(10), np.zeros(10), 0.0, known[:10]) == 1.0
    assert design_effect(alone, np.full(10, 0.5), np.zeros(10), np.zeros(10), 0.0, known[:10]) == 1.0
    none = Sharing.of(np.empty((0, 2), dtype=np.int64), 1)
    assert design_effect(none, np.empty(0), np.empty(0), np.empty(0), 0.0, known[:0]) == 1.0


def test_a_temper_is_found_again(rng: np.random.Generator) -> None:
    mean, variance = rng.normal(0, 2.0, 20_000), rng.uniform(0.1, 1.0, 20_000)
    truth = 0.6 * (mean + np.sqrt(variance) * rng.standard_normal(20_000))
    found = fit_temper(mean, variance, told(rng, truth, 0.9), 0.3, ties=True)
    assert found.scale == pytest.approx(0.6, rel=0.05)
    assert found.tau == pytest.approx(0.9, rel=0.05)
    half = fit_temper(mean, variance, told(rng, 1.5 / 0.6 * truth, 0.0), 0.0, ties=False)
    assert half.scale == pytest.approx(1.5, rel=0.05)
    assert half.tau == 0.0
    assert fit_temper(np.empty(0), np.empty(0), np.empty(0), 0.4, ties=True) == Temper(1.0, 0.4)


def test_the_half_width_is_an_ordinary_judges_whoever_answered(rng: np.random.Generator) -> None:
    """Some call more equal and some slip: what is known of them is not counted a second time."""
    n = 20_000
    mean, variance = rng.normal(0, 2.0, n), rng.uniform(0.1, 1.0, n)
    truth = mean + np.sqrt(variance) * rng.standard_normal(n)
    tie, lapse = rng.choice([0.2, 1.0, 2.5], n), np.where(rng.random(n) < 0.5, 0.3, 0.0)
    answers = np.empty(n)
    for width in (0.2, 1.0, 2.5):
        answers[tie == width] = told(rng, truth[tie == width], 0.7 * width)
    slips = rng.random(n) < lapse
    answers[slips] = rng.integers(2, size=int(slips.sum()))
    found = fit_temper(mean, variance, answers, 0.3, ties=True, tie=tie, lapse=lapse)
    assert found.tau == pytest.approx(0.7, rel=0.05)
    assert found.scale == pytest.approx(1.0, rel=0.05)


def test_probabilities_of_new_images_come_true() -> None:
    """Many features and few answers: Laplace's mode lies too close to 0, and its probabilities too close to ½."""
    errors: dict[bool, float] = {}
    stated: dict[bool, list[np.ndarray]] = {True: [], False: []}
    happened = []
    for seed in range(6):
        features, pairs, answers = world(
            np.random.default_rng(seed), images=600, answers=2600, unseen=0.0, d=60
        )
        taught = np.flatnonzero((pairs < 300).all(axis=1))[:150]
        new = (pairs >= 300).all(axis=1)
        posterior = fitted(features, pairs[taught], answers[taught]).posterior(features)
        happened.append(answers[new])
        for tempered, probabilities in stated.items():
            temper = posterior.temper if tempered else Temper(1.0, posterior.tau)
            assert temper is not None
            probabilities.append(temper.outcomes(*posterior.difference(pairs[new])))
        # One number changes no order.
        p, (mean, _) = posterior.outcomes(pairs[new]), posterior.difference(pairs[new])
        np.testing.assert_array_equal(np.sign(p[:, 0] - p[:, 2]), np.sign(mean))
    said = np.concatenate(happened)
    for tempered, probabilities in stated.items():
        p = np.concatenate(probabilities)
        both = np.concatenate([p[:, 0], p[:, 2]]), np.concatenate([said == 1, said == 0])
        errors[tempered] = calibration(*both).ece
    assert errors[True] < 0.02
    assert errors[True] < 0.6 * errors[False]


def test_share_and_temper_are_saved(rng: np.random.Generator, tmp_path) -> None:  # type: ignore[no-untyped-def]
    head = fitted(*world(rng, images=80, answers=200, unseen=2.0))
    assert head.share < 1
    again = ConvexHead.from_arrays(head.to_arrays())
    assert (again.share, again.temper) == (head.share, head.temper)
    # What 0.1 wrote has four numbers: every answer counted fully, and probabilities are those of the scores.
    arrays = head.to_arrays()
    arrays["numbers"] = arrays["numbers"][:4]
    old = ConvexHead.from_arrays(arrays)
    assert (old.share, old.temper) == (1.0, None)
    posterior = head.posterior(rows=rng.standard_normal((5, 10)).astype(np.float32))
    save_posterior(tmp_path, posterior)
    loaded = load_posterior(tmp_path)
    assert (loaded.share, loaded.temper) == (head.share, head.temper)
    np.testing.assert_allclose(loaded.outcomes([(0, 1)]), posterior.outcomes([(0, 1)]), rtol=1e-6)
    moved = loaded.observe((0, 1), 1.0)
    assert isinstance(moved, Posterior)
    assert (moved.share, moved.temper) == (head.share, head.temper)
