"""A draw of the weights is one set of Bernoulli masks on the inputs of every weight layer: W·diag(z) (P8).

`bayesian(module, p)` teaches this to any module with convolutions and linear layers. Names and values of its weights
stay what they were; outside the two contexts below it computes with the mean weights, deterministically:

    with draw_for_pairs(module, seed):      training: one draw per pair, for both of its images (P9)
    with draw(module, seed, t):             prediction: draw t, one set of masks for the whole pool

Masks are scaled by 1/(1−p), so that a mask is 1 on average. A mask bit switches an input *channel* of a layer, at every
position alike: W·diag(z) of the kernel, which can be multiplied into the weights, so that a draw costs no more than a
plain pass. `units="element"` switches single positions, as the authors' layers do (preset `paper`): W·diag(z) of the layer
written out as one large matrix (docs/theory.md). Such masks are as large as the activations; they are made from their seed
when they are needed, forwards and again backwards, and never kept. `masks="independent"` gives every image masks of its own:
the authors' behaviour, kept for comparison; it is no draw of the weights.

The contexts change the module while they are open: one thread at a time, and they do not nest.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Literal, TypeVar, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.modules.conv import _ConvNd, _ConvTransposeNd

from steelyard.errors import RankerError

__all__ = ["MaskedInput", "bayesian", "draw", "draw_for_pairs", "masked_layers", "plain"]

Units = Literal["channel", "element"]
Masks = Literal["shared", "independent"]
Module = TypeVar("Module", bound=nn.Module)


class MaskedInput:
    """What stands before one weight layer: nothing, or, while a context is open, its masks (a forward pre-hook).

    Attributes:
        p: chance that an input is switched off.
        units: what a mask bit switches.
        masks: whether images share a mask or have one each.
        switch: the open context's `switch(x)`, x with its masks applied; None outside of contexts.
    """

    def __init__(self, p: float, units: Units, masks: Masks) -> None:
        self.p, self.units, self.masks = p, units, masks
        self.switch: Callable[[Tensor], Tensor] | None = None

    def __call__(self, layer: nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...] | None:
        if self.switch is None:
            return None
        return (self.switch(args[0]), *args[1:])


def bayesian(
    module: Module,
    p: float,
    *,
    units: Units = "channel",
    masks: Masks = "shared",
    spare: Collection[nn.Module] = (),
) -> Module:
    """Put masks before every Conv and Linear layer of a module.

    The out-projection inside `nn.MultiheadAttention` is left alone: torch never calls it as a layer.

    Args:
        module: any module; a part of a larger one works as well (the last layer alone, for instance).
        p: chance that an input is switched off, 0 ≤ p < 1. 0 takes the masks away.
        units: `channel`, or `element` as the authors have it.
        masks: `shared` by all images of a draw, or `independent` as the authors have it.
        spare: layers that get no masks.

    Returns:
        The same module.

    Raises:
        RankerError: p is out of range, or the module has no weight layer.
    """
    if not 0 <= p < 1:
        raise RankerError(f"dropout p is a probability of at least 0 and below 1, not {p}")
    if units not in ("channel", "element") or masks not in ("shared", "independent"):
        raise RankerError(
            f"units are channel or element, masks shared or independent; not {units!r}, {masks!r}"
        )
    without = {id(m.out_proj) for m in module.modules() if isinstance(m, nn.MultiheadAttention)}
    without |= {id(layer) for layer in spare}
    layers = [m for m in module.modules() if isinstance(m, (nn.Linear, _ConvNd)) and id(m) not in without]
    if not layers:
        raise RankerError(f"{type(module).__name__} has no Conv or Linear layer to put dropout before")
    plain(module)
    if p > 0:
        for layer in layers:
            layer.register_forward_pre_hook(MaskedInput(p, units, masks))
    return module


def plain(module: Module) -> Module:
    """Take all masks away again; the weights were never touched."""
    for layer in module.modules():
        for key, hook in list(layer._forward_pre_hooks.items()):
            if isinstance(hook, MaskedInput):
                del layer._forward_pre_hooks[key]
    return module


def masked_layers(module: nn.Module) -> list[tuple[nn.Module, MaskedInput]]:
    """The layers with masks before them, in the module's own order (which numbers their random streams)."""
    return [
        (layer, hook)
        for layer in module.modules()
        for hook in layer._forward_pre_hooks.values()
        if isinstance(hook, MaskedInput)
    ]


