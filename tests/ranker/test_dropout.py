"""A draw is one set of masks: properties of the contexts, and folding against masking by hand."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from steelyard.errors import RankerError
from steelyard.ranker.dropout import bayesian, draw, draw_for_pairs, masked_layers, plain


class Mixed(nn.Module):
    """Plain, grouped, depthwise and transposed convolutions, batch norm and linear layers."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 8, 3, padding=1)
        self.norm = nn.BatchNorm2d(8)
        self.grouped = nn.Conv2d(8, 12, 3, groups=4, padding=1, bias=False)
        self.depthwise = nn.Conv2d(12, 24, 3, groups=12, stride=2, padding=1)
        self.up = nn.ConvTranspose2d(24, 6, 2, stride=2, groups=2)
        self.linear = nn.Linear(6, 5)
        self.last = nn.Linear(5, 1)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.relu(self.norm(self.first(x)))
        x = self.up(torch.relu(self.depthwise(torch.relu(self.grouped(x)))))
        return self.last(torch.tanh(self.linear(x.mean(dim=(2, 3))))).squeeze(-1)


@pytest.fixture
def module() -> Mixed:
    torch.manual_seed(0)
    module = Mixed()
    module.train()
    with torch.no_grad():
        module(torch.randn(16, 3, 8, 8))  # batch norm gets statistics
    return bayesian(module, 0.3)


@pytest.fixture
def images() -> Tensor:
    return torch.randn(6, 3, 8, 8, generator=torch.Generator().manual_seed(1))


def snapshot(module: nn.Module) -> dict[str, Tensor]:
    return {name: value.clone() for name, value in module.state_dict().items()}


