"""The network as a ranker: built, trained from a start, scored by draws, in closed form or by Laplace, saved and read.

A ranker carries what it needs for any image: the scaling of feature rows, and the covariance of the last layer where the
posterior is Laplace's. Torch is loaded when a network is.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from steelyard.arrays import Floats, Rows
from steelyard.config import NetworkConfig, ranker_from_saved
from steelyard.errors import RankerError
from steelyard.progress import Progress
from steelyard.ranker import checkpoint
from steelyard.ranker.posterior import Posterior
from steelyard.ranker.scaling import Scaling
from steelyard.ranker.temper import Temper, fit_temper

if TYPE_CHECKING:
    from steelyard.ranker.network import Network
    from steelyard.ranker.scoring import LastLayer

__all__ = ["NetworkLearner", "NetworkRanker"]

_ENOUGH = 30  # answers held back; fewer do not settle a scale
_MOST = 400  # more settle it no better and cost as many images drawn


@dataclass(frozen=True, eq=False)
class NetworkRanker:
    """A trained network as a `Ranker`.

    Attributes:
        config: its settings.
        network: with trained weights, and the scaling of feature rows.
        seed: of its draws.
        metrics: figures of the fit.
        covariance_D_D: of the last layer's weights where the posterior is Laplace's, else None.
        temper: how probabilities are made from its scores; None where too few answers were held back to know.
    """

    config: NetworkConfig
    network: Network
    seed: int
    metrics: dict[str, Any]
    covariance_D_D: Floats | None = None
    temper: Temper | None = None

    learns_reserved = False

    @property
    def scaling(self) -> Scaling | None:
        """How feature rows are standardised; None for pixels and activations, and for networks of 0.1."""
        return self.network.scaling

    def posterior(
        self, inputs: NDArray[Any], *, rows: Rows | None = None, progress: Progress | None = None
    ) -> Posterior:
        """By T draws, in closed form, or by Laplace's approximation of the last layer, as configured."""
        return self._scored(inputs, rows, progress).tempered(self.temper)

    def _scored(self, inputs: NDArray[Any], rows: Rows | None, progress: Progress | None) -> Posterior:
        from steelyard.ranker.device import cpu_threads, device_of
        from steelyard.ranker.scoring import batches_of, draw_scores, screened_draws

        self.network.to(device_of(self.config.device))
        with cpu_threads(self.config.threads):
            if self.config.posterior == "closed_form":
                layer = self._last_layer(inputs, rows)
                return Posterior.closed_form(layer.features_N_D, layer.weights_D, layer.p, layer.bias)
            if self.config.posterior == "laplace":
                return self._laplace(inputs, rows)
            if self.config.screening < 1:
                found = screened_draws(
                    self.network, inputs if rows is None else inputs[rows], draws=self.config.draws, seed=self.seed,
                    share=self.config.screening, progress=progress,
                )  # fmt: skip
                return Posterior.from_draws(found.scores_T_N.astype(np.float32))
            scores = draw_scores(
                self.network, batches_of(inputs, self._batch, rows), draws=self.config.draws, seed=self.seed,
                size=len(inputs) if rows is None else len(rows), progress=progress,
            )  # fmt: skip
            return Posterior.from_draws(scores.astype(np.float32))

    def save(self, folder: Path) -> None:
        """Write weights, scaling, covariance and configuration; training checkpoints of the same folder are replaced."""
        weights = {name: value.detach().cpu().numpy() for name, value in self.network.state_dict().items()}
        arrays: dict[str, Any] = {f"network.{name}": value for name, value in weights.items()}
        if self.network.scaling is not None:
            arrays |= {f"scaling.{name}": value for name, value in self.network.scaling.to_arrays().items()}
        if self.covariance_D_D is not None:
            arrays["covariance"] = self.covariance_D_D
        if self.temper is not None:
            arrays["temper"] = np.array([self.temper.scale, self.temper.tau, self.temper.spread])
        extra = {
            "kind": "network", "ranker": self.config.to_dict(), "seed": self.seed, "metrics": self.metrics,
            "width": self.network.width,
        }  # fmt: skip
        checkpoint.save_model(folder, arrays, config=self.config, extra=extra)

    @classmethod
    def from_checkpoint(cls, saved: checkpoint.Checkpoint, folder: Path) -> NetworkRanker:
        """What `save` wrote, also that of 0.1.

        Raises:
            RankerError: the weights do not fit the configuration.
        """
        from steelyard.ranker.network import build_network

        config, seed = ranker_from_saved(saved.extra["ranker"], "network"), int(saved.extra["seed"])
        network = build_network(config.without_weights(), seed=seed, width=saved.extra["width"])
        parts: dict[str, dict[str, Any]] = {"network": {}, "scaling": {}}
        for name, value in saved.weights.items():
            part, _, rest = name.partition(".")
            if part in parts:
                parts[part][rest] = value
        covariance = saved.weights.get("covariance")
        if not parts["network"]:
            # 0.1 did not divide them, had no scaling, and kept the answers it was trained on instead of a covariance.
            parts["network"] = {k: v for k, v in saved.weights.items() if not k.startswith("trained.")}
            covariance = _covariance_of_0_1(folder) if config.posterior == "laplace" else None
        checkpoint.fill(network, parts["network"], source=str(folder))
        if parts["scaling"]:
            network.scaling = Scaling.from_arrays(parts["scaling"])
        known = None if covariance is None else np.asarray(covariance, dtype=np.float64)
        temper = Temper(*saved.weights["temper"].tolist()) if "temper" in saved.weights else None
        return cls(config, network, seed, dict(saved.extra["metrics"]), known, temper)

    def last_inputs(self, inputs: NDArray[Any], rows: Rows | None = None) -> NDArray[np.float32]:
        """What the last linear layer is given with mean weights, shape (n, D): the features that the network has."""
        from steelyard.ranker.device import cpu_threads, device_of

        self.network.to(device_of(self.config.device))
        with cpu_threads(self.config.threads):
            return self._last_layer(inputs, rows).features_N_D.astype(np.float32)

    def with_covariance(self, inputs: NDArray[Any], pairs: ArrayLike, answers: ArrayLike) -> NetworkRanker:
        """The same ranker with Laplace's covariance of the last layer, from the answers it was trained on."""
        from steelyard.ranker.device import cpu_threads

        index = np.asarray(pairs, dtype=np.int64)
        used, place = np.unique(index, return_inverse=True)
        with cpu_threads(self.config.threads):
            layer = self._last_layer(inputs, used)
        # λ of P3 is per mean pair; the likelihood of the Laplace posterior is a sum.
        precision = max(2 * self.config.weight_decay * len(index), 1e-6)
        found = Posterior.laplace(
            layer.features_N_D,
            layer.weights_D,
            place.reshape(-1, 2),
            answers,
            precision=precision,
            tau=self._tau,
        )
        return replace(self, covariance_D_D=found.covariance_D_D)

    def tempered(self, inputs: NDArray[Any], pairs: NDArray[np.int64], answers: Floats) -> NetworkRanker:
        """The same ranker with probabilities made to come true on answers that it was not taught.

        Its metrics say from how many; with fewer than `_ENOUGH` nothing is fitted.
        """
        few = len(answers) < _ENOUGH
        metrics = {**self.metrics, "temper": None, "temper_answers": 0 if few else min(len(answers), _MOST)}
        if few:
            return replace(self, metrics=metrics)
        pairs, answers = pairs[:_MOST], answers[:_MOST]
        used, place = np.unique(pairs, return_inverse=True)
        mean, variance = self.posterior(inputs, rows=used).difference(place.reshape(-1, 2))
        ties = bool(np.isin(answers, (0.0, 0.5, 1.0)).all() and (answers == 0.5).any())
        temper = fit_temper(mean, variance, answers, self._tau, ties=ties or self._tau > 0, spread=True)
        return replace(self, metrics={**metrics, "temper": asdict(temper)}, temper=temper)

    @property
    def _batch(self) -> int:
        return max(64, self.config.batch_size)

    @property
    def _tau(self) -> float:
        return 0.0 if self.network.tau is None else self.network.tau.item()

    def _last_layer(self, inputs: NDArray[Any], rows: Rows | None) -> LastLayer:
        from steelyard.ranker.scoring import batches_of, last_layer

        return last_layer(self.network, batches_of(inputs, self._batch, rows))

    def _laplace(self, inputs: NDArray[Any], rows: Rows | None) -> Posterior:
        if self.covariance_D_D is None:
            raise RankerError(
                "this network was saved by Steelyard 0.1 without the covariance that its uncertainty is made of; train it again"
            )
        layer = self._last_layer(inputs, rows)
        return Posterior(
            layer.bias, layer.features_N_D, layer.weights_D, self.covariance_D_D, "laplace", self._tau
        )