@contextmanager
def draw_for_pairs(
    module: nn.Module,
    seed: int | Sequence[int],
    *,
    draw_index: Tensor | None = None,
    places: Tensor | None = None,
) -> Iterator[None]:
    """Inside, each pair of a batch meets one draw of the weights, the same for both of its images (P9).

    Args:
        module: the network, as it is (in training mode for training).
        seed: fixes the masks together with the order of the layers, the batch and the device; training passes
            (seed, epoch, step).
        draw_index: shape (rows,), the draw of each row of the batch, numbered from 0. None takes a batch that holds
            all left images and then all right images, in the same order. Ignored by `independent` masks.
        places: shape (share,), for a batch that is a share of a larger one: where its rows are among those of `draw_index`,
            which is then of the larger one. Each row meets the masks that it would meet there.

    Raises:
        RankerError: inside another context, or a batch that the index does not fit.
    """
    generators: dict[torch.device, torch.Generator] = {}
    draws = None if draw_index is None else int(draw_index.max()) + 1
    state = _state(seed)

    def switched(number: int, layer: nn.Module, hook: MaskedInput, x: Tensor) -> Tensor:
        if hook.units == "element":
            return elements(number, layer, hook, x)
        return x * channel_masks(layer, hook, x)

    def channel_masks(layer: nn.Module, hook: MaskedInput, x: Tensor) -> Tensor:
        generator = generators.get(x.device)
        if generator is None:
            generator = generators[x.device] = torch.Generator(x.device).manual_seed(state)
        rows = x.shape[0]
        count, index = each(rows, x.device) if hook.masks == "independent" else which(rows, x.device)
        masks = _bernoulli(_mask_shape(layer, hook, x, count), hook.p, x, generator)
        return masks if index is None else masks[index]

    def elements(number: int, layer: nn.Module, hook: MaskedInput, x: Tensor) -> Tensor:
        rows = x.shape[0]
        count, index = each(rows, x.device) if hook.masks == "independent" else which(rows, x.device)
        shape = _mask_shape(layer, hook, x, count)
        last = x.dim() == 4 and x.is_contiguous(memory_format=torch.channels_last)
        own = _state((seed, number) if isinstance(seed, int) else (*seed, number))

        def switch(values: Tensor) -> Tensor:
            kept = _bits(shape, hook.p, values.device, own, channels_last=last)
            return (values / (1 - hook.p)).mul_(kept if index is None else kept[index])

        return cast(Tensor, _Switched.apply(x, switch))  # type: ignore[no-untyped-call]

    def each(rows: int, device: torch.device) -> tuple[int, Tensor | None]:
        """How many rows there are with masks of their own, and which of them are here; None is all."""
        if places is None or draw_index is None:
            return rows, None
        return len(draw_index), places.to(device)

    def which(rows: int, device: torch.device) -> tuple[int, Tensor]:
        """How many draws there are, and the draw of each row."""
        if draw_index is None:
            if rows % 2:
                raise RankerError(
                    f"a batch of pairs holds all left and then all right images, so not {rows} rows"
                )
            return rows // 2, torch.arange(rows // 2, device=device).repeat(2)
        index = draw_index if places is None else draw_index[places]
        if len(index) != rows:
            raise RankerError(f"a layer got {rows} rows, draw_index says {len(index)}")
        assert draws is not None
        return draws, index.to(device)

    layers = _enter(module)
    try:
        for number, (layer, hook) in enumerate(layers):
            hook.switch = partial(switched, number, layer, hook)
        yield
    finally:
        for _, hook in layers:
            hook.switch = None


@contextmanager
def draw(module: nn.Module, seed: int, t: int, *, rows: Sequence[int] | None = None) -> Iterator[None]:
    """Inside, the module computes with draw t of its weights, in evaluation mode (batch norm is untouched).

    The masks depend on (seed, t) and the layer's number only – not on the batch size, the order of the images, the
    device or the number of machines. Shared channel masks are multiplied into the weights; the parameters themselves
    are not written to, so that afterwards the module is bit for bit what it was, whatever happened inside.
    Shared element masks depend on (seed, t), the layer and the shape of one image. Independent masks depend on
    (seed, t), the layer and the image's row.

    Args:
        module: the network.
        seed: of the study, 0 or more.
        t: number of the draw, 0 or more.
        rows: for `independent` masks, the pool row of each image of the next batch; None counts from 0.

    Raises:
        RankerError: inside another context, or a negative seed or t.
    """
    if seed < 0 or t < 0:
        raise RankerError(f"seed and t of a draw are 0 or more, not {seed} and {t}")
    layers = _enter(module)
    training = [part for part in module.modules() if part.training]
    try:
        for part in training:
            part.training = False
        for number, (layer, hook) in enumerate(layers):
            if hook.units == "channel" and hook.masks == "shared" and _foldable(layer):
                layer.__dict__["weight"] = _folded(
                    layer, _drawn((_inputs(layer),), hook.p, (seed, t, number))
                )
            else:
                hook.switch = _PoolMasks(layer, hook, (seed, t, number), rows)
        yield
    finally:
        for layer, hook in layers:
            layer.__dict__.pop("weight", None)
            hook.switch = None
        for part in training:
            part.training = True