def same(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    return list(one) == list(other) and all(torch.equal(one[name], other[name]) for name in one)


def test_names_and_mean_output_are_those_of_the_plain_module(module: Mixed, images: Tensor) -> None:
    twin = copy.deepcopy(module)
    plain(twin)
    assert list(module.state_dict()) == list(Mixed().state_dict())
    assert not masked_layers(twin)
    assert len(masked_layers(module)) == 6
    assert torch.equal(module.eval()(images), twin.eval()(images))


@pytest.mark.parametrize("groups", [1, 2, 4])
@pytest.mark.parametrize("kind", [nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.ConvTranspose1d, nn.ConvTranspose2d])
def test_folding_is_masking_the_inputs(kind: type[nn.Module], groups: int) -> None:
    torch.manual_seed(0)
    layer = bayesian(kind(4, 8, 3, groups=groups), 0.5)  # type: ignore[call-arg]
    dims = {"1": 1, "2": 2, "3": 3}[kind.__name__[-2]]
    x = torch.randn(2, 4, *(5,) * dims)
    mask = np.random.default_rng((8, 3, 0)).random(4, dtype=np.float32) >= 0.5
    assert 0 < mask.sum() < 4
    expected = layer(x * (torch.from_numpy(mask).float() / 0.5).view(1, 4, *(1,) * dims))
    with torch.no_grad(), draw(layer, 8, 3):
        assert torch.allclose(layer(x), expected, atol=1e-6)


def test_folding_linear_layers_of_sequences() -> None:
    layer = bayesian(nn.Linear(4, 3), 0.5)
    x = torch.randn(2, 7, 4)
    mask = torch.from_numpy(np.random.default_rng((1, 0, 0)).random(4, dtype=np.float32) >= 0.5).float() / 0.5
    expected = layer(x * mask)
    with torch.no_grad(), draw(layer, 1, 0):
        assert torch.allclose(layer(x), expected, atol=1e-6)


def test_a_draw_does_not_depend_on_batch_size_order_or_copy(module: Mixed, images: Tensor) -> None:
    with torch.no_grad(), draw(module, 5, 2):
        whole = module(images)
        single = torch.cat([module(image[None]) for image in images])
        backwards = module(images.flip(0)).flip(0)
    with torch.no_grad(), draw(copy.deepcopy(module), 5, 2):
        pass
    other = copy.deepcopy(module)
    with torch.no_grad(), draw(other, 5, 2):
        elsewhere = other(images)
    assert torch.allclose(whole, single, atol=1e-6)
    assert torch.allclose(whole, backwards, atol=1e-6)
    assert torch.equal(whole, elsewhere)


def test_other_draws_and_seeds_differ(module: Mixed, images: Tensor) -> None:
    scores = []
    for seed, t in [(5, 2), (5, 3), (6, 2)]:
        with torch.no_grad(), draw(module, seed, t):
            scores.append(module(images))
    assert not torch.allclose(scores[0], scores[1])
    assert not torch.allclose(scores[0], scores[2])


def test_layers_of_equal_width_have_different_masks() -> None:
    module = bayesian(nn.Sequential(nn.Linear(64, 64), nn.Linear(64, 64)), 0.5)
    with draw(module, 0, 0):
        switched = [(layer.weight == 0).all(dim=0) for layer in module]  # type: ignore[union-attr, arg-type]
    assert not torch.equal(switched[0], switched[1])


def test_restored_bit_for_bit_also_after_an_exception(module: Mixed, images: Tensor) -> None:
    module.train()
    module.norm.eval()  # a mixture of modes has to come back as it was
    before, modes = snapshot(module), [part.training for part in module.modules()]
    with torch.no_grad(), draw(module, 0, 0):
        assert not any(part.training for part in module.modules())
        module(images)
        assert same(before, module.state_dict())
    with pytest.raises(KeyboardInterrupt), draw(module, 0, 1):
        raise KeyboardInterrupt
    assert same(before, snapshot(module))
    assert modes == [part.training for part in module.modules()]
    assert "weight" not in module.first.__dict__
    assert isinstance(module.first.weight, nn.Parameter)


def test_draws_average_to_the_mean_weights_for_a_linear_layer() -> None:
    torch.manual_seed(0)
    layer = bayesian(nn.Linear(10, 1), 0.2)
    x = torch.randn(3, 10)
    with torch.no_grad():
        scores = []
        for t in range(4000):
            with draw(layer, 0, t):
                scores.append(layer(x))
        spread = torch.stack(scores).std(dim=0) / 4000**0.5
        assert ((torch.stack(scores).mean(dim=0) - layer(x)).abs() < 5 * spread).all()


def test_pair_draw_serves_both_images(module: Mixed, images: Tensor) -> None:
    module.eval()  # batch norm would mix the rows
    with torch.no_grad(), draw_for_pairs(module, (0, 1)):
        scores = module(torch.cat([images, images]))
    left, right = scores.chunk(2)
    assert torch.equal(left, right)
    assert len({round(float(s), 6) for s in module(images).tolist()}) == len(images)
    with torch.no_grad(), draw_for_pairs(module, (0, 1)):
        same_image = module(images[:1].expand(8, -1, -1, -1))
    assert torch.equal(same_image[:4], same_image[4:])
    assert len({round(float(s), 6) for s in same_image[:4].tolist()}) == 4  # each pair has a draw of its own


def test_draw_index_names_the_draw_of_each_row(module: Mixed, images: Tensor) -> None:
    module.eval()
    index = torch.tensor([0, 1, 2, 2, 1, 0])
    one = images[:1].expand(6, -1, -1, -1)
    with torch.no_grad(), draw_for_pairs(module, 3, draw_index=index):
        scores = module(one)
    assert torch.allclose(scores, scores.flip(0), atol=1e-6)
    assert not torch.allclose(scores[:2], scores[1:3])


@pytest.mark.parametrize("units", ["channel", "element"])
def test_pair_draws_come_from_the_seed(module: Mixed, images: Tensor, units: str) -> None:
    bayesian(module, 0.3, units=units)  # type: ignore[arg-type]
    scores = []
    for seed in [(1, 0, 0), (1, 0, 0), (1, 0, 1)]:
        with torch.no_grad(), draw_for_pairs(module.eval(), seed):
            scores.append(module(images))
    assert torch.equal(scores[0], scores[1])
    assert not torch.allclose(scores[0], scores[2])


@pytest.mark.parametrize("units", ["channel", "element"])
def test_independent_masks_differ_between_the_images_of_a_pair(
    module: Mixed, images: Tensor, units: str
) -> None:
    bayesian(module, 0.3, units=units, masks="independent").eval()  # type: ignore[arg-type]
    with torch.no_grad(), draw_for_pairs(module, 0):
        left, right = module(torch.cat([images, images])).chunk(2)
    assert not torch.allclose(left, right)
    with torch.no_grad(), draw(module, 0, 0):
        twice = module(images[:1].expand(2, -1, -1, -1))
    assert not torch.allclose(twice[0], twice[1])


@pytest.mark.parametrize("units", ["channel", "element"])
def test_independent_masks_follow_the_row(module: Mixed, images: Tensor, units: str) -> None:
    bayesian(module, 0.3, units=units, masks="independent")  # type: ignore[arg-type]
    with torch.no_grad(), draw(module, 0, 4):
        whole = module(images)
    with torch.no_grad(), draw(module, 0, 4, rows=[3, 1]):
        part = module(images[[3, 1]])
    assert torch.allclose(whole[[3, 1]], part, atol=1e-6)
    with pytest.raises(RankerError, match="2 rows"), torch.no_grad(), draw(module, 0, 4, rows=[3, 1]):
        module(images)


def test_shared_element_masks_are_one_for_all_images(module: Mixed, images: Tensor) -> None:
    bayesian(module, 0.3, units="element")
    with torch.no_grad(), draw(module, 0, 0):
        twice = module(images[:1].expand(2, -1, -1, -1))
        again = module(images[:1])
    assert torch.allclose(twice[0], twice[1], atol=1e-6)
    assert torch.allclose(twice[0], again[0], atol=1e-6)


@pytest.mark.parametrize("last", [False, True])
def test_element_masks_are_the_same_backwards_as_forwards(last: bool) -> None:
    """They are made twice from one seed: the gradient is that of the masks the loss was computed with."""
    layer = bayesian(nn.Conv2d(3, 4, 3, padding=1), 0.2, units="element")
    x = torch.randn(6, 3, 9, 9).requires_grad_()
    seen = x.contiguous(memory_format=torch.channels_last) if last else x
    masked: list[Tensor] = []
    layer.register_forward_pre_hook(lambda _, args: masked.append(args[0]))
    with draw_for_pairs(layer, (4, 1, 2)):
        layer(seen).square().sum().backward()
    mask = (masked[0] / x).detach()
    assert torch.allclose(mask[:3], mask[3:])  # P9: both images of a pair
    assert not torch.allclose(mask[0], mask[1])
    assert set(mask.mul(0.8).round(decimals=3).unique().tolist()) == {0.0, 1.0}
    by_hand = x.detach().clone().requires_grad_()
    plain(layer)
    layer(by_hand * mask).square().sum().backward()
    assert torch.allclose(x.grad, by_hand.grad, atol=1e-4)  # type: ignore[arg-type]


def test_element_masks_keep_as_many_as_they_should() -> None:
    layer = bayesian(nn.Conv2d(8, 1, 1, bias=False), 0.2, units="element")
    masked: list[Tensor] = []
    layer.register_forward_pre_hook(lambda _, args: masked.append(args[0]))
    with torch.no_grad(), draw_for_pairs(layer, 0):
        layer(torch.ones(20, 8, 64, 64))
    kept = (masked[0][:10] > 0).float()
    deviation = (0.8 * 0.2 / kept.numel()) ** 0.5
    assert abs(kept.mean().item() - 0.8) < 5 * deviation + 1e-4
    # neither neighbours nor channels nor pairs know of each other
    for one, other in [
        (kept[..., 1:], kept[..., :-1]),
        (kept[:, 1:], kept[:, :-1]),
        (kept[1:], kept[:-1]),
        (kept[..., 1:, :], kept[..., :-1, :]),
    ]:
        correlation = torch.corrcoef(torch.stack([one.reshape(-1), other.reshape(-1)]))[0, 1]
        assert abs(correlation.item()) < 0.012


def test_element_masks_are_not_kept_between_the_passes() -> None:
    """They are as large as the activations: a layer keeps one tensor, its masked input, and no mask beside it."""
    layer = bayesian(nn.Conv2d(16, 4, 1, bias=False), 0.2, units="element")
    x = torch.randn(4, 16, 12, 12).requires_grad_()
    large: list[tuple[int, ...]] = []

    def note(tensor: Tensor) -> Tensor:
        if tensor.numel() >= 2 * 16 * 12 * 12:
            large.append(tuple(tensor.shape))
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor), draw_for_pairs(layer, 0):
        layer(x)
    assert large == [(4, 16, 12, 12)]


