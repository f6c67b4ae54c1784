"""The card of a model that has just been trained: what the trainer knows of it, gathered and put into words."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from datetime import datetime, timezone
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from steelyard.arrays import Rows
from steelyard.config import RankerConfig
from steelyard.errors import RankerError
from steelyard.ranker.left_out import predicted
from steelyard.ranker.posterior import Posterior
from steelyard.ranker.temper import Temper
from steelyard.store.records import AnswerArrays
from steelyard.store.told import WHEN
from steelyard.study.domain import read_check
from steelyard.study.grading import group_numbers, honest_scale
from steelyard.study.judging import said_by
from steelyard.study.wording import questions_asked, read_wordings
from steelyard.trust import card as cards
from steelyard.trust.limits import limits

if TYPE_CHECKING:
    from steelyard.study.inputs import Inputs
    from steelyard.study.study import Study

__all__ = ["write_card"]

_PACKAGES = ("numpy", "scipy", "torch")
_FEW = 30  # random answers below which a calibration says next to nothing
_MOST_GRADED = 500  # images that the grades of a card are measured on; more would keep the trainer waiting
_LEVEL = 0.9

ACCURACY = (
    "Two different images are drawn at random from the pool, and one of the people who answered here decides for a side: how often "
    "the model orders them alike. Pairs that they find equal are left out."
)


def write_card(
    folder: Path,
    study: Study,
    *,
    round: int,
    posterior: Posterior,
    answers: AnswerArrays,
    taught: NDArray[np.float64] | None,
    seen: Inputs,
    metrics: Mapping[str, Any],
) -> None:
    """Write `card.json` into the folder of a model that is about to be published.

    Args:
        folder: where it is made.
        study: whose model it is.
        round: its number.
        posterior: of the study's images.
        answers: about the images that are not left out.
        taught: grades that it has learnt, NaN where none; None where it learnt none.
        seen: what it saw of the images.
        metrics: figures of the training.
    """
    ranker = study.config.ranker
    excluded = study.store.images.excluded_rows()
    gone = np.union1d(seen.absent, excluded).astype(np.int64)
    data, made = _data(study, seen, excluded), _ranker(ranker)
    said = _answers(study, answers, metrics)
    accuracy = _accuracy(metrics, answers)
    grades = _grades(study, posterior, answers, gone, taught)
    domain = _domain(folder, len(study.catalog))
    cards.save_card(
        folder,
        cards.Card(
            purpose=cards.PURPOSE.format(order=study.config.page.words.order), study=study.config.name, round=round, made=datetime.now(timezone.utc).isoformat(timespec="seconds"),
            data=data, answers=said, ranker=made, accuracy=accuracy,
            calibration=_calibration(posterior, answers, convex=ranker.kind == "convex", seed=study.config.seed),
            grades=grades, domain=domain, limits=limits(data, said, accuracy, grades, made),
            seed=study.config.seed, versions=_versions(),
        ),
    )  # fmt: skip


def _data(study: Study, seen: Inputs, excluded: Rows) -> cards.DataPart:
    catalog = study.catalog
    total, used = len(catalog), len(catalog) - len(np.union1d(seen.absent, excluded))
    known, names = study.known_grades(), study.grade_names
    counts = {
        names[g] if g < len(names) else str(g): int((known == g).sum()) for g in np.unique(known[known >= 0])
    }  # fmt: skip
    groups = None if catalog.groups is None else len(np.unique(group_numbers(catalog)))
    words = f"{total:,} images" + (
        f" of {groups:,} groups (patients)." if groups else "; no groups (patients) are known."
    )
    if used < total:
        waiting = f"{len(seen.waiting):,} were not computed yet, " if len(seen.waiting) else ""
        words += f" {total - used:,} were left out: {waiting}{len(seen.unreadable):,} could not be read, {len(excluded):,} were excluded."
    if counts:
        words += f" {sum(counts.values()):,} have a known grade."
    return cards.DataPart(
        words=words, images=total, used=used, unreadable=len(seen.unreadable), excluded=len(excluded), groups=groups,
        graded=sum(counts.values()), grades=counts, kind=catalog.kind, fingerprint=catalog.fingerprint(),
    )  # fmt: skip


def _answers(study: Study, answers: AnswerArrays, metrics: Mapping[str, Any]) -> cards.AnswersPart:
    count = len(answers)
    names = [answers.annotators[code] for code in np.unique(answers.annotator)]
    equal, unable = int((answers.labels == 0.5).sum()), int(np.isnan(answers.labels).sum())
    pairs = len(np.unique(answers.pair))
    learnt, random = int(metrics.get("answers", 0)), int(answers.reserved.sum())
    words = (
        f"{_many(len(names), 'person', 'people')} gave {_many(count, 'answer')} about {_many(pairs, 'pair')}; the model learnt from "
        f"{learnt:,} of them. {equal:,} said that two images are equal, {unable:,} that they could not judge. "
        f"{random:,} were about pairs drawn at random."
    )
    asked: dict[str, int] = {}
    for one in questions_asked(read_wordings(study.store), study.store.answers.told(*WHEN), answers.seq):
        asked[one.question] = asked.get(one.question, 0) + one.answers
    if len(asked) > 1:
        words += f" The question was worded in {len(asked)} ways; all answers count alike."
    return cards.AnswersPart(
        words=words, question=study.config.page.question, questions=asked, count=count, learnt=learnt, pairs=pairs, people=len(names),
        virtual=sum(name.startswith("virtual-") for name in names), equal=equal, cannot_judge=unable,
        repeats=int((answers.repeat > 0).sum()), random=random,
        first_at=float(answers.answered_at.min()) if count else None,
        last_at=float(answers.answered_at.max()) if count else None,
    )  # fmt: skip


def _ranker(config: RankerConfig) -> cards.RankerPart:
    settings = config.to_dict()
    weights = str(settings.get("weights", ""))
    if weights not in ("", "none", "download"):
        weights = Path(
            weights.replace("\\", "/")
        ).name  # where it lies on somebody's disk is nobody's business
    settings["weights"] = weights
    encoder = config.backbone
    seen = "features that were given" if encoder == "none" else f"features of the encoder {encoder}"
    if config.kind == "convex":
        words = f"Bayesian logistic regression on differences of {seen}; the features stay as they are."
    else:
        words = f"A network with dropout on {seen}."
    return cards.RankerPart(
        words=words, kind=config.kind, encoder=encoder, weights=weights, settings=settings
    )


def _accuracy(metrics: Mapping[str, Any], answers: AnswerArrays) -> cards.AccuracyPart:
    estimate, low, high = (_number(metrics.get(key)) for key in ("accuracy", "accuracy_low", "accuracy_high"))
    decided = answers.reserved & (answers.labels != 0.5) & ~np.isnan(answers.labels)
    pairs = int(metrics.get("accuracy_pairs") or len(np.unique(answers.pair[decided])))
    if estimate is None:
        return cards.AccuracyPart(
            words=f"Not known yet: {_many(pairs, 'random pair')} with a decided answer say too little.", what=ACCURACY, pairs=pairs
        )  # fmt: skip
    if low is None or high is None:
        from steelyard.trust.accuracy import share_interval

        low, high = share_interval(estimate, max(pairs, 1))
    return cards.AccuracyPart(
        words=f"About {estimate:.0%} of unseen pairs are ordered as people order them (95% interval {low:.0%}–{high:.0%}).",
        what=ACCURACY, estimate=estimate, low=low, high=high, pairs=pairs,
    )  # fmt: skip


def _calibration(
    posterior: Posterior, answers: AnswerArrays, *, convex: bool, seed: int
) -> cards.CalibrationPart:
    from steelyard.trust.pair_calibration import pair_calibration

    drawn = answers.reserved & ~np.isnan(answers.labels)
    # A pair counts once, however many answered it: their answers are not independent.
    each, place = np.unique(answers.pair[drawn], return_inverse=True)
    if len(each) < _FEW:
        return cards.CalibrationPart(
            words=f"Not known yet: {_many(len(each), 'random pair')} that were judged say too little; {_FEW} are needed.",
            pairs=len(each),
        )  # fmt: skip
    first = np.unique(place.reshape(-1), return_index=True)[1]
    labels = np.bincount(place.reshape(-1), answers.labels[drawn]) / np.bincount(place.reshape(-1))
    pairs = answers.pairs[drawn]
    if convex:  # it has learnt from them
        mean, variance = predicted(posterior, pairs, answers.labels[drawn], said_by(answers)[drawn])
        stated = (posterior.temper or Temper(1.0, posterior.tau)).outcomes(mean, variance)
    else:
        stated = posterior.outcomes(pairs)
    result = pair_calibration(stated[first], labels, np.random.default_rng([seed, len(labels)]))
    return cards.CalibrationPart(
        words=(
            f"On {_many(result.pairs, 'random pair')} the likelier side was stated with {result.stated:.0%} on average and was chosen in "
            f"{result.observed:.0%} (95% interval {result.low:.0%}–{result.high:.0%}; a tie counts half). The calibration error is "
            f"{result.ece:.2f}; perfect probabilities would show {result.ece_by_chance:.2f} with so few pairs."
        ),
        **result._asdict(),
    )  # fmt: skip


def _grades(
    study: Study, posterior: Posterior, answers: AnswerArrays, gone: Rows, taught: NDArray[np.float64] | None
) -> cards.GradesPart:
    from steelyard.trust.grade_sets import sentence

    names, known = list(study.grade_names), study.known_grades()
    known[gone] = -1
    rows = np.flatnonzero(known >= 0)
    if len(np.unique(known[rows])) < 2:
        return cards.GradesPart(
            words="Scores were not turned into grades: images of two or more grades have to be known.",
            names=names,
        )
    if len(rows) > _MOST_GRADED:
        rows = np.sort(np.random.default_rng(study.config.seed).choice(rows, _MOST_GRADED, replace=False))
    try:
        scale = honest_scale(
            posterior, rows, known[rows], len(names), group_numbers(study.catalog), answers,
            convex=study.config.ranker.kind == "convex", taught=taught,
        )  # fmt: skip
    except RankerError as error:  # a model is worth having without
        return cards.GradesPart(words=f"Scores were not turned into grades: {error}.", names=names)
    vouched = bool(np.isfinite(scale.reach_of(_LEVEL)))
    shown = np.setdiff1d(np.arange(len(study.catalog)), gone)
    said = scale.predict(posterior.mean[shown], np.sqrt(posterior.variance[shown]), level=_LEVEL)
    nearest = [share for far, share in zip(scale.reach, scale.shares, strict=True) if far == 0.0]
    # Shares leave room for one group that nobody has seen; what was seen is counted without it.
    exact = nearest[-1] * (scale.groups + 1) / scale.groups if vouched and nearest else None
    return cards.GradesPart(
        words=sentence(scale, _LEVEL), names=names, images=len(rows), groups=scale.groups, level=_LEVEL if vouched else None,
        size=float((said.high - said.low + 1).mean()), exact=exact,
    )  # fmt: skip


def _domain(folder: Path, images: int) -> cards.DomainPart:
    from steelyard.ranker.domain import ALPHA

    check = read_check(folder, images)
    if check.note:
        return cards.DomainPart(words=f"Not checked: {check.note}.")
    flagged = int(sum(bool(off) for off in check.off_N if off is not None))
    return cards.DomainPart(
        words=(
            f"New images that do not look like the study's are flagged; so are, by chance, {ALPHA:.0%} of those that do. "
            f"{_many(flagged, 'image')} of the study {'is' if flagged == 1 else 'are'} unlike the others."
        ),
        checked=True, flagged=flagged, false_alarms=ALPHA,
    )  # fmt: skip


def _versions() -> dict[str, str | None]:
    from steelyard import __version__

    found: dict[str, str | None] = {"steelyard": __version__, "python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = None
    return found


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and np.isfinite(value) else None


def _many(n: int, one: str, more: str = "") -> str:
    return f"{n:,} {one if n == 1 else more or f'{one}s'}"
