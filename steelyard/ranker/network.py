"""Backbone and head make the score f(x).

A network is one chain of stages: the backbone's, perhaps a hidden layer, and a last linear layer. The stages before the
first dropout are deterministic: `forward(x, rows=…)` runs them once per distinct image and the rest once per row.

With `trained_stages` the network is the tail of a pretrained backbone and is given what comes out of the frozen trunk
(`trunk.py`). Batch norm keeps the statistics it was pretrained with, also while training, and is merged into the convolution
before it where that is possible: a few dozen pairs per step would only disturb them.
"""

from __future__ import annotations

from collections import OrderedDict

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from steelyard.config import NetworkConfig
from steelyard.errors import RankerError
from steelyard.ranker.backbones import build
from steelyard.ranker.dropout import bayesian, masked_layers
from steelyard.ranker.pixels import Pixels, pixels_of
from steelyard.ranker.scaling import Scaling
from steelyard.ranker.trunk import cut, streamline

__all__ = ["Network", "build_network"]


class Network(nn.Module):
    """Images, activations or feature rows → scores.

    Attributes:
        backbone: stages from normalised pixels or activations to features; empty when rows are given.
        head: a hidden layer, or empty.
        last: the last linear layer.
        raw_tau: softplus⁻¹ of Rao–Kupper's τ where ties are an outcome, else None.
        pixels: how pixels are normalised; None for activations and feature rows.
        channels: of the activations that a trained tail is given, 0 for pixels and feature rows.
        outputs: 1 for a score, the number of grades for the compared classification.
        scaling: how feature rows are standardised; None leaves them as they are.
    """

    def __init__(
        self,
        backbone: nn.Sequential,
        width: int,
        *,
        hidden: int = 0,
        outputs: int = 1,
        pixels: Pixels | None = None,
        channels: int = 0,
        learn_ties: bool = False,
    ) -> None:
        super().__init__()
        self.backbone = backbone
        self.head = nn.Sequential()
        if hidden:
            self.head = nn.Sequential(OrderedDict(hidden=nn.Linear(width, hidden), relu=nn.ReLU()))
        self.last = nn.Linear(hidden or width, outputs)
        self.pixels, self.channels, self.outputs = pixels, channels, outputs
        self.raw_tau = nn.Parameter(torch.tensor(0.0)) if learn_ties else None
        self.frozen = False
        self.scaling: Scaling | None = None

    def chain(self) -> list[nn.Module]:
        """All stages in order."""
        return [*self.backbone, *self.head, self.last]

    @property
    def width(self) -> int:
        """Length of the feature rows it takes, 0 for pixels and activations."""
        first = self.chain()[0]
        return first.in_features if isinstance(first, nn.Linear) else 0

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
        """Training mode, except for a frozen backbone and for the norms of a trained tail."""
        super().train(mode)
        if self.frozen or self.channels:
            self.backbone.eval()
        return self

    def forward(self, x: Tensor, rows: Tensor | None = None, *, start: int = 0) -> Tensor:
        """Scores.

        Args:
            x: normalised pixels or activations (B, C, H, W) or feature rows (B, D), or with `start` the output of that many stages.
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
        """Raw images (B, H, W, 3) uint8, activations (B, H, W, C) or rows (B, D), as this network wants them, on its device.

        Raises:
            RankerError: the shape or type does not fit the network.
        """
        if self.pixels is None and not self.channels:
            batch = self._standardised(batch)
        # torch has no read-only tensors: a memory map is copied, which is when it is read; what is writable is not.
        tensor = (
            batch
            if isinstance(batch, Tensor)
            else torch.from_numpy(np.require(batch, requirements=["C", "W"]))
        )
        tensor = tensor.to(self.last.weight.device)
        if self.channels:
            if tensor.dim() != 4 or tensor.shape[-1] != self.channels or not tensor.is_floating_point():
                raise RankerError(
                    f"this network takes activations of shape (B, H, W, {self.channels}) from its frozen stages, not "
                    f"{tuple(tensor.shape)} as {tensor.dtype}"
                )
            return tensor.to(torch.float32).permute(0, 3, 1, 2)
        if self.pixels is None:
            return tensor.to(torch.float32)
        if tensor.dim() != 4 or tensor.shape[-1] != 3 or tensor.dtype != torch.uint8:
            raise RankerError(
                f"this network takes images of shape (B, H, W, 3) as uint8, not {tuple(tensor.shape)} as {tensor.dtype}"
            )
        return self.pixels.normalise(tensor)

    def _standardised(self, rows: NDArray[np.generic] | Tensor) -> NDArray[np.generic] | Tensor:
        if rows.ndim != 2 or rows.shape[1] != self.width:
            raise RankerError(
                f"this network takes feature rows of shape (B, {self.width}), not {tuple(rows.shape)}"
            )
        if self.scaling is None:
            return rows
        return self.scaling.apply(rows.cpu().numpy() if isinstance(rows, Tensor) else rows)

    @property
    def tau(self) -> Tensor | None:
        """Rao–Kupper's τ ≥ 0, None where ties are 0.5 targets."""
        return None if self.raw_tau is None else nn.functional.softplus(self.raw_tau)


