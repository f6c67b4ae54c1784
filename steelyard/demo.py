"""The whole loop on drawn images: draw, extract features, let a virtual annotator answer, train, measure.

Two ways of asking get the same number of answers from the same annotator about the same images: the study's own
strategy, and chance. What they learn is measured on patients that neither has seen. What is left behind is a study
that the page can open.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from steelyard.arrays import Floats
from steelyard.errors import ConfigError
from steelyard.progress import Progress

if TYPE_CHECKING:
    from steelyard.annotators import VirtualAnnotator
    from steelyard.config import AskConfig, ConvexConfig
    from steelyard.images.synthetic import SyntheticImages
    from steelyard.study import Study

__all__ = ["DemoResult", "run_demo"]


_ROUNDS = 10
_BLUE, _GREY = "#0072B2", "#4d4d4d"  # told apart by colour-blind eyes, and by their markers in grey
_NOISE = 0.2  # difference in severity at which the virtual annotator is right in 73% of the cases
_TEST_SEED = 1_000_003  # added to the seed: patients of the test set are other patients
_STUDY_ROUNDS = 6  # rounds that the virtual annotator plays in the study itself
_STUDY_RANDOM = 0.3  # of its pairs: enough to tell how accurate a study of so few answers is


@dataclass(frozen=True, eq=False)
class DemoResult:
    """What a demo found.

    Attributes:
        study: folder of the study that was left behind.
        images: number of images that could be asked about.
        tested: number of images of unseen patients that accuracy was measured on.
        strategy: what "asking well" was.
        answers: numbers of answers, ascending, shape (K,).
        well: accuracy of each run after so many answers, asking well, shape (runs, K).
        random: the same, asking at random.
        given: answers that the virtual annotator gave in the study.
        planned: answers that are planned there.
    """

    study: Path
    images: int
    tested: int
    strategy: str
    answers: NDArray[np.int64]
    well: Floats
    random: Floats
    given: int = 0
    planned: int = 0

    @property
    def tour(self) -> tuple[tuple[str, str], ...]:
        """What to look at on the page: three of its pages, with a line about each."""
        return (
            (
                "Compare",
                f"a pair is waiting; a virtual annotator has given {self.given} of {self.planned} planned answers, the rest are yours",
            ),
            ("Progress", "how accurate the order is, how sure that is, and what more answers would bring"),
            (
                "Ranking",
                f"all {self.images} images from least to most severe; click one, or drop another in",
            ),
        )

    @property
    def columns(self) -> tuple[str, ...]:
        """Heads of the table."""
        return "answers", "asking at random", "asking well", "difference"

    @property
    def rows(self) -> list[tuple[str, ...]]:
        """Cells of the table, a row for each number of answers."""
        gap, error = self._gap()
        return [
            (f"{n}", f"{100 * r:.1f}%", f"{100 * w:.1f}%", f"{100 * g:+.1f} ± {100 * e:.1f}")
            for n, r, w, g, e in zip(
                self.answers, self.random.mean(axis=0), self.well.mean(axis=0), gap, error, strict=True
            )
        ]

    @property
    def beats_random(self) -> bool:
        """Whether asking well is ahead over the whole curve by more than twice its standard error."""
        mean, error = self._overall()
        return mean > 2 * error

    @property
    def summary(self) -> str:
        """What was found, in a few sentences, good or bad."""
        mean, error = self._overall()
        k = min(3, len(self.answers) - 1)
        n, well, random = int(self.answers[k]), self.well.mean(axis=0), self.random.mean(axis=0)
        counted = f"{n} answers to {self.images} images order {{}} of the pairs of unseen patients right"
        facts = (
            f"{counted.format(f'{well[k]:.1%}')} when asked well ({self.strategy}), {random[k]:.1%} when asked at random; "
            f"over the whole curve {100 * mean:+.1f} ± {100 * error:.1f} points (mean of {len(self.well)} runs)."
        )
        if self.beats_random:
            reached = np.flatnonzero(random >= well[k])
            chance = (
                f"Asking at random needs {int(self.answers[reached[0]])} for that."
                if len(reached)
                else f"Asking at random does not get there with {int(self.answers[-1])}."
            )
            return f"Asking well beats asking at random: {facts} {chance}"
        if mean < -2 * error:
            return f"On these images asking well was worse than asking at random: {facts}"
        return f"On these images asking well made no clear difference: {facts}"

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values."""
        return {
            "images": self.images,
            "tested": self.tested,
            "runs": len(self.well),
            "strategy": self.strategy,
            "beats_random": self.beats_random,
            "summary": self.summary,
            "curve": [
                {"answers": int(n), "random": float(r), "well": float(w)}
                for n, r, w in zip(
                    self.answers, self.random.mean(axis=0), self.well.mean(axis=0), strict=True
                )
            ],
        }

    def plot(self, path: str | Path) -> Path:
        """Draw the two curves, with the range of the runs behind them; PNG, SVG or PDF by the ending."""
        from matplotlib.figure import Figure

        place = Path(path)
        figure = Figure(
            figsize=(5.6, 3.5), dpi=150, layout="constrained"
        )  # no pyplot: nothing global, no window
        axes = figure.add_subplot()
        curves = ((self.well, _BLUE, "o", "asking well"), (self.random, _GREY, "X", "asking at random"))
        for accuracy, color, marker, label in curves:
            mean = accuracy.mean(axis=0)
            low, high = accuracy.min(axis=0), accuracy.max(axis=0)
            axes.fill_between(self.answers, low, high, color=color, alpha=0.15, linewidth=0)
            axes.plot(self.answers, mean, color=color, marker=marker, markersize=5, linewidth=1.6)
            # The name stands at the end of its curve: no legend to look up; kept apart where the curves meet.
            other = self.random if accuracy is self.well else self.well
            lift = 5 if mean[-1] > other.mean(axis=0)[-1] else -5
            axes.annotate(
                label, (self.answers[-1], mean[-1]), xytext=(6, lift), textcoords="offset points", va="center",
                color=color, fontsize=9,
            )  # fmt: skip
        axes.set_xlabel("answers given")
        axes.set_ylabel("pairs of unseen patients ordered right")
        axes.yaxis.set_major_formatter(lambda value, _: f"{100 * value:.4g}%")
        axes.set_title(
            f"{self.images} drawn images; mean and range of {len(self.well)} runs", loc="left", fontsize=10
        )
        axes.set_xlim(0, float(self.answers[-1]) * 1.34)
        axes.set_xticks(np.unique(np.linspace(0, int(self.answers[-1]), 6).round()))
        axes.grid(color="#d5d9df", linewidth=0.6)
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
        place.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(place)
        return place

    def _gap(self) -> tuple[Floats, Floats]:
        """Mean difference after so many answers, and its standard error over the runs."""
        gap = self.well - self.random
        return gap.mean(axis=0), gap.std(axis=0, ddof=1) / np.sqrt(len(gap))

    def _overall(self) -> tuple[float, float]:
        gap = (self.well - self.random).mean(axis=1)
        return float(gap.mean()), float(gap.std(ddof=1) / np.sqrt(len(gap)))


