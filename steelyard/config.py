"""What a study is set to: frozen, typed, documented, read from and written to `study.toml`.

An unknown key is an error that suggests the nearest known one; a bad value is an error that lists the good ones.
"""

from __future__ import annotations

import difflib
import sys
import types
from dataclasses import asdict, dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from steelyard.errors import ConfigError
from steelyard.files import write_atomically

if sys.version_info >= (3, 11):
    import tomllib
else:  # pragma: no cover
    import tomli as tomllib

__all__ = [
    "AskConfig",
    "ImagesConfig",
    "PageConfig",
    "Preset",
    "RankerConfig",
    "StudyConfig",
    "ask_preset",
    "ranker_preset",
]

Preset = Literal["quick", "paper", "small", "tuned", "features"]
Section = TypeVar("Section")


@dataclass(frozen=True)
class ImagesConfig:
    """Where the images are and how they are read.

    Attributes:
        root: folder of the images (or the `.npz`), as given to `init`.
        layout: how the folder is read.
        labels: CSV with `image`, `grade` and optionally `group`; empty for none.
        features: precomputed feature matrix instead of pixels; empty for none.
        on_error: what an unreadable file does: `skip` it with a report, or `fail`.
        max_megapixels: a larger picture is taken for a decompression bomb.
    """

    root: str = ""
    layout: Literal["folder", "grades", "csv", "limuc", "hyperkvasir", "medmnist", "features"] = "folder"
    labels: str = ""
    features: str = ""
    on_error: Literal["skip", "fail"] = "skip"
    max_megapixels: float = 100.0


@dataclass(frozen=True)
class RankerConfig:
    """The ranker f(x) and how it is trained. Presets fill it in; every field can be set by hand.

    Attributes:
        preset: the set of defaults it started from.
        backbone: `lite0`, `lite2` (frozen features), `densenet169`, `small`, `none` (rows given), or `timm:NAME`.
        head: `convex` (Bayesian logistic regression on feature differences) or `mlp` (dropout network).
        trained_stages: the last so many stages of the backbone are trained, on cached activations, with dropout in each of
            their layers; everything before stays as it was pretrained, in evaluation mode. 0 trains all of `small`,
            `densenet169` and `timm:NAME`, and nothing of `lite0` and `lite2`.
        image_size: side in pixels that images are resized to; 0 takes the backbone's own.
        components: principal components kept by the convex head.
        whitening: 0 … 1, how far the principal components are brought to equal variance.
        kernel: feature map of the convex head.
        hidden: width of the MLP head.
        dropout: p, in every weight layer.
        units: what a mask bit switches: input `channel`s (a true weight draw) or single `element`s (the authors').
        masks: `shared` by both images of a pair (P9) or `independent` (the authors').
        weight_decay: λ of P3, in the loss.
        learning_rate: Adam's.
        batch_size: pairs a step.
        epochs: at the most.
        patience: epochs without a better validation loss before stopping.
        validation_share: share of labelled pairs held out for early stopping where no validation set is given.
        warm_start: whose weights a round starts from.
        ties: a tie as an outcome of its own (`rao_kupper`) or as a 0.5 target (`half`, the paper).
        multitask: learn grades as well (P6) where images carry them.
        posterior: where uncertainty comes from; `auto` takes `laplace` for the convex head and `draws` otherwise.
        draws: T.
        screening: share of the pool that gets all T draws; 1 turns screening off.
        augment: flips, small turns and light jitter while training.
        weights: local file of pretrained weights; empty looks in the usual places; `download` may fetch them from the
            internet, which nothing does otherwise; `none` starts from random ones.
        device: `auto`, `cpu`, `cuda`, …
        precision: as Lightning Fabric names it.
        threads: CPU threads; 0 leaves the default.
        log: `none`, `csv` or `tensorboard`.
    """

    preset: Preset = "quick"
    backbone: str = "lite2"
    head: Literal["convex", "mlp"] = "convex"
    trained_stages: int = 0
    image_size: int = 0
    components: int = 128
    whitening: float = 0.0
    kernel: Literal["none", "rbf"] = "none"
    hidden: int = 128
    dropout: float = 0.2
    units: Literal["channel", "element"] = "channel"
    masks: Literal["shared", "independent"] = "shared"
    weight_decay: float = 1e-4
    learning_rate: float = 1e-3
    batch_size: int = 32
    epochs: int = 300
    patience: int = 20
    validation_share: float = 0.2
    warm_start: Literal["round0", "previous", "scratch"] = "round0"
    ties: Literal["half", "rao_kupper"] = "rao_kupper"
    multitask: bool = False
    posterior: Literal["auto", "draws", "closed_form", "laplace"] = "auto"
    draws: int = 30
    screening: float = 1.0
    augment: bool = False
    weights: str = ""
    device: str = "auto"
    precision: str = "32-true"
    threads: int = 0
    log: Literal["none", "csv", "tensorboard"] = "none"


