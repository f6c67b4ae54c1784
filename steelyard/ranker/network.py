"""Backbone and head make the score f(x).

A network is one chain of stages: the backbone's, perhaps a hidden layer, and a last linear layer. The stages before the
first dropout are deterministic: `forward(x, rows=…)` runs them once per distinct image and the rest once per row.
"""

from __future__ import annotations

from collections import OrderedDict

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from steelyard.config import RankerConfig
from steelyard.errors import RankerError
from steelyard.ranker.backbones import Pixels, build, pixels_of
from steelyard.ranker.dropout import bayesian, masked_layers

__all__ = ["Network", "build_network"]


class Network(nn.Module):
    """Images or feature rows → scores.

    Attributes:
        backbone: stages from normalised pixels to features; empty when rows are given.
        head: a hidden layer, or empty.
        last: the last linear layer.
        raw_tau: softplus⁻¹ of Rao–Kupper's τ where ties are an outcome, else None.
        pixels: how pixels are normalised; None for feature rows.
        outputs: 1 for a score, the number of grades for the compared classification.
    """

    def __init__(
        self,
        backbone: nn.Sequential,
        width: int,
        *,
        hidden: int = 0,
        outputs: int = 1,
        pixels: Pixels | None = None,
        learn_ties: bool = False,
    ) -> None:
        super().__init__()
        self.backbone = backbone
        self.head = nn.Sequential()
        if hidden:
            self.head = nn.Sequential(OrderedDict(hidden=nn.Linear(width, hidden), relu=nn.ReLU()))
        self.last = nn.Linear(hidden or width, outputs)
        self.pixels, self.outputs = pixels, outputs
        self.raw_tau = nn.Parameter(torch.tensor(0.0)) if learn_ties else None
        self.frozen = False

    def chain(self) -> list[nn.Module]:
        """All stages in order."""
        return [*self.backbone, *self.head, self.last]

    def deterministic_stages(self) -> int:
        """How many stages come before the first dropout."""
        chain = self.chain()
        return next((k for k, stage in enumerate(chain) if masked_layers(stage)), len(chain))

    def cacheable_stages(self) -> int:
        """How many stages come before the first dropout and never change: their output is computed once for all."""
        return min(self.deterministic_stages(), len(self.backbone)) if self.frozen else 0

    def freeze_backbone(self) -> Network:
        """Leave the backbone as it is: no gradients, batch norm in evaluation mode also while training."""
        self.backbone.requires_grad_(False)
        self.frozen = True
        return self.train(self.training)

    def train(self, mode: bool = True) -> Network:
        """Training mode, except for a frozen backbone."""
        super().train(mode)
        if self.frozen:
            self.backbone.eval()
        return self

    def forward(self, x: Tensor, rows: Tensor | None = None, *, start: int = 0) -> Tensor:
        """Scores.

        Args:
            x: normalised pixels (B, 3, H, W) or feature rows (B, D), or with `start` the output of that many stages.
            rows: shape (R,), which of the B inputs each row of the result is for; None is each once, in order.
                Deterministic stages see B inputs, the others R.
            start: stages that x has been through.

        Returns:
            Scores (R,), or logits (R, outputs) for a classifier.
        """
        chain = self.chain()
        split = max(self.deterministic_stages(), start)
        for stage in chain[start:split]:
            x = stage(x)
        if rows is not None:
            x = x[rows]
        for stage in chain[split:]:
            x = stage(x)
        return x.squeeze(-1) if self.outputs == 1 else x

    def through(self, x: Tensor, stages: int) -> Tensor:
        """What comes out of the first stages."""
        for stage in self.chain()[:stages]:
            x = stage(x)
        return x

    def last_features(self, x: Tensor) -> Tensor:
        """Inputs of the last linear layer, shape (B, D): what `closed_form` and `laplace` posteriors are made of."""
        return self.through(x, len(self.chain()) - 1)

    def prepare(self, batch: NDArray[np.generic] | Tensor) -> Tensor:
        """Raw images (B, H, W, 3) uint8, or rows (B, D), as this network wants them, on its device.

        Raises:
            RankerError: the shape or type does not fit the network.
        """
        # torch has no read-only tensors: a memory map is copied, which is when it is read; what is writable is not.
        tensor = (
            batch
            if isinstance(batch, Tensor)
            else torch.from_numpy(np.require(batch, requirements=["C", "W"]))
        )
        tensor = tensor.to(self.last.weight.device)
        if self.pixels is None:
            if tensor.dim() != 2:
                raise RankerError(
                    f"this network takes feature rows of shape (B, D), not {tuple(tensor.shape)}"
                )
            return tensor.to(torch.float32)
        if tensor.dim() != 4 or tensor.shape[-1] != 3 or tensor.dtype != torch.uint8:
            raise RankerError(
                f"this network takes images of shape (B, H, W, 3) as uint8, not {tuple(tensor.shape)} as {tensor.dtype}"
            )
        return self.pixels.normalise(tensor)

    @property
    def tau(self) -> Tensor | None:
        """Rao–Kupper's τ ≥ 0, None where ties are 0.5 targets."""
        return None if self.raw_tau is None else nn.functional.softplus(self.raw_tau)


def build_network(config: RankerConfig, *, seed: int, width: int = 0, outputs: int = 1) -> Network:
    """The network that a configuration describes, with dropout before every weight layer.

    Args:
        config: `backbone`, `hidden`, `dropout`, `units`, `masks`, `ties`, `weights`, `image_size` are used.
        seed: of the weights that are not pretrained.
        width: length of feature rows; 0 for images that go through `config.backbone`.
        outputs: 1 for a score, the number of grades for the compared classification.

    Raises:
        RankerError: no such backbone, missing weights, or neither images nor rows.
    """
    if width == 0 and config.backbone == "none":
        raise RankerError("backbone 'none' takes feature rows; give their width")
    with torch.random.fork_rng(
        devices=[]
    ):  # initial weights come from the seed, and the caller's stream goes on
        torch.manual_seed(seed)
        if width:
            backbone, pixels, hidden = nn.Sequential(), None, config.hidden
        else:
            backbone, width = build(config.backbone, weights=config.weights, image_size=config.image_size)
            # An end-to-end network has the paper's head: one linear layer on the backbone's features.
            pixels, hidden = pixels_of(config.backbone), 0
        network = Network(
            backbone,
            width,
            hidden=hidden,
            outputs=outputs,
            pixels=pixels,
            learn_ties=config.ties == "rao_kupper",
        )
    # The layout of the weights decides how convolutions on CPU are computed; pixels come channels-last as well.
    network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    if config.dropout > 0:
        bayesian(network, config.dropout, units=config.units, masks=config.masks)
    return network