class NetworkLearner:
    """Trains networks on one set of inputs; the scaling of feature rows is learnt once, from the pool."""

    def __init__(
        self,
        config: NetworkConfig,
        inputs: NDArray[Any],
        pool: Rows | None,
        seed: int,
        validation: tuple[ArrayLike, ArrayLike] | None,
    ) -> None:
        self.config, self.inputs, self.seed, self.validation = config, inputs, seed, validation
        self.scaling = Scaling.fit(inputs, pool) if inputs.ndim == 2 else None

    def fit(
        self,
        config: NetworkConfig,
        pairs: ArrayLike,
        answers: ArrayLike,
        grades: ArrayLike | None,
        start: NetworkRanker | None,
        folder: Path | None,
        progress: Progress | None,
    ) -> NetworkRanker:
        """Train on answered pairs, from pretrained or random weights or from those of `start`."""
        from steelyard.ranker.network import build_network
        from steelyard.ranker.train import train

        # Weights to start from replace pretrained ones, so those need not be there.
        wanted = config if start is None else config.without_weights()
        network = build_network(
            wanted, seed=self.seed, width=0 if self.scaling is None else self.inputs.shape[1]
        )
        network.scaling = self.scaling
        if start is not None:
            checkpoint.fill(
                network, _weights_for(start.network, self.scaling), source="the ranker to start from"
            )
        marks = None if grades is None else np.where(np.isnan(np.asarray(grades, dtype=float)), -1, grades)
        scaled = "" if self.scaling is None else checkpoint.fingerprint_of(*self.scaling.to_arrays().values())
        result = train(
            network, self.inputs, pairs, answers, validation=self.validation, grades=marks, config=config, seed=self.seed,
            folder=folder, fingerprint=scaled, progress=progress,
        )  # fmt: skip
        loss = result.history[result.best_epoch].validation_loss
        metrics = {
            "epochs": len(result.history), "best_epoch": result.best_epoch,
            "validation_loss": None if np.isnan(loss) else float(loss),
            "validation_pairs": 0 if result.held is None else len(result.held[0]), "unused_pairs": result.unused,
        }  # fmt: skip
        ranker = NetworkRanker(config, network, self.seed, metrics)
        if config.posterior == "laplace":
            ranker = ranker.with_covariance(self.inputs, pairs, answers)
        held = (np.empty((0, 2), dtype=np.int64), np.empty(0)) if result.held is None else result.held
        return ranker.tempered(self.inputs, *held)