@dataclass(frozen=True)
class AskConfig:
    """What is asked, of whom, and how much.

    Attributes:
        strategy: how pairs are chosen once there is a model.
        start: how the first pairs are chosen: `spread` over the features, or `random` (the paper).
        start_share: first pairs, as a share of the number of images.
        round_share: pairs a round, as a share of the number of images (the paper's s).
        mode: `rounds` (choose a batch, retrain) or `continuous` (every answer moves the next question).
        budget: answers after which the study is done, as a share of the number of images.
        random_share: share of pairs drawn at random and held back to estimate accuracy.
        repeat_share: share of pairs asked again, so that agreement can be measured.
        raters: different people asked about each pair.
        reselect: may images that were already compared be chosen again (the paper: yes).
        noise: PowerBALD-style Gumbel noise on the choice; 0 takes the best.
        lease_seconds: how long a handed-out pair waits for its answer.
    """

    strategy: str = "epig"
    start: Literal["spread", "random"] = "spread"
    start_share: float = 0.05
    round_share: float = 0.05
    mode: Literal["rounds", "continuous"] = "continuous"
    budget: float = 0.5
    random_share: float = 0.1
    repeat_share: float = 0.0
    raters: int = 1
    reselect: bool = True
    noise: float = 0.0
    lease_seconds: int = 900


@dataclass(frozen=True)
class PageConfig:
    """What annotators see.

    Attributes:
        question: the one question.
        grades: definition of each grade, in order, for the grading page; empty takes the catalog's grade names.
        keys: keyboard keys by action (`left`, `right`, `equal`, `cannot`, `undo`); missing ones keep their default.
        break_minutes: minutes of work after which a break is suggested; 0 never.
    """

    question: str = "Which is more severe?"
    grades: tuple[str, ...] = ()
    keys: dict[str, str] = field(default_factory=dict)
    break_minutes: int = 25


@dataclass(frozen=True)
class StudyConfig:
    """Everything about a study, one section a room.

    Attributes:
        name: what people call it.
        seed: where all chance of the study comes from.
        store: database URL; empty is `study.db` (SQLite) in the study folder.
        trainer: answers that have come in since the newest model before it is refitted.
    """

    name: str = ""
    seed: int = 0
    store: str = ""
    trainer: int = 20
    images: ImagesConfig = field(default_factory=ImagesConfig)
    ranker: RankerConfig = field(default_factory=RankerConfig)
    ask: AskConfig = field(default_factory=AskConfig)
    page: PageConfig = field(default_factory=PageConfig)

    def __post_init__(self) -> None:
        _check(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any], *, source: str = "configuration") -> StudyConfig:
        """Build from nested dictionaries, checking names and types.

        Raises:
            ConfigError: an unknown key (with the nearest known one) or a bad value.
        """
        return _build(cls, values, source, "")

    @classmethod
    def load(cls, path: Path) -> StudyConfig:
        """Read a `study.toml`.

        Raises:
            ConfigError: the file is missing, is no TOML, or holds something unknown.
        """
        try:
            text = path.read_text(encoding="utf-8")
            values = tomllib.loads(text)
        except FileNotFoundError:
            raise ConfigError(
                f"{path} does not exist; make a study with: steelyard init STUDY --images DIR"
            ) from None
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise ConfigError(
                f"{path} is not valid TOML: {error}; mend it, or restore a backup with: steelyard restore"
            ) from None
        if not text.strip(
            "\0 \t\r\n"
        ):  # what a power cut leaves of a file; as defaults it would be another study
            raise ConfigError(f"{path} is empty; restore a backup with: steelyard restore")
        return cls.from_dict(values, source=str(path))

    def to_dict(self) -> dict[str, Any]:
        """Nested plain dictionaries, as they stand in TOML and JSON."""
        values: dict[str, Any] = _plain(asdict(self))
        return values

    def save(self, path: Path) -> None:
        """Write as TOML, replacing the file in one step."""
        import tomli_w

        write_atomically(path, tomli_w.dumps(self.to_dict()))

    def with_changes(self, **sections: dict[str, Any] | Any) -> StudyConfig:
        """A copy with some keys changed: `config.with_changes(ask={"raters": 2}, seed=3)`."""
        values = self.to_dict()
        for key, change in sections.items():
            if isinstance(change, dict) and isinstance(values.get(key), dict):
                values[key] = {**values[key], **change}
            else:
                values[key] = change
        return type(self).from_dict(values)


