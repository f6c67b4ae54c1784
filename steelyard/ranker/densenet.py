"""DenseNet-169 (Huang et al., 2017), the paper's backbone: every layer of a block sees the maps of all layers before it.

Stages and weights bear the names that saved models and torchvision's files know them by. MONAI has the same network, but
takes 16 MB and seconds to import for these few lines; a test holds ours to it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

import torch
from torch import Tensor, nn

__all__ = ["densenet169_stages", "densenet_stages"]

_FIRST = 64  # maps of the first convolution
_BLOCKS = (6, 12, 32, 32)  # layers of each block
_GROWTH = 32  # maps that each layer adds
_BOTTLENECK = 4 * _GROWTH


class _Layer(nn.Module):
    """A bottleneck of 1 × 1 and 3 × 3; its new maps are put beside those it was given."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            OrderedDict(
                norm1=nn.BatchNorm2d(width),
                relu1=nn.ReLU(inplace=True),
                conv1=nn.Conv2d(width, _BOTTLENECK, 1, bias=False),
                norm2=nn.BatchNorm2d(_BOTTLENECK),
                relu2=nn.ReLU(inplace=True),
                conv2=nn.Conv2d(_BOTTLENECK, _GROWTH, 3, padding=1, bias=False),
            )
        )

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([x, self.layers(x)], 1)


def _transition(width: int) -> nn.Sequential:
    """Between blocks: half the maps, half the side."""
    return nn.Sequential(
        OrderedDict(
            norm=nn.BatchNorm2d(width),
            relu=nn.ReLU(inplace=True),
            conv=nn.Conv2d(width, width // 2, 1, bias=False),
            pool=nn.AvgPool2d(2, 2),
        )
    )


def densenet169_stages() -> tuple[list[tuple[str, nn.Module]], int]:
    """The named stages from normalised pixels (B, 3, H, W) to maps (B, width, H/32, W/32), and the width.

    Random weights (He et al., 2015) come from torch's current generator.
    """
    return densenet_stages(_BLOCKS)


def densenet_stages(blocks: Sequence[int]) -> tuple[list[tuple[str, nn.Module]], int]:
    """The same with other numbers of layers in its blocks."""
    stages: list[tuple[str, nn.Module]] = [
        ("conv0", nn.Conv2d(3, _FIRST, 7, stride=2, padding=3, bias=False)),
        ("norm0", nn.BatchNorm2d(_FIRST)),
        # A stage may be where a cached prefix ends: it must not write into what it was given.
        ("relu0", nn.ReLU()),
        ("pool0", nn.MaxPool2d(3, stride=2, padding=1)),
    ]
    width = _FIRST
    for number, layers in enumerate(blocks, start=1):
        block: OrderedDict[str, nn.Module] = OrderedDict(
            (f"denselayer{k + 1}", _Layer(width + k * _GROWTH)) for k in range(layers)
        )
        stages.append((f"denseblock{number}", nn.Sequential(block)))
        width += layers * _GROWTH
        if number < len(blocks):
            stages.append((f"transition{number}", _transition(width)))
            width //= 2
    stages += [("norm5", nn.BatchNorm2d(width)), ("relu5", nn.ReLU())]
    # Version 0.1 drew a last layer here that it did not use; without it the same seed would give other weights.
    nn.Linear(width, 1)
    for _, stage in stages:
        for module in stage.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight)
    return stages, width
