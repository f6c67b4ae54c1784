"""Do cheap uncertainties order images as expensive ones do? Spearman against 2,000 draws, quick preset, ulcerative colitis.

    python benchmarks/variance_fidelity.py

The dropout network of the quick preset is trained on N pairs of fold 0; the pool is all images. `closed form` sees the dropout
of the last layer only, `laplace` is another posterior (what the answers leave open, not what dropout switches off), so
their agreement with draws is a comparison, not an error. The convex head's posterior is given as well.
"""

from __future__ import annotations

import sys

import numpy as np
from _data import catalog, cells, features, same
from scipy.stats import spearmanr

from steelyard.config import ranker_preset
from steelyard.evaluate.accuracy import accuracy
from steelyard.ranker.learner import Learner
from steelyard.ranker.posterior import Posterior
from steelyard.ranker.scoring import batches_of, draw_scores, last_layer


def main() -> int:
    """Train once, then compare the orders of uncertainty."""
    images = catalog("uc")
    rows = features(images, backbone=ranker_preset("quick").backbone)
    assert images.grades is not None
    cell = next(cells(images.grades, same(images)))
    learner = Learner(ranker_preset("quick", head="mlp"), rows, pool=cell.split.train)
    network = learner.fit(cell.pairs, cell.answers).network  # type: ignore[attr-defined]
    draws = draw_scores(network, batches_of(rows, 256), draws=2030, seed=0)
    truth = Posterior.from_draws(draws[30:])
    layer = last_layer(network, batches_of(rows, 256))
    laplace = Posterior.laplace(
        layer.features_N_D,
        layer.weights_D,
        cell.pairs,
        cell.answers,
        precision=2e-4 * len(cell.pairs),
        bias=layer.bias,
    )
    kinds = {
        "30 draws": Posterior.from_draws(draws[:30]),
        "closed form": Posterior.closed_form(layer.features_N_D, layer.weights_D, layer.p, layer.bias),
        "laplace": laplace,
        "convex head": Learner(ranker_preset("quick"), rows).fit(cell.pairs, cell.answers).posterior(rows),
    }
    part, grades = cell.split.test, images.grades
    top = set(np.argsort(-truth.variance)[: len(images) // 20].tolist())
    rng = np.random.default_rng(0)
    pairs = rng.permutation(len(images))[: len(images) // 2 * 2].reshape(-1, 2)
    print(f"{len(images)} images, {len(cell.pairs)} pairs; against the variance over 2,000 draws:")
    print(f"{'':14s} Spearman, images   Spearman, differences   top 5% found   overall accuracy")
    for name, kind in ({"2,000 draws": truth} | kinds).items():
        images_rho = spearmanr(kind.variance, truth.variance).statistic
        pairs_rho = spearmanr(kind.difference(pairs)[1], truth.difference(pairs)[1]).statistic
        found = len(top & set(np.argsort(-kind.variance)[: len(top)].tolist())) / len(top)
        overall = accuracy(kind.mean[part], grades[part], cell.test).overall
        print(f"{name:14s} {images_rho:16.3f} {pairs_rho:23.3f} {found:14.0%} {overall:18.3f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