_PRESETS: dict[str, dict[str, Any]] = {
    "quick": {},
    "features": {"backbone": "none"},
    "small": {
        "backbone": "small", "head": "mlp", "image_size": 64, "learning_rate": 1e-3, "epochs": 60, "patience": 10,
        "ties": "half",
    },
    # The last blocks of a pretrained network, trained on cached activations: features are learnt in seconds on one core.
    "tuned": {
        "backbone": "lite0", "head": "mlp", "trained_stages": 1, "image_size": 128, "hidden": 0, "dropout": 0.2,
        "learning_rate": 3e-4, "epochs": 40, "patience": 8, "posterior": "draws", "draws": 30,
        "ties": "half",
    },
    # PAPER.md, "Training details"
    "paper": {
        "backbone": "densenet169", "head": "mlp", "image_size": 224, "hidden": 0, "dropout": 0.2, "weight_decay": 1e-4,
        "learning_rate": 2e-5, "batch_size": 32, "epochs": 300, "patience": 20, "ties": "half", "draws": 30,
    },
}  # fmt: skip


def ranker_preset(preset: str, **changes: Any) -> RankerConfig:
    """The ranker settings of a preset, with some changed.

    >>> ranker_preset("paper").backbone
    'densenet169'

    Raises:
        ConfigError: no such preset, or an unknown key.
    """
    if preset not in _PRESETS:
        raise ConfigError(
            f"unknown preset {preset!r}{_nearest(preset, _PRESETS)}; there are {', '.join(_PRESETS)}"
        )
    config = _build(RankerConfig, {"preset": preset, **_PRESETS[preset], **changes}, f"preset {preset}", "")
    _check_ranker(config)
    return config


_ASK_PRESETS: dict[str, dict[str, Any]] = {
    # The paper as it is: 20% at random, six rounds of 5% by uncertainty, 50% in the end, one perfect annotator.
    "paper": {
        "strategy": "variance", "start": "random", "start_share": 0.20, "round_share": 0.05, "mode": "rounds",
        "budget": 0.5, "random_share": 0.0,
    },
    "small": {"strategy": "variance", "mode": "rounds"},
    "tuned": {"strategy": "variance", "mode": "rounds"},
}  # fmt: skip


def ask_preset(preset: str) -> AskConfig:
    """How a preset asks.

    >>> ask_preset("paper").strategy
    'variance'
    """
    return _build(AskConfig, _ASK_PRESETS.get(preset, {}), f"preset {preset}", "")


def _build(cls: type[Section], values: dict[str, Any], source: str, prefix: str) -> Section:
    hints = get_type_hints(cls)
    known = {f.name for f in fields(cls)}  # type: ignore[arg-type]
    given: dict[str, Any] = {}
    for key, value in values.items():
        if key not in known:
            raise ConfigError(f"{source}: unknown key '{prefix}{key}'{_nearest(key, known)}")
        given[key] = _value(hints[key], value, source, f"{prefix}{key}")
    return cls(**given)


def _value(hint: Any, value: Any, source: str, name: str) -> Any:
    if is_dataclass(hint):
        if not isinstance(value, dict):
            raise ConfigError(f"{source}: '{name}' is a section ([{name}]), not {value!r}")
        return _build(hint, value, source, f"{name}.")  # type: ignore[arg-type]
    origin = get_origin(hint)
    if origin is Literal:
        if value not in get_args(hint):
            choices = ", ".join(map(str, get_args(hint)))
            raise ConfigError(
                f"{source}: '{name}' is one of {choices}; not {value!r}{_nearest(str(value), get_args(hint))}"
            )
        return value
    if origin is tuple and isinstance(value, (list, tuple)) and all(isinstance(v, str) for v in value):
        return tuple(value)
    if origin is dict and isinstance(value, dict) and all(isinstance(v, str) for v in value.values()):
        return dict(value)
    if hint is float and isinstance(value, (int, float)) and not isinstance(value, bool):
        return float(value)
    if origin in (Union, types.UnionType):  # pragma: no cover - no optional keys so far
        return value
    if hint in (int, str, bool) and type(value) is hint:
        return value
    expected = {int: "a whole number", float: "a number", str: "text", bool: "true or false"}.get(
        hint, "a list or table of texts"
    )
    raise ConfigError(f"{source}: '{name}' is {expected}, not {value!r}")


