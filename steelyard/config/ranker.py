"""`[ranker]`: the score f(x) and how it is learnt. Two kinds, each with its own settings.

    convex    Bayesian logistic regression on differences of features that stay as they are
    network   a dropout network on features, or one that learns them

A setting that belongs to the other kind, or that has no effect beside the others, is an error and never ignored.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, TypeAlias

from pydantic import Field, field_validator

from steelyard.config.section import AtLeastOne, Expect, Section, Share, ZeroOrMore
from steelyard.errors import did_you_mean

__all__ = [
    "ConvexConfig",
    "Inputs",
    "Kind",
    "NetworkConfig",
    "Preset",
    "RankerConfig",
    "RankerSection",
    "Recipe",
]

Kind = Literal["convex", "network"]
Preset = Literal["quick", "paper", "small", "tuned", "features"]
Inputs = Literal["pixels", "activations", "features"]
Recipe = Annotated[Literal[1, 2], Expect("1 or 2")]

_FROZEN = ("lite0", "lite2", "none")  # features that stay as they are
_LEARNT = ("small", "densenet169")


class RankerSection(Section):
    """What both kinds have in common."""

    place: ClassVar[str] = "ranker"

    def unused(self) -> dict[str, str]:
        """Settings that have no effect beside the others, and why."""
        return {}

    @classmethod
    def unknown_key(cls, name: str) -> str:
        """A key of the other kind is no typing mistake."""
        other = NetworkConfig if cls is ConvexConfig else ConvexConfig
        if name not in other.model_fields:
            near = did_you_mean(name, cls.model_fields) or did_you_mean(name, other.model_fields)
            return f"unknown key 'ranker.{name}'{near}"
        own, others = cls.model_fields["kind"].default, other.model_fields["kind"].default
        if name == "posterior":
            return "'ranker.posterior' belongs to the network ranker; the convex one's is always laplace: leave it out"
        return f"'ranker.{name}' belongs to the {others} ranker, and this one is {own}; leave it out, or set kind = '{others}'"

    def conflict(self) -> str:
        """Why these settings cannot stand together; empty where they can."""
        for name, why in self.unused().items():
            if getattr(self, name) != type(self).model_fields[name].default:
                return f"'ranker.{name}' has no effect here: {why}"
        return ""


class ConvexConfig(RankerSection):
    """The score and how it is learnt: Bayesian logistic regression on differences of features; its posterior is Laplace's.

    Attributes:
        kind: `convex`, fitted in a moment on features that stay as they are; the other kind is `network`.
        preset: the set of defaults it started from.
        backbone: what makes the features: `lite0` or `lite2`, frozen, or `none` (rows given).
        image_size: side in pixels that images are resized to; 0 takes the backbone's own.
        recipe: how features are computed: 2, or 1 as version 0.1 did, which takes about four times as long.
        components: principal components kept.
        whitening: 0 … 1, how far the principal components are brought to equal variance.
        kernel: `rbf` adds a Gaussian kernel to the linear features; `none` leaves them alone.
        ties: a tie as an outcome of its own (`rao_kupper`) or as a 0.5 target (`half`, the paper).
        multitask: learn grades as well (P6) where images carry them.
        judges: learn how each of several annotators answers (reliability, lapses, pull to a side, readiness to tie) and let their
            answers count accordingly; `false` takes everybody for alike.
        image_effects: give each compared image a part of its score that its features need not explain, so that many answers about
            an image can overrule its features; `false` scores by features alone.
        weights: local file of pretrained weights; empty looks in the usual places; `download` may fetch them from the
            internet, which nothing does otherwise; `none` starts from random ones.
        device: `auto`, `cpu`, `cuda`, …, for the backbone.
        threads: CPU threads; 0 leaves the default.
    """

    kind: Literal["convex"] = "convex"
    preset: Preset = "quick"
    backbone: str = "lite2"
    image_size: ZeroOrMore = 0
    recipe: Recipe = 2
    components: AtLeastOne = 128
    whitening: Annotated[Share, Expect("between 0 and 1")] = 0.0
    kernel: Literal["none", "rbf"] = "none"
    ties: Literal["half", "rao_kupper"] = "rao_kupper"
    multitask: bool = False
    judges: bool = True
    image_effects: bool = False
    weights: str = ""
    device: str = "auto"
    threads: ZeroOrMore = 0

    @property
    def inputs(self) -> Inputs:
        """What it learns from."""
        return "features"

    def unused(self) -> dict[str, str]:
        """Settings that have no effect beside the others, and why."""
        found = _without_backbone() if self.backbone == "none" else {}
        if self.multitask:
            found["image_effects"] = (
                "grades (multitask) are learnt from features alone; set image_effects or multitask to false"
            )
        return found

    @field_validator("backbone")
    @classmethod
    def _stays_as_it_is(cls, name: str) -> str:
        if _is_learnt(name):
            raise ValueError(
                f"'ranker.backbone' {name!r} is trained, and the convex ranker needs features that stay as they are: "
                "take lite0, lite2 or none (feature rows), or set kind = 'network'"
            )
        return _known_backbone(name, _FROZEN)


class NetworkConfig(RankerSection):
    """The score and how it is learnt: a network with dropout, on features that stay as they are or on ones it learns.

    Attributes:
        kind: `network`, trained for minutes to hours; the other kind is `convex`.
        preset: the set of defaults it started from.
        backbone: `lite0`, `lite2`, `densenet169`, `small`, `none` (rows given), or `timm:NAME`.
        trained_stages: how many of the backbone's last stages are trained, on cached activations, with dropout in each of
            their layers; everything before stays as it was pretrained, in evaluation mode. 0 trains all of `small`,
            `densenet169` and `timm:NAME`, and nothing of `lite0` and `lite2`.
        image_size: side in pixels that images are resized to; 0 takes the backbone's own.
        recipe: how features that stay as they are are computed: 2, or 1 as version 0.1 did.
        hidden: width of the hidden layer on features that stay as they are; 0 for none. A network that learns its
            features has none (the paper).
        dropout: p, the share of units that is dropped, in every weight layer.
        units: what a mask bit switches: input `channel`s, those of the picture itself excepted, or single `element`s of
            every layer's input, the picture included (the authors').
        mask_colours: let `channel` masks switch off the colours of the picture as well, as version 0.1 did.
        masks: `shared` by both images of a pair (P9) or `independent` (the authors').
        weight_decay: λ of P3. What is minimised is the *mean* loss of a step's pairs + λ Σ‖W‖², as in the authors' code; P3 as
            printed has the sum over the step, which is λ / batch_size here.
        learning_rate: step size of the optimiser (Adam).
        batch_size: pairs a step.
        epochs: passes over the answers, at most.
        patience: epochs without a better validation loss before stopping.
        validation_share: share of labelled pairs held out for early stopping where no validation set is given; what is held out are
            images, which training then does not see in any pair.
        warm_start: whose weights a round starts from: `round0`, `previous`, `scratch`.
        ties: a tie as an outcome of its own (`rao_kupper`) or as a 0.5 target (`half`, the paper).
        multitask: learn grades as well (P6) where images carry them.
        posterior: where uncertainty comes from: `draws` of the weights (the paper), or of the last layer alone in
            `closed_form` or by `laplace`.
        draws: T, how many draws.
        screening: share of the pool that gets all T draws; 1 turns screening off.
        augment: flips, small turns and light jitter while training on pixels.
        weights: local file of pretrained weights; empty looks in the usual places; `download` may fetch them from the
            internet, which nothing does otherwise; `none` starts from random ones.
        device: `auto`, `cpu`, `cuda`, …
        precision: as Lightning Fabric names it.
        threads: CPU threads; 0 leaves the default.
        log: `none`, `csv` or `tensorboard`.
    """

    kind: Literal["network"] = "network"
    preset: Preset = "quick"
    backbone: str = "lite2"
    trained_stages: ZeroOrMore = 0
    image_size: ZeroOrMore = 0
    recipe: Recipe = 2
    hidden: ZeroOrMore = 128
    dropout: Annotated[float, Field(ge=0, lt=1), Expect("a probability of at least 0 and below 1")] = 0.2
    units: Literal["channel", "element"] = "channel"
    mask_colours: bool = False
    masks: Literal["shared", "independent"] = "shared"
    weight_decay: Annotated[float, Field(ge=0), Expect("0 or more")] = 1e-4
    learning_rate: Annotated[float, Field(gt=0), Expect("above 0")] = 1e-3
    batch_size: AtLeastOne = 32
    epochs: AtLeastOne = 300
    patience: AtLeastOne = 20
    validation_share: Annotated[float, Field(ge=0, lt=1), Expect("at least 0 and below 1")] = 0.2
    warm_start: Literal["round0", "previous", "scratch"] = "round0"
    ties: Literal["half", "rao_kupper"] = "rao_kupper"
    multitask: bool = False
    posterior: Literal["draws", "closed_form", "laplace"] = "draws"
    draws: AtLeastOne = 30
    screening: Annotated[float, Field(gt=0, le=1), Expect("a share above 0 and up to 1")] = 1.0
    augment: bool = False
    weights: str = ""
    device: str = "auto"
    precision: str = "32-true"
    threads: ZeroOrMore = 0
    log: Literal["none", "csv", "tensorboard"] = "none"

    @property
    def inputs(self) -> Inputs:
        """What it learns from: pixels, what the frozen stages make of them, or features, frozen or the user's own."""
        if self.trained_stages:
            return "activations"
        return "pixels" if _is_learnt(self.backbone) else "features"

    def without_weights(self) -> NetworkConfig:
        """The same network for weights that are at hand: pretrained ones need not be there."""
        return self if self.backbone == "none" else self.with_changes(weights="none")

    def unused(self) -> dict[str, str]:
        """Settings that have no effect beside the others, and why."""
        found = _without_backbone() if self.backbone == "none" else {}
        if self.inputs != "features" and self.hidden != 0:  # 0 is what such a network has
            found["hidden"] = (
                f"a network that trains {self.backbone!r} has one linear layer on its features; leave it out, or set it to 0"
            )
        if self.inputs != "features":
            found["recipe"] = (
                f"it says how features are computed, and this network learns from {self.inputs}; leave it out"
            )
        if self.inputs != "pixels":
            seen = "cached activations" if self.inputs == "activations" else "features that stay as they are"
            found["augment"] = f"it changes pixels, and this network learns from {seen}; set it to false"
        if self.posterior != "draws":
            remedy = f"posterior {self.posterior!r} makes no draws; leave it out, or set posterior = 'draws'"
            found |= {"draws": remedy, "screening": remedy}
        if self.dropout == 0:
            remedy = "dropout is 0, so there are no masks; leave it out, or set dropout above 0"
            found |= {"units": remedy, "mask_colours": remedy, "masks": remedy}
        elif self.units == "element":
            found["mask_colours"] = "masks of single elements switch pixels anyway; leave it out"
        elif self.inputs != "pixels":
            found["mask_colours"] = (
                f"this network learns from {self.inputs}, which have no colours; leave it out"
            )
        return found

    @field_validator("backbone")
    @classmethod
    def _is_known(cls, name: str) -> str:
        return name if _is_learnt(name) else _known_backbone(name, (*_FROZEN, *_LEARNT, "timm:NAME"))

    def conflict(self) -> str:
        """Why these settings cannot stand together; empty where they can."""
        if self.trained_stages and self.backbone == "none":
            return (
                "'ranker.trained_stages' trains the last stages of a backbone, and backbone 'none' has none; name one, as in "
                "backbone = 'lite0', or set trained_stages to 0"
            )
        if self.dropout == 0 and self.posterior != "laplace":
            return (
                f"'ranker.posterior' {self.posterior!r} comes from dropout, and 'ranker.dropout' is 0; set "
                "posterior = 'laplace', or dropout above 0"
            )
        if self.screening < 1 and self.masks == "independent":
            return (
                "'ranker.screening' needs shared masks: independent ones say nothing about other images; set screening to 1, "
                "or masks = 'shared'"
            )
        return super().conflict()


RankerConfig: TypeAlias = ConvexConfig | NetworkConfig


def _is_learnt(backbone: object) -> bool:
    return backbone in _LEARNT or (isinstance(backbone, str) and backbone.startswith("timm:"))


def _known_backbone(name: str, known: tuple[str, ...]) -> str:
    if name not in known:
        raise ValueError(
            f"'ranker.backbone' is one of {', '.join(known)}; not {name!r}{did_you_mean(name, known)}"
        )
    return name


def _without_backbone() -> dict[str, str]:
    why = "backbone 'none' takes feature rows, not pictures; leave it out"
    return {"image_size": why, "weights": why, "recipe": why}
