"""The settings of an experiment: those of 0.1 are read, and a setting goes to the rankers it applies to."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pytest

from steelyard.config import ConvexConfig, NetworkConfig
from steelyard.errors import ConfigError
from steelyard.experiment import ExperimentConfig
from steelyard.experiment.config import parse_method

RUN = Path(__file__).parents[1] / "files" / "run-0.1" / "experiment.json"


def test_the_settings_of_a_run_of_0_1_are_read_and_are_the_same_run() -> None:
    about = json.loads(RUN.read_text(encoding="utf-8"))
    one = {"deals": "one", "half": "all"}  # there was no other way
    config = ExperimentConfig.from_dict({**about["config"], **one})
    assert config.to_dict() == {**about["config"], **one}
    assert config.fixed() == {**about["fixed"], **one}
    assert pickle.loads(pickle.dumps(config)) == config


def test_a_run_says_by_which_recipe_and_masks_it_was_made(tmp_path: Path) -> None:
    from steelyard.errors import ExperimentError
    from steelyard.experiment.folder import RunFolder

    def run(name: str, fixed: dict[str, Any], *, resume: bool) -> None:
        told = {"config": {}, "fixed": fixed, "data": {"fingerprint": "x"}, "methods": [], "commands": []}
        RunFolder(tmp_path / name).open(told, resume=resume)

    second, first = (ExperimentConfig(images="x", ranker=ranker).fixed() for ranker in ({}, {"recipe": 1}))
    older = {key: value for key, value in second.items() if key != "recipe"}
    paper = ExperimentConfig(images="x", preset="paper").fixed()
    before = {key: value for key, value in paper.items() if key not in ("units", "mask_colours")}
    run("paper", before, resume=False)
    with pytest.raises(ExperimentError, match="units='channel', not 'element'"):
        run("paper", paper, resume=True)
    as_it_was = {"units": "channel", "mask_colours": True}
    run("paper", ExperimentConfig(images="x", preset="paper", ranker=as_it_was).fixed(), resume=True)
    with pytest.raises(ExperimentError, match="mask_colours=True, not False"):
        run(
            "paper",
            ExperimentConfig(images="x", preset="paper", ranker={"units": "channel"}).fixed(),
            resume=True,
        )
    for name, made, refused, said in (
        ("older", older, second, "recipe=1, not 2"),
        ("new", second, first, "recipe=2, not 1"),
    ):
        run(name, made, resume=False)
        with pytest.raises(ExperimentError, match=said):
            run(name, refused, resume=True)
    run("older", first, resume=True)
    run("new", second, resume=True)


def test_draws_are_for_rankers_that_draw() -> None:
    config = ExperimentConfig(features="x.npy", draws=7)
    assert config.ranker_config() == ConvexConfig(backbone="none")
    assert config.ranker_config(head="mlp").to_dict()["draws"] == 7
    assert config.ranker_config(head="mlp", draws=3).to_dict()["draws"] == 3
    closed = config.ranker_config(kind="network", posterior="closed_form")
    assert closed == NetworkConfig(backbone="none", posterior="closed_form")


@pytest.mark.parametrize("preset", ["quick", "features", "small", "tuned", "paper"])
def test_rows_need_no_backbone_whatever_the_preset(preset: Any) -> None:
    config = ExperimentConfig(features="x.npy", preset=preset).ranker_config()
    assert (config.backbone, config.inputs, config.preset) == ("none", "features", preset)


def test_methods_may_be_of_different_kinds() -> None:
    methods = ("ubs", "ubs:head=mlp:hidden=64", "ubs:kind=network:posterior=laplace", "epig:components=16")
    config = ExperimentConfig(features="x.npy", methods=methods)
    kinds = [config.ranker_config(**parse_method(spec, config).ranker).kind for spec in methods]
    assert kinds == ["convex", "network", "network", "convex"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"methods": ("ubs:image_size=64",)}, "all methods of an experiment see the same; set it for all with --ranker image_size=64"),
        ({"preset": "small", "methods": ("ubs:kind=convex",)}, "'small' is trained, and the convex ranker needs"),
        ({"preset": "smal"}, "'preset' is one of quick, paper, small, tuned, features; not 'smal' – did you mean 'small'"),
        ({"ranker": {"multitask": True}}, "'ranker.multitask' has no effect in an experiment: .*--classify; leave it out"),
        ({"methods": ("ubs:kind=network:validation_share=0.5",)}, "'ranker.validation_share' has no effect in an experiment"),
        ({"ranker": {"kind": "network", "log": "csv"}}, "'ranker.log' has no effect in an experiment"),
        ({"folds": 2.5}, "'folds' is a whole number, not 2.5"),
        ({"only_folds": [0, "1"]}, "'only_folds' is a list of whole numbers, not '1'"),
        ({"ranker": 3}, "'ranker' is a table of the ranker's settings, not 3"),
        ({"classify": "yes"}, "'classify' is true or false, not 'yes'"),
        ({"split_seed": -1}, "'split_seed' is 0 or more, not -1"),
    ],
)  # fmt: skip
def test_mistakes_are_named(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        ExperimentConfig(**{"images": "DIR", **changes})
    with pytest.raises(ConfigError, match=f"experiment: .*{message}"):
        ExperimentConfig.from_dict({"images": "DIR", **changes}, source="experiment")