def _check(config: StudyConfig) -> None:
    _check_ranker(config.ranker)
    ask = config.ask
    for name in ("start_share", "round_share", "random_share", "repeat_share"):
        share = getattr(ask, name)
        if not 0 <= share <= 1:
            raise ConfigError(f"'ask.{name}' is a share between 0 and 1, not {share}")
    if ask.budget <= 0:
        raise ConfigError(f"'ask.budget' is a share of the images above 0, not {ask.budget}")
    if ask.random_share + ask.repeat_share > 1:
        raise ConfigError("'ask.random_share' and 'ask.repeat_share' add up to more than 1")
    if ask.raters < 1:
        raise ConfigError(f"'ask.raters' is 1 or more, not {ask.raters}")
    if ask.noise < 0:
        raise ConfigError(f"'ask.noise' is 0 or more, not {ask.noise}")
    if ask.lease_seconds < 1:
        raise ConfigError(f"'ask.lease_seconds' is 1 or more, not {ask.lease_seconds}")
    if config.images.max_megapixels <= 0:
        raise ConfigError(f"'images.max_megapixels' is above 0, not {config.images.max_megapixels}")
    if config.trainer < 1:
        raise ConfigError(f"'trainer' is 1 or more answers, not {config.trainer}")
    unknown = set(config.page.keys) - {"left", "right", "equal", "cannot", "undo"}
    if unknown:
        action = sorted(unknown)[0]
        raise ConfigError(
            f"'page.keys.{action}' is no action{_nearest(action, ('left', 'right', 'equal', 'cannot', 'undo'))}; "
            "actions are left, right, equal, cannot, undo"
        )


def _check_ranker(ranker: RankerConfig) -> None:
    if not 0 <= ranker.dropout < 1:
        raise ConfigError(
            f"'ranker.dropout' is a probability of at least 0 and below 1, not {ranker.dropout}"
        )
    if not 0 < ranker.screening <= 1:
        raise ConfigError(f"'ranker.screening' is a share above 0 and up to 1, not {ranker.screening}")
    if not 0 <= ranker.validation_share < 1:
        raise ConfigError(
            f"'ranker.validation_share' is at least 0 and below 1, not {ranker.validation_share}"
        )
    if not 0 <= ranker.whitening <= 1:
        raise ConfigError(f"'ranker.whitening' is between 0 and 1, not {ranker.whitening}")
    for name in ("batch_size", "epochs", "patience", "draws", "components"):
        if getattr(ranker, name) < 1:
            raise ConfigError(f"'ranker.{name}' is 1 or more, not {getattr(ranker, name)}")
    if ranker.trained_stages < 0:
        raise ConfigError(f"'ranker.trained_stages' is 0 or more, not {ranker.trained_stages}")
    if ranker.trained_stages:
        if ranker.backbone == "none":
            raise ConfigError(
                "'ranker.trained_stages' trains the last stages of a backbone, and backbone 'none' has none; name one, as in "
                "backbone = 'lite0', or set trained_stages to 0"
            )
        if ranker.head == "convex":
            raise ConfigError(
                "'ranker.trained_stages' trains a network, and the convex head is none; set head = 'mlp', or trained_stages to 0"
            )
        if ranker.augment:
            raise ConfigError(
                "'ranker.augment' changes pixels, and 'ranker.trained_stages' learns from cached activations; set one of them"
            )
    if ranker.learning_rate <= 0:
        raise ConfigError(f"'ranker.learning_rate' is above 0, not {ranker.learning_rate}")
    if ranker.weight_decay < 0:
        raise ConfigError(f"'ranker.weight_decay' is 0 or more, not {ranker.weight_decay}")


def _nearest(word: str, known: Any) -> str:
    close = difflib.get_close_matches(word, [str(k) for k in known], n=1)
    return f" – did you mean '{close[0]}'?" if close else ""


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items()}
    if isinstance(value, tuple):
        return list(value)
    return value