def build_network(config: NetworkConfig, *, seed: int, width: int = 0, outputs: int = 1) -> Network:
    """The network that a configuration describes, with dropout before every weight layer.

    Element masks stand before all of them, the picture itself included, as the authors have them; channel masks leave
    the picture alone (unless `mask_colours`, as version 0.1 did).

    Args:
        config: `backbone`, `trained_stages`, `hidden`, `dropout`, `units`, `mask_colours`, `masks`, `ties`, `weights`,
            `image_size` are used.
        seed: of the weights that are not pretrained.
        width: length of feature rows; 0 for images that go through `config.backbone`, or through its frozen stages first.
        outputs: 1 for a score, the number of grades for the compared classification.

    Raises:
        RankerError: no such backbone, too few stages, missing weights, or neither images nor rows.
    """
    if width == 0 and config.backbone == "none":
        raise RankerError("backbone 'none' takes feature rows; give their width")
    with torch.random.fork_rng(
        devices=[]
    ):  # initial weights come from the seed, and the caller's stream goes on
        torch.manual_seed(seed)
        pixels, channels, hidden = None, 0, 0
        if width:
            backbone, hidden = nn.Sequential(), config.hidden
        else:
            # A network that learns features has the paper's head: one linear layer on the backbone's features.
            backbone, width = build(config.backbone, weights=config.weights, image_size=config.image_size)
            if config.trained_stages:
                backbone = cut(backbone, config.trained_stages, config.backbone)[1]
                streamline(backbone.eval(), config.backbone)
                backbone.requires_grad_(True)  # also the biases that came from norms
                channels = _channels(backbone)
            else:
                pixels = pixels_of(config.backbone)
        network = Network(
            backbone,
            width,
            hidden=hidden,
            outputs=outputs,
            pixels=pixels,
            channels=channels,
            learn_ties=config.ties == "rao_kupper",
        )
    # The layout of the weights decides how convolutions on CPU are computed; pixels come channels-last as well.
    network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    if config.dropout > 0:
        # A channel of a picture is a colour: a draw without red would be blind to inflammation at every position.
        spares_colours = config.units == "channel" and pixels is not None and not config.mask_colours
        bayesian(
            network,
            config.dropout,
            units=config.units,
            masks=config.masks,
            spare=[_first_layer(backbone)] if spares_colours else [],
        )
    return network


def _first_layer(backbone: nn.Module) -> nn.Module:
    """The weight layer that reads the picture itself."""
    return next(layer for layer in backbone.modules() if isinstance(layer, (nn.Linear, nn.Conv2d)))


def _channels(tail: nn.Sequential) -> int:
    """What the first convolution of a tail reads, and so what the tail is given."""
    return next(layer.in_channels for layer in tail.modules() if isinstance(layer, nn.Conv2d))
