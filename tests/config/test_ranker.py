"""Two kinds of rankers: each takes its own settings, and nothing that is set is ignored."""

from __future__ import annotations

import sys
from typing import Any

import pytest
import tomli_w
from hypothesis import assume, given
from hypothesis import strategies as st

from steelyard.config import ConvexConfig, NetworkConfig, RankerConfig, StudyConfig, ranker_config
from steelyard.errors import ConfigError

if sys.version_info >= (3, 11):
    import tomllib
else:  # pragma: no cover
    import tomli as tomllib


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"hidden": 8}, "'ranker.hidden' belongs to the network ranker, and this one is convex; leave it out"),
        ({"kind": "network", "components": 8}, "'ranker.components' belongs to the convex ranker.*kind = 'convex'"),
        ({"posterior": "draws"}, "the convex one's is always laplace: leave it out"),
        ({"componets": 8}, "unknown key 'ranker.componets' – did you mean 'components'"),
        ({"kind": "convx"}, "'ranker.kind' is one of convex, network; not 'convx' – did you mean 'convex'"),
        ({"backbone": "small"}, "'small' is trained, and the convex ranker needs features.*kind = 'network'"),
        ({"backbone": "densenet169"}, "'densenet169' is trained"),
        ({"backbone": "timm:resnet18"}, "'timm:resnet18' is trained"),
        ({"backbone": "lite1"}, "'ranker.backbone' is one of lite0, lite2, none; not 'lite1' – did you mean 'lite"),
        ({"kind": "network", "backbone": "resnet"}, "one of lite0, lite2, none, small, densenet169, timm:NAME; not 'resnet'"),
        ({"backbone": "none", "image_size": 64}, "'ranker.image_size' has no effect here: backbone 'none' takes feature rows"),
        ({"backbone": "none", "weights": "w.pth"}, "'ranker.weights' has no effect here"),
        ({"kind": "network", "backbone": "none", "weights": "w.pth"}, "'ranker.weights' has no effect here"),
        ({"kind": "network", "backbone": "small", "hidden": 64}, "'ranker.hidden' has no effect.*leave it out, or set it to 0"),
        ({"kind": "network", "backbone": "lite0", "trained_stages": 1, "hidden": 64}, "'ranker.hidden' has no effect here"),
        ({"kind": "network", "augment": True}, "it changes pixels, and this network learns from features that stay"),
        ({"kind": "network", "trained_stages": 1, "augment": True}, "learns from cached activations; set it to false"),
        ({"kind": "network", "posterior": "laplace", "draws": 10}, "'laplace' makes no draws; leave it out, or set posterior"),
        ({"kind": "network", "posterior": "closed_form", "screening": 0.5}, "'ranker.screening' has no effect here"),
        ({"kind": "network", "dropout": 0}, "comes from dropout, and 'ranker.dropout' is 0; set posterior = 'laplace'"),
        ({"kind": "network", "dropout": 0, "posterior": "closed_form"}, "set posterior = 'laplace', or dropout above 0"),
        ({"kind": "network", "dropout": 0, "posterior": "laplace", "masks": "independent"}, "so there are no masks"),
        ({"kind": "network", "screening": 0.5, "masks": "independent"}, "set screening to 1, or masks = 'shared'"),
        ({"kind": "network", "backbone": "none", "trained_stages": 1}, "backbone 'none' has none; name one"),
    ],
)  # fmt: skip
def test_what_does_not_apply_is_refused_with_the_remedy(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        ranker_config(**values)
    with pytest.raises(ConfigError, match=message):
        StudyConfig.from_dict({"ranker": values})
    if values.get("kind", "convex") in ("convex", "network"):
        with pytest.raises(ConfigError, match=message):
            (NetworkConfig if "kind" in values else ConvexConfig)(**values)


@pytest.mark.parametrize(
    ("config", "inputs"),
    [
        (ConvexConfig(), "features"),
        (ConvexConfig(backbone="none"), "features"),
        (NetworkConfig(), "features"),
        (NetworkConfig(backbone="none"), "features"),
        (NetworkConfig(backbone="lite0", trained_stages=2), "activations"),
        (NetworkConfig(backbone="small"), "pixels"),
        (NetworkConfig(backbone="small", augment=True, hidden=0), "pixels"),
        (NetworkConfig(backbone="timm:resnet18"), "pixels"),
        (NetworkConfig(dropout=0, posterior="laplace"), "features"),
    ],
)
def test_what_is_learnt_from_follows_from_the_backbone(config: RankerConfig, inputs: str) -> None:
    assert config.inputs == inputs


convex = st.fixed_dictionaries(
    {"kind": st.just("convex"), "components": st.integers(1, 4000), "whitening": st.floats(0, 1)},
    optional={
        "backbone": st.sampled_from(["lite0", "lite2", "none"]),
        "image_size": st.integers(0, 500),
        "kernel": st.sampled_from(["none", "rbf"]),
        "ties": st.sampled_from(["half", "rao_kupper"]),
        "multitask": st.booleans(),
        "weights": st.text(max_size=5),
        "threads": st.integers(0, 99),
    },
)
network = st.fixed_dictionaries(
    {"kind": st.just("network")},
    optional={
        "backbone": st.sampled_from(["lite0", "lite2", "none", "small", "densenet169", "timm:resnet18"]),
        "trained_stages": st.integers(0, 3),
        "image_size": st.integers(0, 500),
        "hidden": st.integers(0, 300),
        "dropout": st.floats(0, 1, exclude_max=True),
        "units": st.sampled_from(["channel", "element"]),
        "mask_colours": st.booleans(),
        "masks": st.sampled_from(["shared", "independent"]),
        "learning_rate": st.floats(0, 10, exclude_min=True),
        "posterior": st.sampled_from(["draws", "closed_form", "laplace"]),
        "draws": st.integers(1, 100),
        "screening": st.floats(0, 1, exclude_min=True),
        "augment": st.booleans(),
        "device": st.text(max_size=5),
        "log": st.sampled_from(["none", "csv", "tensorboard"]),
    },
)


@given(convex | network)
def test_any_ranker_goes_through_toml_and_back(values: dict[str, Any]) -> None:
    try:
        config = ranker_config(**values)
    except ConfigError:
        assume(False)
    assert all(getattr(config, key) == value for key, value in values.items())
    study = StudyConfig(ranker=config)
    again = StudyConfig.from_dict(tomllib.loads(tomli_w.dumps(study.to_dict())))
    assert again == study
    assert type(again.ranker) is type(config)
    written = set(study.to_dict()["ranker"])
    assert written == set(type(config).model_fields) - set(config.unused())


@given(st.sampled_from(["convex", "network"]), st.text(max_size=12), st.integers() | st.text(max_size=3))
def test_any_unknown_key_is_refused(kind: str, key: str, value: Any) -> None:
    known = {*ConvexConfig.model_fields, *NetworkConfig.model_fields, "head"}
    assume(key not in known)
    with pytest.raises(ConfigError, match="unknown key 'ranker"):
        StudyConfig.from_dict({"ranker": {"kind": kind, key: value}})


@pytest.mark.parametrize(("kind", "other"), [(ConvexConfig, NetworkConfig), (NetworkConfig, ConvexConfig)])
def test_every_key_of_the_other_kind_is_refused_by_name(kind: Any, other: Any) -> None:
    for key in set(other.model_fields) - set(kind.model_fields):
        with pytest.raises(ConfigError, match=f"'ranker.{key}' belongs to the "):
            kind(**{key: other.model_fields[key].default})
