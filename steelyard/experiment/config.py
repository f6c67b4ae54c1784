"""What an experiment is: data, methods, folds, seeds, and the paper's r, s, K and T."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

from numpy.typing import ArrayLike
from pydantic import Field, field_validator

from steelyard.config import ConvexConfig, NetworkConfig, Preset, RankerConfig, change_ranker, ranker_preset
from steelyard.config.ask import not_a_start
from steelyard.config.images import Layout
from steelyard.config.section import AtLeastOne, Expect, Section, Texts, WholeNumbers, ZeroOrMore
from steelyard.errors import ConfigError
from steelyard.options import parse_options

if TYPE_CHECKING:
    from steelyard.annotators import VirtualAnnotator

__all__ = ["ExperimentConfig", "Method", "fixed_of_old", "parse_method"]

AT_ONCE = ("baseline", "all", "conventional")  # no strategy: what is asked is asked at once
SINGLE = ("all", "conventional")  # one training; `baseline` is trained anew for every ratio of labels
# May differ when a run is taken up again: more of the same, or another place. What the data is, its fingerprint says.
_GROWS = ("methods", "seeds", "only_folds", "jobs", "engine", "images", "labels", "features")
# `head` is 0.1's word for the kind.
_RANKER = {*ConvexConfig.model_fields, *NetworkConfig.model_fields, "head"}
# Inputs are computed once for all methods.
_INPUTS = ("backbone", "trained_stages", "image_size", "recipe")
# Their defaults have changed: what a run was made with is written down, whatever the default is.
_SAID_APART = ("recipe", "units", "mask_colours")
# Settings of a ranker that an experiment has its own way for.
_OUR_OWN = {
    "multitask": "grades are learnt in a fit of their own; use --classify",
    "validation_share": "the validation part of each fold stops training early",
    "log": "cells are computed side by side and keep no log of training",
}

Percentage = Annotated[float, Field(gt=0, le=100), Expect("a percentage above 0, up to 100")]


class ExperimentConfig(Section):
    """An experiment.

    Attributes:
        images: folder of the images (or a MedMNIST `.npz`); empty with `features`.
        layout: how the folder is read.
        labels: CSV with `image`, `grade`, optionally `group`; its rows match the rows of `features`.
        features: precomputed feature matrix, `.npy` or `.npz`.
        methods: `baseline`, `all`, `random`, `ubs`, `coreset`, `conventional` or any strategy, each with options after
            colons: `epig:start=spread:r=5:components=64`. `start`, `r`, `s`, `k` belong to the protocol; other keys to the
            strategy or, where it has a field of that name, to the ranker.
        folds: number of folds.
        only_folds: compute these only; empty for all.
        seeds: how many seeds, counted from 0.
        preset: of the ranker.
        ranker: changes to the preset.
        r: first pairs, in % of the training images.
        s: pairs per round, in % of the training images.
        rounds: K, rounds after the first.
        draws: T, of the rankers whose posterior is `draws`.
        start: how the first pairs are chosen.
        annotator: who answers, with options after colons: `perfect`, `noisy:scale=0.5`, … (`steelyard.annotators`).
        reselect: may images that were already compared be chosen again.
        classify: also learn grades and report classification; None does so where it costs nothing (convex head).
        test_pairs: at least this many overall test pairs, at most this many of each neighbour.
        near_duplicates: keep near-duplicate images in one set.
        half: `choose` or `report`: one half of the images, patients and near-duplicates kept together and grades even; settings that were
            chosen on the one can be reported on the other. `all` takes every image.
        split_seed: how the folds are dealt.
        deals: `each` seed deals the images into folds anew, so that intervals know how much the deal matters; `one` deal for all seeds.
        engine: where cells run.
        jobs: cells at a time; 0 takes one per core.
    """

    images: str = ""
    layout: Layout = "grades"
    labels: str = ""
    features: str = ""
    methods: Texts = ("baseline", "all", "random", "ubs", "coreset", "epig")
    folds: Annotated[int, Field(ge=3), Expect("at least 3 folds (train, validation and test)")] = 5
    only_folds: WholeNumbers = ()
    seeds: Annotated[int, Field(ge=1), Expect("at least one seed")] = 3
    preset: Preset = "quick"
    ranker: Annotated[dict[str, Any], Expect("a table of the ranker's settings")] = Field(
        default_factory=dict
    )
    r: Percentage = 20.0
    s: Percentage = 5.0
    rounds: ZeroOrMore = 6
    draws: AtLeastOne = 30
    start: str = "random"
    annotator: str = "perfect"
    reselect: bool = True
    classify: bool | None = None
    test_pairs: AtLeastOne = 1000
    near_duplicates: bool = True
    half: Literal["all", "choose", "report"] = "all"
    split_seed: ZeroOrMore = 0
    deals: Literal["each", "one"] = "each"
    engine: Literal["local", "ray"] = "local"
    jobs: ZeroOrMore = 0

    @field_validator("start")
    @classmethod
    def _needs_no_model(cls, name: str) -> str:
        if why := not_a_start(name):
            raise ValueError(f"'start' {why}")
        return name

    @field_validator("methods")
    @classmethod
    def _are_different(cls, methods: Sequence[str]) -> Sequence[str]:
        if not methods:
            raise ValueError("no methods given; for example --methods baseline,all,random,ubs")
        if len(set(methods)) != len(methods):
            twice = next(m for m in methods if methods.count(m) > 1)
            raise ValueError(f"method '{twice}' is named twice; name each once")
        return methods

    def conflict(self) -> str:
        """Why these values cannot stand together; empty where they can.

        Raises:
            ConfigError: a method or an annotator that cannot be made.
        """
        if bad := [f for f in self.only_folds if not 0 <= f < self.folds]:
            return f"--only-folds names fold {bad[0]}; folds are 0 … {self.folds - 1}"
        for spec in self.methods:
            parse_method(spec, self)
        self.make_annotator([0, 1])
        return ""

    def ranker_config(self, **changes: Any) -> RankerConfig:
        """The ranker's settings, with some changed; `features` given as input need no backbone.

        Raises:
            ConfigError: an unknown key, a key of the other kind, or a bad value.
        """
        wanted = {**self.ranker, **changes}
        for key in wanted:
            if key in _OUR_OWN:
                raise ConfigError(
                    f"'ranker.{key}' has no effect in an experiment: {_OUR_OWN[key]}; leave it out"
                )
        config = ranker_preset(self.preset)
        if self.features:  # rows are given, whatever the preset would have made of pictures
            stages = {"trained_stages": 0} if config.kind == "network" else {}
            config = change_ranker(config, {"backbone": "none", "image_size": 0, **stages})
        config = change_ranker(config, wanted)
        if self.features and config.backbone != "none":
            raise ConfigError(
                f"'ranker.backbone' {config.backbone!r} takes pictures, and 'features' gives rows; leave one of them out"
            )
        if config.kind == "network" and config.posterior == "draws" and "draws" not in wanted:
            return config.with_changes(draws=self.draws)
        return config

    def make_annotator(self, grades: ArrayLike) -> VirtualAnnotator:
        """Somebody rested who answers from the grades of all images."""
        if self.annotator == "perfect":
            from steelyard.annotators import PerfectAnnotator

            return PerfectAnnotator(grades)
        from steelyard.annotators import make_annotator

        name, options = parse_options(self.annotator)
        return make_annotator(name, grades, **options)

    def the_folds(self) -> tuple[int, ...]:
        """Folds to compute."""
        return self.only_folds or tuple(range(self.folds))

    def fixed(self) -> dict[str, Any]:
        """What has to be the same for two runs to share a folder; methods, seeds and folds may be added."""
        ranker = self.ranker_config()
        told = {key: value for key, value in self.to_dict().items() if key not in _GROWS}
        told["ranker"] = {key: value for key, value in self.ranker.items() if key not in _SAID_APART}
        return told | {
            key: getattr(ranker, key)
            for key in _SAID_APART
            if key in type(ranker).model_fields and key not in ranker.unused()
        }


def fixed_of_old(fixed: dict[str, Any]) -> dict[str, Any]:
    """What an older run fixed, in the words of today: it was made before there was a choice of recipes, of masks, of deals, or of halves."""
    changed = {key: value for key, value in fixed["ranker"].items() if key in _SAID_APART}
    rest = {key: value for key, value in fixed["ranker"].items() if key not in _SAID_APART}
    old = {"recipe": 1, "units": "channel", "mask_colours": True, "deals": "one", "half": "all"}
    return {**old, **changed, **fixed, "ranker": rest}


@dataclass(frozen=True)
class Method:
    """One method of an experiment.

    Attributes:
        spec: as it was written; its name in results.
        name: `baseline`, `all`, `conventional` or a strategy.
        start: how the first pairs are chosen.
        r: first pairs in %.
        s: pairs per round in %.
        rounds: rounds after the first.
        options: for the strategy.
        ranker: changes to the ranker's settings.
    """

    spec: str
    name: str
    start: str
    r: float
    s: float
    rounds: int
    options: dict[str, Any]
    ranker: dict[str, Any]


def parse_method(spec: str, config: ExperimentConfig) -> Method:
    """Read `name:key=value:…`.

    Where `r` or `s` is changed and `k` is not, the number of rounds follows so that the total stays r + sK of the experiment.

    Raises:
        ConfigError: an unknown method or a part that is no key=value.
    """
    name, options = parse_options(spec)
    _check_name(name)
    ranker = {key: options.pop(key) for key in list(options) if key in _RANKER}
    start = str(options.pop("start", config.start))
    if why := not_a_start(start):
        raise ConfigError(f"'start' in method '{spec}' {why}")
    r, s = float(options.pop("r", config.r)), float(options.pop("s", config.s))
    if not (0 < r <= 100 and 0 < s <= 100):
        raise ConfigError(f"r and s in method '{spec}' are percentages above 0, not {r:g} and {s:g}")
    total = config.r + config.s * config.rounds
    rounds = int(options.pop("k", max(0, round((total - r) / s))))
    if name in AT_ONCE and options:
        raise ConfigError(f"'{name}' asks everything at once and takes no option '{next(iter(options))}'")
    _check_inputs(spec, config, ranker)
    return Method(spec, name, start, r, s, 0 if name in SINGLE else rounds, options, ranker)


def _check_inputs(spec: str, config: ExperimentConfig, changes: dict[str, Any]) -> None:
    common, own = config.ranker_config(), config.ranker_config(**changes)
    for key in _INPUTS:
        if getattr(own, key, 0) != getattr(common, key, 0):
            raise ConfigError(
                f"'{key}' in method '{spec}' changes what the ranker sees, and all methods of an experiment see the same; set it "
                f"for all with --ranker {key}={getattr(own, key, 0)}"
            )


def _check_name(name: str) -> None:
    from steelyard.acquire import get_strategy
    from steelyard.errors import AcquireError

    if name in AT_ONCE:
        return
    try:
        get_strategy(name)
    except AcquireError as error:
        raise ConfigError(f"{error}; methods without a strategy are {', '.join(AT_ONCE)}") from None
