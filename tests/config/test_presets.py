"""Presets, and rankers that are changed."""

from __future__ import annotations

import pytest

from steelyard.config import ConvexConfig, NetworkConfig, change_ranker, ranker_config, ranker_preset
from steelyard.errors import ConfigError


def test_the_paper_preset_is_the_paper_s() -> None:
    paper = ranker_preset("paper")
    assert isinstance(paper, NetworkConfig)
    assert (paper.backbone, paper.image_size, paper.dropout, paper.weight_decay) == (
        "densenet169",
        224,
        0.2,
        1e-4,
    )
    assert (paper.batch_size, paper.epochs, paper.patience, paper.draws, paper.ties) == (
        32,
        300,
        20,
        30,
        "half",
    )
    assert (paper.units, paper.masks) == ("element", "shared")
    assert ranker_preset("paper", image_size=32).image_size == 32
    with pytest.raises(ConfigError, match=r"unknown preset 'papr' – did you mean 'paper'"):
        ranker_preset("papr")


@pytest.mark.parametrize(
    ("preset", "kind"),
    [
        ("quick", "convex"),
        ("features", "convex"),
        ("small", "network"),
        ("tuned", "network"),
        ("paper", "network"),
    ],
)
def test_every_preset_says_which_it_is(preset: str, kind: str) -> None:
    config = ranker_preset(preset)
    assert (config.preset, config.kind) == (preset, kind)


def test_a_mistake_names_the_preset() -> None:
    with pytest.raises(ConfigError, match=r"preset quick: 'ranker.hidden' belongs to the network ranker"):
        ranker_preset("quick", hidden=3)
    with pytest.raises(ConfigError, match=r"preset paper: 'ranker.backbone' 'densenet169' is trained"):
        ranker_preset("paper", kind="convex")


def test_another_kind_keeps_what_both_have() -> None:
    convex = ConvexConfig(backbone="lite0", image_size=96, components=64, ties="half", threads=2)
    network = change_ranker(convex, {"kind": "network", "hidden": 16})
    assert network == NetworkConfig(backbone="lite0", image_size=96, hidden=16, ties="half", threads=2)
    assert change_ranker(network, {"kind": "convex"}) == convex.with_changes(components=128)
    assert change_ranker(convex, {"components": 3}) == convex.with_changes(components=3)


def test_a_ranker_without_a_kind_is_convex() -> None:
    assert ranker_config() == ConvexConfig()
    assert ranker_config(kind="network") == NetworkConfig()
