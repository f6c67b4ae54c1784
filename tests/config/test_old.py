"""What 0.1 wrote and said is understood; what it ignored is left out. The files are made by tests/files/make_study_0_1.py."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from steelyard.config import (
    ConvexConfig,
    NetworkConfig,
    StudyConfig,
    ask_preset,
    change_ranker,
    ranker_config,
    ranker_from_saved,
    ranker_preset,
)
from steelyard.config.page import PageConfig
from steelyard.errors import ConfigError

FILES = Path(__file__).parents[1] / "files"
CONFIGS = FILES / "configs-0.1"


@pytest.mark.parametrize("preset", ["quick", "features", "small", "tuned", "paper"])
def test_a_preset_that_0_1_wrote_is_that_preset_now(preset: str, tmp_path: Path) -> None:
    config = StudyConfig.load(CONFIGS / f"{preset}.toml")
    # the features it has, and is to keep; the masks that it wrote down
    first: dict[str, Any] = {"quick": {"recipe": 1}, "paper": {"units": "channel"}}.get(preset, {})
    assert config == StudyConfig(
        name=preset, ranker=ranker_preset(preset, **first), ask=ask_preset(preset),
        page=PageConfig(reasons=("blurred", "stool", "wrong organ", "duplicate", "other")),  # 0.1's, and no others
    )  # fmt: skip
    config.save(tmp_path / "study.toml")
    assert (tmp_path / "study.toml").read_text(encoding="utf-8").count("\nversion = 3\n") == 1
    assert StudyConfig.load(tmp_path / "study.toml") == config


def test_what_0_1_ignored_is_left_out() -> None:
    everything = StudyConfig.load(CONFIGS / "convex-with-everything.toml")
    assert everything.ranker == ConvexConfig(components=64, kernel="rbf", recipe=1)
    assert (everything.page.grades, everything.page.keys) == (("calm", "angry"), {"left": "a"})
    mlp = StudyConfig.load(CONFIGS / "mlp.toml")
    assert mlp.ranker == NetworkConfig(posterior="laplace", hidden=64, recipe=1)
    assert mlp.refit_after == 7


def test_what_0_1_trained_as_a_network_is_one() -> None:
    config = StudyConfig.load(CONFIGS / "convex-on-a-trained-backbone.toml")
    assert config.ranker == ranker_preset("small", posterior="closed_form")


def test_a_file_of_0_1_is_still_checked(tmp_path: Path) -> None:
    text = (CONFIGS / "quick.toml").read_text(encoding="utf-8")
    for old, new, message in [
        ('head = "convex"', 'head = "mpl"', "'ranker.kind' is one of convex, network; not 'mpl'"),
        ('head = "convex"', "head = 3", "'ranker.kind' is one of"),
        ("hidden = 128", "hiden = 128", "unknown key 'ranker.hiden'"),
        ("trainer = 20", "trainer = 0", "'refit_after' is 1 or more answers, not 0"),
        ("components = 128", "components = 0", "'ranker.components' is 1 or more, not 0"),
    ]:
        assert old in text
        (tmp_path / "study.toml").write_text(text.replace(old, new), encoding="utf-8")
        with pytest.raises(ConfigError, match=message):
            StudyConfig.load(tmp_path / "study.toml")


def test_a_file_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "study.toml"
    file.write_text('version = 4\nname = "x"\n', encoding="utf-8")
    with pytest.raises(
        ConfigError, match=r"study.toml has version 4, which a newer Steelyard wrote.*install"
    ):
        StudyConfig.load(file)
    for odd in ('"two"', "0", "true", "2.0"):
        file.write_text(f"version = {odd}\n", encoding="utf-8")
        with pytest.raises(ConfigError, match="'version' is a whole number, 1 or more"):
            StudyConfig.load(file)


def test_what_does_not_say_by_which_recipe_is_by_the_first(tmp_path: Path) -> None:
    """Files of version 2, and models saved before there were two: their features are not to change under them."""
    file = tmp_path / "study.toml"
    for ranker in ("", '[ranker]\nkind = "convex"\nbackbone = "lite0"\n', '[ranker]\nkind = "network"\n'):
        file.write_text(f"version = 2\n{ranker}", encoding="utf-8")
        assert StudyConfig.load(file).ranker.recipe == 1
        StudyConfig.load(file).save(file)
        assert StudyConfig.load(file).ranker.recipe == 1, "and it is written down"
        file.write_text(f"version = 3\n{ranker}", encoding="utf-8")
        assert StudyConfig.load(file).ranker.recipe == 2
    for config in (ConvexConfig(), NetworkConfig()):
        before = {key: value for key, value in config.to_dict().items() if key != "recipe"}
        assert ranker_from_saved(before) == config.with_changes(recipe=1)
        assert ranker_from_saved(config.to_dict()) == config
    # Where there are no features of ours there is nothing to say.
    for config in (ConvexConfig(backbone="none"), ranker_preset("tuned"), ranker_preset("small")):
        assert ranker_from_saved({k: v for k, v in config.to_dict().items() if k != "recipe"}) == config
    with pytest.raises(ConfigError, match=r"'ranker.recipe' is one of|'ranker.recipe' is 1 or 2"):
        ConvexConfig(recipe=3)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"'ranker.recipe' has no effect here"):
        ConvexConfig(backbone="none", recipe=1)


@pytest.mark.parametrize(
    "words", ["refit_after = 5\n[ranker]\nhidden = 8\n", '[ranker]\nkind = "convex"\nhidden = 8\n']
)
def test_new_words_without_a_version_are_no_file_of_0_1(words: str, tmp_path: Path) -> None:
    """Written by hand: nothing in it may be ignored."""
    (tmp_path / "study.toml").write_text(words, encoding="utf-8")
    with pytest.raises(ConfigError, match=r"'ranker.hidden' belongs to the network ranker"):
        StudyConfig.load(tmp_path / "study.toml")


def test_callers_may_go_on_with_the_older_words() -> None:
    assert ranker_config(head="mlp", hidden=8) == NetworkConfig(hidden=8)
    assert ranker_config(head="convex", posterior="auto") == ConvexConfig()
    assert ranker_config(posterior="laplace") == ConvexConfig()
    assert ranker_config(head="mlp", posterior="auto") == NetworkConfig()
    assert ranker_preset("quick", head="mlp") == NetworkConfig()
    assert change_ranker(NetworkConfig(posterior="laplace"), {"posterior": "auto"}) == NetworkConfig()
    assert StudyConfig().with_changes(trainer=3).refit_after == 3
    assert StudyConfig.from_dict({"trainer": 3, "ranker": {"head": "mlp"}}).ranker.kind == "network"
    with pytest.raises(ConfigError, match="'trainer' is the older word for 'refit_after'"):
        StudyConfig().with_changes(trainer=3, refit_after=4)
    with pytest.raises(
        ConfigError, match=r"'ranker.head' 'mlp' is the older word for kind = 'network', and kind is"
    ):
        ranker_config(kind="convex", head="mlp")


def saved(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((FILES / name / "checkpoint.json").read_text(encoding="utf-8"))
    return dict(found["extra"])


def test_the_settings_of_saved_models_are_read() -> None:
    network = saved("network-0.1")
    expected = ranker_preset("features", kind="network", hidden=8, epochs=20, posterior="closed_form")
    assert ranker_from_saved(network["ranker"], network["kind"]) == expected
    for model in sorted((FILES / "study-0.1" / "models").iterdir()):
        convex = saved(f"study-0.1/models/{model.name}")
        assert ranker_from_saved(convex["ranker"], convex["kind"]) == ranker_preset("features")


def test_settings_that_no_longer_exist_do_not_break_a_saved_model() -> None:
    for config in (ConvexConfig(components=9), NetworkConfig(backbone="small", hidden=0, draws=7)):
        values = {**config.to_dict(), "moonlight": 3, "units of measure": "stone"}
        assert ranker_from_saved(values) == config
        assert ranker_from_saved(values, config.kind) == config


def test_a_kind_of_another_version_is_said() -> None:
    with pytest.raises(ConfigError, match=r"'ranker.kind' is one of convex, network; not 'forest'"):
        ranker_from_saved({"kind": "forest"})


def test_a_trained_backbone_that_0_1_called_convex_loads_as_the_network_it_is() -> None:
    values = {**saved("network-0.1")["ranker"], "head": "convex", "backbone": "small", "image_size": 64}
    loaded = ranker_from_saved(values, "network")
    assert (loaded.kind, loaded.backbone) == ("network", "small")
    assert ranker_from_saved(values).kind == "network"


def test_weights_that_0_1_did_not_read_are_not_read_now() -> None:
    """Its studies took the usual weights for features, whatever `weights` said; the features are in their caches."""
    values = {"head": "convex", "backbone": "lite2", "weights": "other.pth"}
    assert ranker_from_saved(values) == ConvexConfig(recipe=1)
    trained = {"head": "mlp", "backbone": "densenet169", "weights": "other.pth"}
    assert ranker_from_saved(trained).weights == "other.pth"


def test_what_0_1_could_not_score_with_opens_and_can_be_scored_with() -> None:
    values = {"head": "mlp", "backbone": "none", "dropout": 0.0, "posterior": "closed_form", "draws": 9}
    assert ranker_from_saved(values) == NetworkConfig(backbone="none", dropout=0, posterior="laplace")
    values = {"head": "mlp", "masks": "independent", "screening": 0.5}
    assert ranker_from_saved(values) == NetworkConfig(masks="independent", recipe=1)