def test_layers_that_are_spared_have_no_masks(module: Mixed) -> None:
    bayesian(module, 0.3, spare=[module.first])
    assert module.first not in [layer for layer, _ in masked_layers(module)]
    assert len(masked_layers(module)) == 5


def test_gradients_reach_every_parameter_through_a_draw(module: Mixed, images: Tensor) -> None:
    bayesian(module, 0.1)
    module.train()
    with draw_for_pairs(module, 0):
        module(images).square().sum().backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in module.parameters())
    module.zero_grad()
    with draw(module, 0, 0):
        module(images).square().sum().backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in module.parameters())


def test_computed_weights_are_masked_at_the_input_instead() -> None:
    torch.manual_seed(0)
    layer = bayesian(nn.utils.parametrizations.weight_norm(nn.Linear(6, 2)), 0.5)
    x = torch.randn(3, 6)
    mask = (
        torch.from_numpy(np.random.default_rng((0, 0, 0)).random((1, 6), dtype=np.float32) >= 0.5).float()
        / 0.5
    )
    with torch.no_grad():
        expected = layer(x * mask)
        with draw(layer, 0, 0):
            assert torch.allclose(layer(x), expected)


def test_attention_projections_that_torch_never_calls_are_left_alone() -> None:
    module = bayesian(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 0.2)
    assert len(masked_layers(module)) == 2


