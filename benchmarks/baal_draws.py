"""30 draws of an MLP head beside Baal 2.1 with `replicate_in_memory`, on the same head, rows and machine.

Baal is no dependency of Steelyard. Put it where it disturbs nobody:

    pip install --no-deps --target /tmp/baal baal==2.1.0 structlog tqdm torchmetrics lightning-utilities h5py
    PYTHONPATH=/tmp/baal python benchmarks/baal_draws.py
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings

import numpy as np
import torch
from scipy.stats import spearmanr
from torch import nn

from steelyard.config import ranker_preset
from steelyard.ranker.network import build_network
from steelyard.ranker.posterior import Posterior
from steelyard.ranker.scoring import batches_of, draw_scores, last_layer


def main() -> int:
    """Compare, or say how to get Baal where it is not there."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=4000)
    parser.add_argument("--width", type=int, default=1280)
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            from baal.bayesian.dropout import MCDropoutModule
            from baal.modelwrapper import ModelWrapper, TrainingArgs
    except ImportError as error:
        print(f"Baal cannot be imported ({error}).{(__doc__ or '').split('.', 2)[2]}")
        return 0

    config = ranker_preset("features", head="mlp")
    network = build_network(config, seed=0, width=options.width)
    rows = np.random.default_rng(0).normal(size=(options.rows, options.width)).astype(np.float32)
    rows *= np.linspace(0.5, 1.5, options.rows, dtype=np.float32)[:, None]
    hidden = network.head.get_submodule("hidden")
    same_head = nn.Sequential(
        nn.Dropout(config.dropout), hidden, nn.ReLU(), nn.Dropout(config.dropout), network.last
    )
    wrapper = ModelWrapper(MCDropoutModule(same_head), TrainingArgs(use_cuda=False, replicate_in_memory=True))
    wrapper.eval()
    tensor = torch.from_numpy(rows)

    def baal(batch: int, draws: int) -> np.ndarray:
        parts = [
            wrapper.predict_on_batch(tensor[at : at + batch], draws) for at in range(0, len(tensor), batch)
        ]
        return torch.cat(parts)[:, 0].T.numpy()

    def ours(draws: int) -> np.ndarray:
        return draw_scores(network, batches_of(rows, 512), draws=draws, seed=0)

    def closed_form() -> np.ndarray:
        layer = last_layer(network, batches_of(rows, 512))
        return Posterior.closed_form(layer.features_N_D, layer.weights_D, layer.p, layer.bias).variance

    pairs = np.random.default_rng(1).permutation(options.rows)[:1000].reshape(-1, 2)

    def laplace() -> np.ndarray:
        layer = last_layer(network, batches_of(rows, 512))
        answers = np.ones(len(pairs))
        return Posterior.laplace(
            layer.features_N_D, layer.weights_D, pairs, answers, precision=1.0, bias=layer.bias
        ).variance

    acts = {
        "Baal, batch 32": lambda: baal(32, 30),
        "Baal, batch 256": lambda: baal(256, 30),
        "ours": lambda: ours(30),
        "closed_form": closed_form,
        "laplace": laplace,
    }
    times: dict[str, list[float]] = {name: [] for name in acts}
    for turn in range(options.rounds + 1):
        for name, act in acts.items():
            started = time.perf_counter()
            act()
            if turn:  # the first turn warms up
                times[name].append(time.perf_counter() - started)
    best = min(float(np.median(times[name])) for name in acts if name.startswith("Baal"))
    print(
        f"{options.rows:,} rows, head {options.width} → {config.hidden} → 1, T = 30, {options.rounds} rounds in turn"
    )
    for name, taken in times.items():
        print(
            f"  {name:16s} {1000 * np.median(taken):7.1f} ms   Baal's best takes {best / np.median(taken):5.1f} × as long"
        )
    many_ours, many_baal = ours(600), np.concatenate([baal(256, 30) for _ in range(20)])
    ratio = many_ours.std(axis=0).mean() / many_baal.std(axis=0).mean()
    agree = spearmanr(many_ours.var(axis=0), many_baal.var(axis=0)).statistic
    print(f"  spread over 600 draws, ours / Baal: {ratio:.3f}; Spearman of the variances {agree:.3f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
