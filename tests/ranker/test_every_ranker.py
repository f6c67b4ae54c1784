"""Every backbone × kind × posterior: it trains, saves, loads in a new process, scores other images and agrees with itself –
or the configuration refuses it with a sentence.
"""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import steelyard
from steelyard.config import RankerConfig, ranker_preset
from steelyard.errors import ConfigError, RankerError
from steelyard.images.synthetic import draw
from steelyard.ranker.inputs import read_inputs
from steelyard.ranker.learner import Learner

SIDE = 48
BACKBONES = ("none", "lite0", "lite2", "small", "densenet169", "timm:tiny")
FROZEN = ("none", "lite0", "lite2")
POSTERIORS = ("draws", "closed_form", "laplace")
RNG = np.random.default_rng(0)
PICTURES = draw(14, size=SIDE, seed=0).images
ROWS = RNG.standard_normal((14, 5)).astype(np.float32) * 100 + 40
TRAINED, OTHERS = slice(0, 9), slice(9, 14)
PAIRS = np.array([[k, (k + 1) % 9] for k in range(9)])
ANSWERS = np.array([1.0, 0.0, 0.5] * 3)

# Stands in for the `zoo` extra, here and in the new process.
TIMM = """
from torch import nn
def list_models(): return ["tiny"]
def create_model(name, pretrained, num_classes):
    model = nn.Sequential(nn.Conv2d(3, 6, 3, stride=4), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(1))
    model.num_features = 6
    return model
"""

CHILD = """
import json, sys
from pathlib import Path
import numpy as np
from steelyard.ranker.inputs import read_inputs
from steelyard.ranker.ranker import load_ranker

place, given, found = Path(sys.argv[1]), np.load(Path(sys.argv[1]) / "others.npz"), {}
for folder in sorted(place.glob("models/*")):
    ranker = load_ranker(folder)
    config = ranker.config
    inputs = given["rows"] if config.backbone == "none" else read_inputs(given["pictures"], config, cache=place / "cache")
    posterior = ranker.posterior(inputs)
    found[folder.name] = [posterior.mean.tolist(), posterior.variance.tolist(), posterior.kind, ranker.metrics]
print(json.dumps(found))
"""


class Case(NamedTuple):
    """One combination of settings."""

    kind: str
    backbone: str
    stages: int
    posterior: str
    hidden: int = 0
    ties: str = "half"

    @property
    def name(self) -> str:
        return "-".join(map(str, self)).replace(":", "~")

    def config(self) -> RankerConfig:
        """Its settings; a ConfigError where they do not go together."""
        settings: dict[str, Any] = {
            "kind": self.kind,
            "backbone": self.backbone,
            "ties": self.ties,
            "device": "cpu",
            "threads": 1,
        }
        if self.backbone != "none":
            settings["image_size"] = SIDE
        if self.backbone in ("densenet169", "timm:tiny"):
            settings["weights"] = "none"
        if self.stages:
            settings["trained_stages"] = self.stages
        if self.kind == "network" or self.posterior != "laplace":
            settings["posterior"] = self.posterior
        if self.kind == "network":
            settings |= {"epochs": 1, "hidden": self.hidden}
            if self.posterior == "draws":
                settings["draws"] = 3
        preset = "quick" if self.kind == "convex" else "features"
        return ranker_preset(preset, **settings)

    @property
    def possible(self) -> bool:
        """What the documentation promises."""
        if self.kind == "convex":
            return self.backbone in FROZEN and not self.stages and self.posterior == "laplace"
        return not (self.stages and self.backbone == "none")