class _Switched(torch.autograd.Function):
    """Inputs with masks applied. What is kept for the backward pass is how to make the masks, not the masks."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, switch: Callable[[Tensor], Tensor]) -> Tensor:
        ctx.switch = switch
        return switch(x)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        return ctx.switch(gradients[0]), None


class _PoolMasks:
    """Masks of one layer in one draw of the whole pool that could not be folded."""

    def __init__(
        self, layer: nn.Module, hook: MaskedInput, seed: tuple[int, ...], rows: Sequence[int] | None
    ) -> None:
        self.layer, self.hook, self.seed, self.rows = layer, hook, seed, rows
        self.kept: dict[tuple[int, ...], Tensor] = {}

    def __call__(self, x: Tensor) -> Tensor:
        return x * self._masks(x)

    def _masks(self, x: Tensor) -> Tensor:
        if self.hook.masks == "shared":
            shape = _mask_shape(self.layer, self.hook, x, 1)
            if shape not in self.kept:
                mask = _drawn(shape, self.hook.p, self.seed).to(x.device, x.dtype)
                if x.dim() == 4 and x.is_contiguous(memory_format=torch.channels_last):
                    mask = mask.contiguous(memory_format=torch.channels_last)
                self.kept[shape] = mask
            return self.kept[shape]
        rows = range(x.shape[0]) if self.rows is None else self.rows
        if len(rows) != x.shape[0]:
            raise RankerError(
                f"a batch of {x.shape[0]} images came with {len(rows)} rows; give a row for each image"
            )
        shape = _mask_shape(self.layer, self.hook, x, 1)
        return torch.cat([_drawn(shape, self.hook.p, (*self.seed, row)) for row in rows]).to(
            x.device, x.dtype
        )


def _enter(module: nn.Module) -> list[tuple[nn.Module, MaskedInput]]:
    layers = masked_layers(module)
    for layer, hook in layers:
        if hook.switch is not None or "weight" in layer.__dict__:
            raise RankerError("a draw is already open; leave it before opening another")
    return layers


def _inputs(layer: nn.Module) -> int:
    return int(layer.in_features if isinstance(layer, nn.Linear) else layer.in_channels)  # type: ignore[arg-type]


def _foldable(layer: nn.Module) -> bool:
    """Is `weight` a plain parameter (and not, say, computed by weight normalisation)?"""
    return layer._parameters.get("weight") is not None


def _folded(layer: nn.Module, mask: Tensor) -> Tensor:
    """W·diag(z): the weights with each input channel multiplied by its mask."""
    weight = layer._parameters["weight"]
    assert weight is not None
    mask = mask.to(weight.device, weight.dtype)
    if isinstance(layer, nn.Linear):
        return weight * mask
    assert isinstance(layer, _ConvNd)
    ones = (1,) * len(layer.kernel_size)
    if isinstance(layer, _ConvTransposeNd):  # weight is (in, out / groups, …)
        return weight * mask.view(-1, 1, *ones)
    # weight is (out, in / groups, …), and output o reads the input channels of its own group only
    each = mask.view(layer.groups, -1).repeat_interleave(layer.out_channels // layer.groups, dim=0)
    return weight * each.view(*each.shape, *ones)


def _mask_shape(layer: nn.Module, hook: MaskedInput, x: Tensor, rows: int) -> tuple[int, ...]:
    """Shape of `rows` masks for the input x of a layer, ready to be broadcast over its positions."""
    dims = len(layer.kernel_size) + 2 if isinstance(layer, _ConvNd) else 2
    if x.dim() < dims:
        raise RankerError(
            f"{type(layer).__name__} got the shape {tuple(x.shape)}; draws need a batch dimension first"
        )
    if hook.units == "element":
        return (rows, *x.shape[1:])
    ones = (1,) * (x.dim() - 2)
    return (rows, x.shape[1], *ones) if isinstance(layer, _ConvNd) else (rows, *ones, x.shape[-1])


def _bernoulli(shape: tuple[int, ...], p: float, like: Tensor, generator: torch.Generator) -> Tensor:
    mask = torch.empty(shape, dtype=like.dtype, device=like.device)
    if mask.dim() == 4 and like.is_contiguous(memory_format=torch.channels_last):
        mask = mask.contiguous(memory_format=torch.channels_last)  # else multiplying jumps through memory
    return mask.bernoulli_(1 - p, generator=generator).div_(1 - p)


def _bits(
    shape: tuple[int, ...], p: float, device: torch.device, state: int, *, channels_last: bool
) -> Tensor:
    """Which elements are kept, each with probability 1 − p to the nearest 2⁻¹⁶: four are cut from one random word."""
    count = math.prod(shape)
    generator = torch.Generator(device).manual_seed(state)
    if device.type not in ("cpu", "cuda"):  # others need not have random words of 64 bits
        return torch.empty(shape, device=device).bernoulli_(1 - p, generator=generator) > 0
    words = torch.empty(-(-count // 4), dtype=torch.int64, device=device).random_(
        -(1 << 63), None, generator=generator
    )
    kept = words.view(torch.int16)[:count] >= round(p * 65536) - 32768
    if not channels_last:
        return kept.view(shape)
    rows, channels, height, width = shape
    return kept.view(rows, height, width, channels).permute(0, 3, 1, 2)


def _state(seed: int | Sequence[int]) -> int:
    return int(np.random.SeedSequence(seed).generate_state(1, np.uint64)[0])


def _drawn(shape: tuple[int, ...], p: float, seed: tuple[int, ...]) -> Tensor:
    # numpy's streams, because they are the same on every device and in every version of torch
    kept = np.random.default_rng(seed).random(shape, dtype=np.float32) >= p
    return torch.from_numpy(kept).to(torch.float32).div_(1 - p)