def _weights_for(network: Network, scaling: Scaling | None) -> dict[str, Any]:
    """Weights that compute the same function of feature rows that are scaled in another way.

    The pool may have changed since, and 0.1 did not scale at all: W(x − c)/s + b = W′(x − c′)/s′ + b′.
    """
    weights = {name: value.detach().cpu().numpy() for name, value in network.state_dict().items()}
    if scaling is None or scaling.same_as(network.scaling):
        return weights
    width = len(scaling.center_D)
    old = network.scaling or Scaling(np.zeros(width), np.ones(width))
    layer = "head.hidden" if len(network.head) else "last"
    first, bias = weights[f"{layer}.weight"], weights[f"{layer}.bias"]
    if first.shape[1] == width:  # if not, whoever fills the network says what does not fit
        shift = first @ ((scaling.center_D - old.center_D) / old.scale_D)
        weights[f"{layer}.weight"] = (first * (scaling.scale_D / old.scale_D)).astype(first.dtype)
        weights[f"{layer}.bias"] = (bias + shift).astype(bias.dtype)
    return weights


def _covariance_of_0_1(folder: Path) -> NDArray[Any] | None:
    """What 0.1 wrote beside a study's model: the posterior of the study's images, whose covariance is the network's."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(folder / "posterior.safetensors", framework="numpy") as file:
            return np.asarray(file.get_tensor("covariance"))
    except (OSError, SafetensorError):
        return None
