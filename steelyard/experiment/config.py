"""What an experiment is: data, methods, folds, seeds, and the paper's r, s, K and T."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, Literal

from numpy.typing import ArrayLike

from steelyard.config import Preset, RankerConfig, ranker_preset
from steelyard.errors import ConfigError, did_you_mean
from steelyard.options import parse_options

if TYPE_CHECKING:
    from steelyard.annotators import VirtualAnnotator

__all__ = ["ExperimentConfig", "Method", "parse_method"]

SINGLE = ("baseline", "all", "conventional")  # one training, no rounds
# May differ when a run is taken up again: more of the same, or another place. What the data is, its fingerprint says.
_GROWS = ("methods", "seeds", "only_folds", "jobs", "engine", "images", "labels", "features")


@dataclass(frozen=True)
class ExperimentConfig:
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
        s: pairs a round, in % of the training images.
        rounds: K, rounds after the first.
        draws: T; only `draws` posteriors use it.
        start: how the first pairs are chosen.
        annotator: who answers, with options after colons: `perfect`, `noisy:scale=0.5`, … (`steelyard.annotators`).
        reselect: may images that were already compared be chosen again.
        classify: also learn grades and report classification; None does so where it costs nothing (convex head).
        test_pairs: at least this many overall test pairs, at most this many of each neighbour.
        near_duplicates: keep near-duplicate images in one set.
        split_seed: how the folds are dealt.
        engine: where cells run.
        jobs: cells at a time; 0 takes one a core.
    """

    images: str = ""
    layout: Literal["folder", "grades", "csv", "limuc", "hyperkvasir", "medmnist", "features"] = "grades"
    labels: str = ""
    features: str = ""
    methods: tuple[str, ...] = ("baseline", "all", "random", "ubs", "coreset", "epig")
    folds: int = 5
    only_folds: tuple[int, ...] = ()
    seeds: int = 3
    preset: Preset = "quick"
    ranker: dict[str, Any] = field(default_factory=dict)
    r: float = 20.0
    s: float = 5.0
    rounds: int = 6
    draws: int = 30
    start: Literal["random", "spread"] = "random"
    annotator: str = "perfect"
    reselect: bool = True
    classify: bool | None = None
    test_pairs: int = 1000
    near_duplicates: bool = True
    split_seed: int = 0
    engine: Literal["local", "ray"] = "local"
    jobs: int = 0

    def __post_init__(self) -> None:
        for name in ("methods", "only_folds"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        if not self.methods:
            raise ConfigError("no methods given; for example --methods baseline,all,random,ubs")
        if len(set(self.methods)) != len(self.methods):
            twice = next(m for m in self.methods if self.methods.count(m) > 1)
            raise ConfigError(f"method '{twice}' is named twice; name each once")
        for name, known in (("engine", ("local", "ray")), ("start", ("random", "spread"))):
            if getattr(self, name) not in known:
                raise ConfigError(f"{name} is {' or '.join(known)}, not '{getattr(self, name)}'")
        if self.folds < 3:
            raise ConfigError(f"train, validation and test need at least 3 folds, not {self.folds}")
        if bad := [f for f in self.only_folds if not 0 <= f < self.folds]:
            raise ConfigError(f"--only-folds names fold {bad[0]}; folds are 0 … {self.folds - 1}")
        if self.seeds < 1:
            raise ConfigError(f"at least one seed is needed, not {self.seeds}")
        if not (0 < self.r <= 100 and 0 < self.s <= 100 and self.rounds >= 0):
            raise ConfigError(
                f"r and s are percentages above 0 and rounds is 0 or more, not r={self.r:g}, s={self.s:g}, rounds={self.rounds}"
            )
        if self.test_pairs < 1 or self.draws < 1 or self.jobs < 0:
            raise ConfigError(
                f"test pairs and draws are 1 or more and jobs 0 or more, not {self.test_pairs}, {self.draws} and {self.jobs}"
            )
        for spec in self.methods:
            parse_method(spec, self)
        self.make_annotator([0, 1])

    def ranker_config(self, **changes: Any) -> RankerConfig:
        """The ranker's settings, with some changed; `features` given as input need no backbone."""
        start = {"backbone": "none"} if self.features and self.preset == "quick" else {}
        return ranker_preset(self.preset, **{**start, "draws": self.draws, **self.ranker, **changes})

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

    def to_dict(self) -> dict[str, Any]:
        """Plain values, as they stand in JSON."""
        values = asdict(self)
        return {key: list(value) if isinstance(value, tuple) else value for key, value in values.items()}

    def fixed(self) -> dict[str, Any]:
        """What has to be the same for two runs to share a folder; methods, seeds and folds may be added."""
        return {key: value for key, value in self.to_dict().items() if key not in _GROWS}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> ExperimentConfig:
        """What `to_dict` gave.

        Raises:
            ConfigError: an unknown key.
        """
        known = {f.name for f in fields(cls)}
        for key in values:
            if key not in known:
                raise ConfigError(f"unknown experiment setting '{key}'{did_you_mean(key, known)}")
        return cls(**values)

    def with_changes(self, **changes: Any) -> ExperimentConfig:
        """A copy with some fields changed."""
        return replace(self, **changes)


@dataclass(frozen=True)
class Method:
    """One method of an experiment.

    Attributes:
        spec: as it was written; its name in results.
        name: `baseline`, `all`, `conventional` or a strategy.
        start: how the first pairs are chosen.
        r: first pairs in %.
        s: pairs a round in %.
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
    ranker_fields = {f.name for f in fields(RankerConfig)}
    ranker = {key: options.pop(key) for key in list(options) if key in ranker_fields}
    start = str(options.pop("start", config.start))
    if start not in ("random", "spread"):
        raise ConfigError(f"start in method '{spec}' is random or spread, not '{start}'")
    r, s = float(options.pop("r", config.r)), float(options.pop("s", config.s))
    if not (0 < r <= 100 and 0 < s <= 100):
        raise ConfigError(f"r and s in method '{spec}' are percentages above 0, not {r:g} and {s:g}")
    total = config.r + config.s * config.rounds
    rounds = int(options.pop("k", max(0, round((total - r) / s))))
    if name in SINGLE and options:
        raise ConfigError(f"'{name}' asks everything at once and takes no option '{next(iter(options))}'")
    config.ranker_config(**ranker)
    return Method(spec, name, start, r, s, 0 if name in SINGLE else rounds, options, ranker)


def _check_name(name: str) -> None:
    from steelyard.acquire import get_strategy
    from steelyard.errors import AcquireError

    if name in SINGLE:
        return
    try:
        get_strategy(name)
    except AcquireError as error:
        raise ConfigError(f"{error}; methods without rounds are {', '.join(SINGLE)}") from None