def run_demo(
    folder: str | Path,
    *,
    images: int = 300,
    size: int = 96,
    seed: int = 0,
    runs: int = 20,
    progress: Progress | None = None,
) -> DemoResult:
    """Run the loop on drawn images and compare asking well with asking at random.

    Args:
        folder: gets `images/` (PNGs and labels.csv) and `study/` (a study that knows some answers).
        images: how many may be asked about; half as many more are drawn of other patients to test on.
        size: side in pixels, of the drawing and of what the network sees.
        seed: same seed, same figures.
        runs: how often each way of asking is tried, with different luck.
        progress: called as progress(done, total, text).

    Returns:
        Curves, table, plot and the study's folder.

    Raises:
        ConfigError: fewer than 40 images or two runs.
        StudyError: there is a study in the folder already.
    """
    from steelyard.annotators import NoisyAnnotator
    from steelyard.images.synthetic import draw
    from steelyard.loop.policy import Policy
    from steelyard.ranker.features import extract

    if images < 40:
        raise ConfigError(f"'images' is 40 or more, not {images}: fewer show nothing")
    if runs < 2:
        raise ConfigError(f"'runs' is 2 or more, not {runs}: one has no error bar")
    tell = progress or (lambda done, total, text: None)
    place = Path(folder)
    _refuse_used(place)
    drawn = draw(images, size=size, seed=seed, progress=tell)
    # Equally many of each grade, so that a pair of test images is as likely to be 2 against 3 as 0 against 1.
    test = draw(max(images // 2, 40), size=size, seed=seed + _TEST_SEED, shares=(0.25,) * 4, progress=tell)
    with _make_study(place, drawn, size=size, seed=seed, progress=tell) as study:
        order = [int(Path(path).stem.rpartition("-")[2]) for path in map(str, study.catalog.paths)]
        annotator = NoisyAnnotator(drawn.severity[order], scale=_NOISE)
        features = np.asarray(study.inputs(tell))
        ranker, ask = study.config.ranker, study.config.ask
        assert ranker.kind == "convex"  # the quick preset
        unseen = extract(
            test.images, backbone=ranker.backbone, image_size=ranker.image_size, recipe=ranker.recipe,
            progress=lambda done, total, text: tell(done, total, "features of unseen patients"),
        )  # fmt: skip
        race = _Race(features, unseen, test, annotator, ranker, seed)
        rounds = {"mode": "rounds", "random_share": 0.0, "start_share": ask.round_share}
        ways = {
            "well": study.config.with_changes(ask=rounds).ask,
            "random": study.config.with_changes(ask={**rounds, "start": "random", "strategy": "random"}).ask,
        }
        schedule = Policy(ways["well"], images).schedule
        answers = np.array([schedule.total(number) for number in range(_ROUNDS)])
        found: dict[str, list[Floats]] = {way: [] for way in ways}
        for run in range(runs):
            for k, (way, curves) in enumerate(found.items()):
                tell(2 * run + k, 2 * runs, "asking and training")
                curves.append(race.run(_ROUNDS, ways[way], run))
        tell(2 * runs, 2 * runs, "asking and training")
        given = _play(study, annotator)
        planned = study.budget
    well, random = (np.stack(curves) for curves in found.values())
    strategy = f"{ask.start} start, then {ask.strategy}"
    return DemoResult(place / "study", images, len(test), strategy, answers, well, random, given, planned)


class _Race:
    """One pool, one annotator, one test set; ways of asking compete on them."""

    def __init__(
        self,
        features: NDArray[np.floating],
        unseen: NDArray[np.floating],
        test: SyntheticImages,
        annotator: VirtualAnnotator,
        ranker: ConvexConfig,
        seed: int,
    ) -> None:
        from steelyard.evaluate.accuracy import overall_pairs
        from steelyard.ranker.learner import Learner

        pool = np.arange(len(features))
        self.learner = Learner(ranker, np.concatenate([features, unseen]), pool=pool)
        self.features, self.unseen = features, len(features) + np.arange(len(unseen))
        self.grades = test.grades
        self.pairs = overall_pairs(test.grades, at_least=4000, rng=np.random.default_rng([seed, 0]))
        self.annotator, self.seed = annotator, seed

    def run(self, rounds: int, ask: AskConfig, run: int) -> Floats:
        """Accuracy after each round, shape (K,), asked in this way."""
        from steelyard.evaluate.accuracy import correct
        from steelyard.loop.chance import Chance
        from steelyard.loop.policy import Policy
        from steelyard.loop.trial import Trial

        policy = Policy(ask, len(self.features))
        trial = Trial(
            policy, Chance(self.seed, fold=run), self.learner, self.annotator, lambda: self.features
        )
        found = []
        for number in range(rounds):
            trial.answer(trial.choose(number))
            ranker = trial.learn()
            trial.believe(self.learner.posterior(ranker, rows=trial.pool))
            scores = self.learner.posterior(ranker, rows=self.unseen).mean
            found.append(float(correct(scores, self.grades, self.pairs).mean()))
        return np.array(found)


def _refuse_used(place: Path) -> None:
    from steelyard.errors import StudyError
    from steelyard.study.making import check_place

    if (place / "study" / "study.toml").exists():
        raise StudyError(f"{place / 'study'} is a study already; choose another folder for the demo")
    check_place(place / "study")


def _make_study(place: Path, drawn: SyntheticImages, *, size: int, seed: int, progress: Progress) -> Study:
    from steelyard.images.catalog import Catalog
    from steelyard.images.synthetic import write
    from steelyard.study import Study

    table = write(place / "images", drawn, progress=progress)
    catalog = Catalog.from_csv(table, table.parent)
    # The smaller network at the size of the drawing: a demo is to be over soon.
    ranker = {"backbone": "lite0", "image_size": size}
    pictures = {"root": str(table.parent.resolve()), "layout": "csv", "labels": str(table.resolve())}
    return Study.create(
        place / "study", catalog, preset="quick", name="demo", seed=seed, ranker=ranker, images=pictures,
        ask={"random_share": _STUDY_RANDOM},
    )  # fmt: skip


def _play(study: Study, annotator: VirtualAnnotator) -> int:
    """A few rounds in the study itself, so that its page has something to show; gives the number of answers.

    The next pairs are put up as well: the page opens on one of them, however busy the machine is with whoever chooses more.
    """
    from steelyard.loop.policy import AHEAD

    given = 0
    for _ in range(_STUDY_ROUNDS):
        study.propose()
        given += study.simulate(annotator, name="virtual annotator")
        study.fit()
    study.propose(2 * AHEAD)
    return given