CASES = [Case(*rest) for rest in itertools.product(("convex", "network"), BACKBONES, (0, 1), POSTERIORS)]
# What trained stages do to a posterior is seen with the smaller of two networks.
CASES = [
    case
    for case in CASES
    if not (
        case.stages
        and case.backbone in ("lite2", "densenet169")
        and case.posterior != "draws"
        and case.possible
    )
]
# A hidden layer, and ties as an outcome of their own, where features stay as they are; ties also with learnt ones.
CASES += [
    Case("network", "none", 0, posterior, hidden, ties)
    for posterior, (hidden, ties) in itertools.product(POSTERIORS, [(4, "half"), (0, "rao_kupper")])
]
CASES += [
    Case("network", backbone, 0, posterior, 4, "rao_kupper")
    for backbone, posterior in itertools.product(FROZEN, POSTERIORS)
]
CASES += [Case("network", name, 0, "laplace", 0, "rao_kupper") for name in ("small", "timm:tiny")]
CASES += [Case("network", "lite0", 1, "draws", 0, "rao_kupper")]
CASES += [Case("convex", backbone, 0, "laplace", 0, "rao_kupper") for backbone in FROZEN]
UNCUT = "timm:tiny"  # a single stage: only the network itself knows that it cannot be cut


def inputs_of(case: Case, config: RankerConfig, seen: dict[Any, Any], cache: Path) -> np.ndarray:
    """What the ranker sees of all pictures, read once a backbone."""
    if case.backbone == "none":
        return ROWS
    key = case.backbone, case.stages
    if key not in seen:
        seen[key] = np.array(read_inputs(PICTURES, config, cache=cache))
    return np.asarray(seen[key])


def test_every_ranker_that_can_be_configured_scores_other_images_in_a_new_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "stand-in").mkdir()
    (tmp_path / "stand-in" / "timm.py").write_text(TIMM)
    monkeypatch.syspath_prepend(str(tmp_path / "stand-in"))
    np.savez(tmp_path / "others.npz", rows=ROWS[OTHERS], pictures=PICTURES[OTHERS])
    expected, seen = {}, dict[Any, Any]()
    for case in CASES:
        if not case.possible or (case.backbone == UNCUT and case.stages):
            continue
        config = case.config()
        inputs = inputs_of(case, config, seen, tmp_path / "cache here")
        learner = Learner(config, inputs, pool=np.arange(9), seed=4)
        ranker = learner.fit(PAIRS, ANSWERS)
        assert ranker.config == config
        assert ranker.learns_reserved == learner.learns_reserved == (case.kind == "convex")
        others, pool = ranker.posterior(inputs[OTHERS]), learner.posterior(ranker)
        assert np.allclose(pool.mean[OTHERS], others.mean, atol=1e-5), case
        assert np.allclose(pool.variance[OTHERS], others.variance, rtol=1e-4, atol=1e-8), case
        assert others.kind == case.posterior
        assert others.variance.any(), case
        ranker.save(tmp_path / "models" / case.name)
        expected[case.name] = others
    path = os.pathsep.join([str(tmp_path / "stand-in"), str(Path(steelyard.__file__).parents[1])])
    child = subprocess.run(
        [sys.executable, "-c", CHILD, str(tmp_path)], capture_output=True, text=True, check=False, timeout=300,
        env={**os.environ, "PYTHONPATH": path},
    )  # fmt: skip
    assert child.returncode == 0, child.stderr[-2000:]
    found = json.loads(child.stdout)
    assert found.keys() == expected.keys()
    for name, (mean, variance, kind, metrics) in found.items():
        assert np.allclose(mean, expected[name].mean, atol=1e-5), name
        assert np.allclose(variance, expected[name].variance, rtol=1e-4, atol=1e-8), name
        assert kind == expected[name].kind
        assert metrics, name


@pytest.mark.parametrize("case", [case for case in CASES if not case.possible], ids=lambda case: case.name)
def test_every_other_one_is_refused_with_a_sentence(case: Case) -> None:
    with pytest.raises(ConfigError, match=r"'ranker\.\w+'.*(set|take|leave)"):
        case.config()


def test_a_backbone_of_one_stage_is_not_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "timm.py").write_text(TIMM)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "timm", raising=False)
    with pytest.raises(RankerError, match="cannot be cut; set trained_stages to 0"):
        read_inputs(PICTURES, Case("network", UNCUT, 1, "draws").config())
