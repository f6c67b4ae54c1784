"""Batch norm over all processes: the statistics of a step are those of the whole step, wherever its images are computed.

torch's own SyncBatchNorm takes GPUs only, and counts an image twice that is computed in two processes, because pairs of both have
it. Here such an image counts a half in each.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from steelyard.arrays import Floats
from steelyard.errors import RankerError
from steelyard.ranker import processes

if TYPE_CHECKING:
    from steelyard.ranker.network import Network

__all__ = ["shared_norms"]

_KNOWN = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)


@contextmanager
def shared_norms(
    network: Network, *, start: int, images: tuple[Floats | float, int], rows: tuple[Floats | float, int]
) -> Iterator[None]:
    """Inside, batch norms that learn statistics learn them from all processes; with one process nothing changes.

    Args:
        network: about to be called with the share of a step.
        start: stages that its inputs have been through.
        images: what each image of the share counts, shape (B,) or one number for all, and how many images the whole step
            has; stages before the first dropout see these.
        rows: the same for the rows that the later stages see.

    Raises:
        RankerError: a norm that does more than normalise, which cannot be replaced.
    """
    changed: list[nn.Module] = []
    if processes.size() > 1:
        split = max(network.deterministic_stages(), start)
        for number, stage in enumerate(network.chain()):
            for layer in stage.modules():
                if not isinstance(layer, _BatchNorm) or not layer.training:
                    continue
                if type(layer) not in _KNOWN:
                    raise RankerError(
                        f"{type(layer).__name__} takes statistics of the images in one process and cannot be shared between "
                        f"{processes.size()}; train this network in one process, or choose another backbone"
                    )
                counts = images if number < split else rows
                layer.__dict__["forward"] = partial(_normalised, layer, *counts)  # stands before the method
                changed.append(layer)
    try:
        yield
    finally:
        for layer in changed:
            del layer.__dict__["forward"]


class _Summed(torch.autograd.Function):
    """The sum over all processes; what one of them has put in counts in the losses of all."""

    @staticmethod
    def forward(ctx: Any, values: Tensor) -> Tensor:
        return processes.summed(values)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        return processes.summed(gradients[0])


def _normalised(layer: _BatchNorm, counts: Floats | float, whole: int, x: Tensor) -> Tensor:
    """What batch norm of the whole step makes of x, its share."""
    others = [0, *range(2, x.dim())]
    channel = (1, -1, *[1] * (x.dim() - 2))
    count = whole * (x[0, 0].numel() if x.dim() > 2 else 1)
    values = x.to(torch.promote_types(x.dtype, torch.float32))
    weights = torch.as_tensor(counts).to(values).view(-1, *[1] * (x.dim() - 1))
    mean = _summed((weights * values).sum(others)) / count
    centred = values - mean.view(channel)
    # Of the differences to the mean, not of the squares: those would cancel.
    variance = _summed((weights * centred.square()).sum(others)) / count
    _remember(layer, mean.detach(), variance.detach() * (count / max(count - 1, 1)))
    result = centred * torch.rsqrt(variance + layer.eps).view(channel)
    if layer.affine:
        result = result * layer.weight.view(channel) + layer.bias.view(channel)
    return result.to(x.dtype)


def _summed(values: Tensor) -> Tensor:
    return cast(Tensor, _Summed.apply(values))  # type: ignore[no-untyped-call]


def _remember(layer: _BatchNorm, mean: Tensor, variance: Tensor) -> None:
    if layer.running_mean is None or layer.running_var is None or layer.num_batches_tracked is None:
        return
    with torch.no_grad():
        layer.num_batches_tracked.add_(1)
        share = 1 / layer.num_batches_tracked.item() if layer.momentum is None else layer.momentum
        layer.running_mean.lerp_(mean.to(layer.running_mean), share)
        layer.running_var.lerp_(variance.to(layer.running_var), share)
