"""The posterior of the scores: one joint Gaussian behind `draws`, `closed_form` and `laplace`. numpy only.

    f = offset_N + features_N_D @ w,    w ~ N(weights_D, covariance_D_D)

and, where images have effects of their own, the effects' uncertainty with it (`image_effects.py`; the offset holds their means).

- `laplace`: last-layer features and the Gaussian at the mode, Σ⁻¹ = λI + Σ_pairs h z zᵀ, z = φ_i − φ_j;
- `closed_form`: dropout before the last linear layer only, w ∘ Bernoulli(1−p)/(1−p): covariance p/(1−p)·diag(w²), exact;
- `draws`: centred draws / √T as features with the identity as covariance: P4 and P5 exactly, and the covariance between images.

A posterior is never changed: `observe` and `imagine` return a new one in O(D²), sharing the rows. Nothing of size N is
computed until it is asked for; then in blocks, so that the rows may be a memory map of a million images.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from steelyard.arrays import Floats
from steelyard.errors import RankerError
from steelyard.pairs import check_pairs
from steelyard.ranker.blocks import blocks
from steelyard.ranker.image_effects import ImageEffects
from steelyard.ranker.judges import Panel, Said
from steelyard.ranker.last_layer import mode_covariance
from steelyard.ranker.likelihood import check_answers, curvature, expected_curvature, slope, step_to_mode
from steelyard.ranker.quadratic import finite, quadratic
from steelyard.ranker.temper import Temper

__all__ = ["Kind", "Posterior"]

Kind = Literal["draws", "closed_form", "laplace"]

_BLOCK = 1 << 20  # numbers a block: 8 MB in float64, small enough to stay near the processor


class Posterior:
    """Scores of N images, jointly Gaussian.

    Attributes:
        offset_N: part of the score that the features do not tell, shape (N,).
        features_N_D: rows, shape (N, D); float32, float64 or a memory map of either.
        weights_D: mean of the weights, shape (D,).
        covariance_D_D: covariance of the weights, shape (D, D).
        kind: where it comes from.
        tau: half-width of a tie (Rao–Kupper); 0 is RankNet.
        share: what one answer counts, below 1 where answers that share images are not independent (`temper.py`).
        temper: how probabilities are made from the scores; None takes the scores as they are.
        panel: the judges that it was learnt from; None takes everybody for an ordinary one.
        effects: what images have of their own; None where features tell everything.

    Raises:
        RankerError: shapes do not fit or a number is not finite.
    """

    def __init__(
        self,
        offset_N: ArrayLike,
        features_N_D: NDArray[np.floating],
        weights_D: ArrayLike,
        covariance_D_D: ArrayLike,
        kind: Kind,
        tau: float = 0.0,
        share: float = 1.0,
        temper: Temper | None = None,
        panel: Panel | None = None,
        effects: ImageEffects | None = None,
    ) -> None:
        rows = features_N_D if isinstance(features_N_D, np.ndarray) else np.asarray(features_N_D)
        if rows.ndim != 2:
            raise RankerError(f"features of a posterior have the shape (N, D), not {rows.shape}")
        if rows.dtype not in (np.float32, np.float64):
            rows = rows.astype(np.float64)
        n, d = rows.shape
        weights = np.asarray(weights_D, dtype=np.float64).reshape(-1)
        covariance = np.asarray(covariance_D_D, dtype=np.float64)
        if weights.shape != (d,) or covariance.shape != (d, d):
            raise RankerError(
                f"with features of {d} columns weights have the shape ({d},) and their covariance ({d}, {d}), "
                f"not {weights.shape} and {covariance.shape}"
            )
        offset = np.asarray(offset_N, dtype=np.float64)
        if offset.shape not in ((), (n,)):
            raise RankerError(
                f"the offset is one number or one for each of the {n} images, not {offset.shape}"
            )
        if not (np.isfinite(weights).all() and np.isfinite(covariance).all() and np.isfinite(offset).all()):
            raise RankerError(
                "weights, covariance or offset of a posterior are not finite; the fit has diverged"
            )
        if not (np.isfinite(tau) and tau >= 0):
            raise RankerError(f"tau, the half-width of a tie, is 0 or more, not {tau}")
        self.offset_N: Floats = np.broadcast_to(offset, (n,))
        self.features_N_D: NDArray[np.floating] = rows
        self.weights_D: Floats = weights
        self.covariance_D_D: Floats = covariance
        self.kind: Kind = kind
        self.tau, self.share, self.temper, self.panel = float(tau), float(share), temper, panel
        self.effects = effects
        self._mean: Floats | None = None
        # The features' variance is a known one less the squares of what each later answer explains: (N,) and (k, D).
        self._variance: Floats | None = None
        self._explained: tuple[Floats, ...] = ()

    @classmethod
    def from_draws(cls, scores_T_N: ArrayLike) -> Posterior:
        """From T draws of the scores: mean (P4), variance with 1/T (P5), and the covariance between images.

        Raises:
            RankerError: fewer than one draw, or a score that is not finite.
        """
        scores = np.asarray(scores_T_N)
        if scores.ndim != 2 or scores.shape[0] < 1:
            raise RankerError(f"draws of scores have the shape (T, N) with T ≥ 1, not {scores.shape}")
        dtype = np.float32 if scores.dtype == np.float32 else np.float64
        mean = scores.mean(axis=0, dtype=np.float64)
        if not np.isfinite(mean).all():
            where = int(np.flatnonzero(~np.isfinite(mean))[0])
            raise RankerError(f"image {where} has a draw that is not finite; the network has diverged")
        t = scores.shape[0]
        rows = np.ascontiguousarray(((scores - mean) / np.sqrt(t)).T.astype(dtype))
        return cls(mean, rows, np.zeros(t), np.eye(t), "draws")

    @classmethod
    def closed_form(
        cls, inputs_N_D: NDArray[np.floating], weights_D: ArrayLike, p: float, bias: ArrayLike = 0.0
    ) -> Posterior:
        """Dropout p before the last linear layer only, without drawing: K_ij = p/(1−p) Σ_k w_k² h_ik h_jk.

        Args:
            inputs_N_D: what goes into the last layer, shape (N, D).
            weights_D: weights of the last layer, shape (D,).
            p: probability that an input is dropped.
            bias: its bias.

        Raises:
            RankerError: p is no probability below 1.
        """
        if not 0 <= p < 1:
            raise RankerError(f"dropout p is at least 0 and below 1, not {p}")
        weights = np.asarray(weights_D, dtype=np.float64).reshape(-1)
        return cls(bias, inputs_N_D, weights, np.diag(p / (1 - p) * weights**2), "closed_form")

    @classmethod
    def laplace(
        cls,
        inputs_N_D: NDArray[np.floating],
        weights_D: ArrayLike,
        pairs: ArrayLike,
        answers: ArrayLike,
        *,
        precision: ArrayLike,
        tau: float = 0.0,
        bias: ArrayLike = 0.0,
        sample_weight: ArrayLike | None = None,
    ) -> Posterior:
        """Gaussian at the mode `weights_D` of a last layer: Σ⁻¹ = diag(λ) + Σ_pairs h z zᵀ.

        Args:
            inputs_N_D: what goes into the last layer, shape (N, D).
            weights_D: the mode, shape (D,).
            pairs: answered pairs as rows of `inputs_N_D`, shape (n, 2).
            answers: P1, shape (n,).
            precision: λ of the Gaussian prior, one number or one for each weight.
            tau: half-width of a tie, 0 for RankNet.
            bias: bias of the last layer.
            sample_weight: how often each answer counts, shape (n,).

        Raises:
            RankerError: λ is not above 0, or shapes do not fit.
        """
        covariance = mode_covariance(
            inputs_N_D, weights_D, pairs, answers, precision=precision, tau=tau, sample_weight=sample_weight
        )
        return cls(bias, inputs_N_D, weights_D, covariance, "laplace", tau)

    def __len__(self) -> int:
        return int(self.features_N_D.shape[0])

    @property
    def mean(self) -> Floats:
        """Expected scores, shape (N,) (P4)."""
        if self._mean is None:
            mean = np.empty(len(self))
            for rows in self._blocks():
                # In float64: a sum in float32 depends on where in the block a row stands, and so an image's score would.
                mean[rows] = self.features_N_D[rows].astype(np.float64, copy=False) @ self.weights_D
            mean += self.offset_N
            self._mean = finite(mean, "score")
        return self._mean

    @property
    def variance(self) -> Floats:
        """Variances of the scores, shape (N,) (P5)."""
        if self._variance is None or len(self._explained) > len(self.weights_D):
            variance = np.empty(len(self))
            for rows in self._blocks():
                variance[rows] = quadratic(self.features_N_D[rows], self.covariance_D_D)
            self._variance, self._explained = finite(variance, "variance"), ()
        elif self._explained:
            variance = self._variance.copy()
            gains = np.stack(self._explained, axis=1)  # (D, k)
            for rows in self._blocks():
                variance[rows] -= np.square(
                    self.features_N_D[rows] @ gains.astype(self.features_N_D.dtype)
                ).sum(1)
            self._variance, self._explained = np.maximum(variance, 0.0), ()
        if self.effects is None:
            return self._variance
        return np.maximum(self._variance + self.effects.added_variance(self.features_N_D), 0.0)

    def difference(self, pairs: ArrayLike) -> tuple[Floats, Floats]:
        """Mean and variance of f(x_i) − f(x_j).

        Args:
            pairs: rows (i, j), shape (n, 2).

        Returns:
            Two arrays of shape (n,).
        """
        index = self._pairs(pairs)
        mean, variance = np.empty(len(index)), np.empty(len(index))
        step = max(1, _BLOCK // max(1, len(self.weights_D)))
        for start in range(0, len(index), step):
            part = index[start : start + step]
            z = self._differences(part)
            offset = self.offset_N[part[:, 0]] - self.offset_N[part[:, 1]]
            mean[start : start + step] = z @ self.weights_D + offset
            variance[start : start + step] = quadratic(z, self.covariance_D_D)
            if self.effects is not None:
                variance[start : start + step] += self.effects.added_to_differences(z, part)
        return finite(mean, "difference"), finite(np.maximum(variance, 0.0), "variance of the difference")

    def covariance_of(self, rows: ArrayLike) -> Floats:
        """Covariance of the scores of some images, shape (k, k)."""
        index = np.asarray(rows, dtype=np.int64)
        phi = np.asarray(self.features_N_D[index], dtype=np.float64)
        found = np.asarray(phi @ self.covariance_D_D @ phi.T, dtype=np.float64)
        return found if self.effects is None else found + self.effects.covariance(phi, index)

    def probability(self, pairs: ArrayLike) -> Floats:
        """P(x_i is answered to be more severe than x_j), uncertainty of the scores included, shape (n,)."""
        return np.asarray(self.outcomes(pairs)[:, 0], dtype=np.float64)

    def outcomes(self, pairs: ArrayLike) -> Floats:
        """P(first), P(tie), P(second) for pairs, uncertainty of the scores included, shape (n, 3)."""
        return (self.temper or Temper(1.0, self.tau)).outcomes(*self.difference(pairs))

    def sample(self, n: int, rng: np.random.Generator) -> Floats:
        """Joint draws of all scores, shape (n, N); a draw is one set of weights for the whole pool."""
        covariance = self.covariance_D_D if self.effects is None else self.effects.joint(self.covariance_D_D)
        values, vectors = np.linalg.eigh(covariance)  # also where some direction is certain
        noise = rng.standard_normal((n, len(covariance))) * np.sqrt(np.maximum(values, 0.0)) @ vectors.T
        weights_n_D = self.weights_D + noise[:, : len(self.weights_D)]
        scores = np.empty((n, len(self)))
        for rows in self._blocks():
            scores[:, rows] = weights_n_D @ np.asarray(self.features_N_D[rows], dtype=np.float64).T
        if self.effects is not None:
            scores += self.effects.drawn(noise[:, len(self.weights_D) :], rng)
        return np.asarray(scores + self.offset_N, dtype=np.float64)

    def rows(self, index: ArrayLike) -> Posterior:
        """The posterior of some of the images, in the order given."""
        chosen = np.asarray(index)
        if chosen.dtype != bool:
            chosen = chosen.astype(np.int64).reshape(-1)
        part = self._moved(
            self.weights_D, self.covariance_D_D, features=self.features_N_D[chosen], chosen=chosen
        )
        part._mean = None if self._mean is None else self._mean[chosen]
        part._variance = None if self._variance is None else self._variance[chosen]
        part._explained = self._explained
        return part

    def tempered(self, temper: Temper | None) -> Posterior:
        """The same scores, their probabilities made in another way."""
        after = self._moved(self.weights_D, self.covariance_D_D)
        after.temper = temper
        return after

    def with_effects(self, effects: ImageEffects | None) -> Posterior:
        """The same images with other effects of their own; None leaves what the features say."""
        after = self._moved(self.weights_D, self.covariance_D_D)
        before = 0.0 if self.effects is None else self.effects.offset_N
        after.offset_N = self.offset_N - before + (0.0 if effects is None else effects.offset_N)
        after.effects = effects
        return after

    def observe(self, pair: ArrayLike, answer: float, said: Said | None = None) -> Posterior:
        """What is known after one more real answer, in O(D²).

        The present Gaussian is taken as the prior of this one answer. Its mode lies on the line w + αΣz, where α = ℓ′(Δ
        + α zᵀΣz) has one root, found by Newton; the covariance loses h Σz zᵀΣ / (1 + h zᵀΣz) with h = −ℓ″ at that
        mode (Sherman–Morrison, exact). The curvatures of the *earlier* answers, τ, λ and what an answer counts stay as they
        were. The first two move deviations by less than 3% in 60 answers; λ is what a refit with twice the answers may
        well change, up or down (see the tests and docs/ranker.md).

        Args:
            pair: rows (i, j).
            answer: P1: 1, 0.5 or 0.
            said: who gave it and how the pair was shown, where that is known and the posterior knows its judges.
        """
        given = float(check_answers([answer], ties=self.tau > 0)[0])
        gain, spread, mean = self._line(pair)
        if self.panel is None or said is None:
            alpha = self.share * step_to_mode(mean, self.share * spread, given, self.tau)
        else:
            alpha = self.panel.step_to_mode(mean, spread, given, self.tau, self.share, said)
        after_it = np.array([mean + alpha * spread])
        bend = float(self.slopes(after_it, np.array([given]), said)[1][0])
        return self._shrunk(pair, gain, spread, bend, alpha)

    def imagine(self, pair: ArrayLike) -> Posterior:
        """What would be known after an answer that is still to come: the covariance shrinks, the mean stays, O(D²).

        The curvature is the expected one at the present mean difference.
        """
        gain, spread, mean = self._line(pair)
        after = self._shrunk(pair, gain, spread, self.share * float(self.information(mean)), 0.0)
        after._mean = self._mean
        return after

    def slopes(self, difference: Floats, answers: Floats, said: Said | None = None) -> tuple[Floats, Floats]:
        """ℓ′ and −ℓ″ of answers at differences, as their judges give them, each times what an answer counts."""
        if self.panel is None or said is None:
            first, second = (f(difference, answers, self.tau) for f in (slope, curvature))
        else:
            judging = self.panel.judging(said)
            first, second = (f(difference, answers, self.tau) for f in (judging.pulls, judging.bends))
        return self.share * first, self.share * second

    def information(self, difference: ArrayLike) -> Floats:
        """What the next answer about differences of scores is expected to tell, as its judges answer; elementwise."""
        if self.panel is None:
            return expected_curvature(difference, self.tau)
        return self.panel.information(difference, self.tau)

    def _line(self, pair: ArrayLike) -> tuple[Floats, float, float]:
        """Covariance of the weights with the difference of a pair, its variance and its mean."""
        index = self._pairs(np.asarray(pair).reshape(1, 2))
        z = self._differences(index)[0]
        gain = self.covariance_D_D @ z
        spread = float(z @ gain)
        if self.effects is not None:
            cross, own = self.effects.difference(index)
            gain, spread = gain + cross[0], spread + 2 * float(z @ cross[0]) + float(own[0])
        i, j = index[0]
        mean = float(z @ self.weights_D + self.offset_N[i] - self.offset_N[j])
        return gain, max(spread, 0.0), mean

    def _shrunk(self, pair: ArrayLike, gain: Floats, spread: float, bend: float, step: float) -> Posterior:
        shrink = bend / (1.0 + bend * spread)
        explained = gain * np.sqrt(shrink)
        after = self._moved(
            self.weights_D + step * gain, self.covariance_D_D - np.outer(explained, explained)
        )
        if self.effects is not None:
            index = self._pairs(np.asarray(pair).reshape(1, 2))
            z = self._differences(index)[0]
            after.effects, grown = self.effects.after(index[0], z, gain, step, shrink)
            after.offset_N = self.offset_N + grown
        after._variance, after._explained = self._variance, (*self._explained, explained)
        if len(after._explained) > len(gain):
            after._variance, after._explained = None, ()
        return after

    def _moved(
        self,
        weights: Floats,
        covariance: Floats,
        features: NDArray[np.floating] | None = None,
        chosen: NDArray[np.int64] | NDArray[np.bool_] | None = None,
    ) -> Posterior:
        """A copy with other weights, past the checks of N and D that the original has gone through."""
        after = object.__new__(type(self))
        after.offset_N = self.offset_N if chosen is None else self.offset_N[chosen]
        after.features_N_D = self.features_N_D if features is None else features
        after.weights_D, after.covariance_D_D = weights, covariance
        after.kind, after.tau, after.share, after.temper = self.kind, self.tau, self.share, self.temper
        after.panel = self.panel
        after.effects = self.effects if chosen is None or self.effects is None else self.effects.rows(chosen)
        after._mean, after._variance, after._explained = None, None, ()
        return after

    def _differences(self, index: NDArray[np.int64]) -> Floats:
        left = np.asarray(self.features_N_D[index[:, 0]], dtype=np.float64)
        return np.asarray(left - self.features_N_D[index[:, 1]], dtype=np.float64)

    def _blocks(self) -> Iterator[slice]:
        return blocks(self.features_N_D, _BLOCK)

    def _pairs(self, pairs: ArrayLike) -> NDArray[np.int64]:
        return check_pairs(pairs, len(self), error=RankerError, same=True)

    def __repr__(self) -> str:
        return f"Posterior({self.kind}, {len(self)} images, {len(self.weights_D)} weights)"