def test_p_zero_takes_masks_away(module: Mixed) -> None:
    assert masked_layers(bayesian(module, 0.0)) == []


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda: bayesian(nn.Linear(2, 2), 1.0), "below 1, not 1.0"),
        (lambda: bayesian(nn.ReLU(), 0.2), "ReLU has no Conv or Linear"),
        (lambda: bayesian(nn.Linear(2, 2), 0.2, units="pixel"), "pixel"),  # type: ignore[arg-type]
    ],
)
def test_bad_settings_are_named(act: object, message: str) -> None:
    with pytest.raises(RankerError, match=message):
        act()  # type: ignore[operator]


def test_contexts_do_not_nest_and_check_their_input(module: Mixed, images: Tensor) -> None:
    with draw(module, 0, 0), pytest.raises(RankerError, match="already open"), draw(module, 0, 1):
        pass
    with draw_for_pairs(module, 0), pytest.raises(RankerError, match="already open"), draw(module, 0, 1):
        pass
    with pytest.raises(RankerError, match="0 or more"), draw(module, -1, 0):
        pass
    with pytest.raises(RankerError, match="not 5 rows"), draw_for_pairs(module, 0):
        module(images[:5])
    index = torch.tensor([0, 0])
    with pytest.raises(RankerError, match="draw_index says 2"), draw_for_pairs(module, 0, draw_index=index):
        module(images)
    with (
        pytest.raises(RankerError, match="batch dimension"),
        draw_for_pairs(module, 0, draw_index=torch.arange(3)),
    ):
        module.first(images[0])
