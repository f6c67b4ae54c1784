"""What a study knows about its images: scores and grades of the newest model that can be read, and how right they are."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from steelyard.arrays import Rows
from steelyard.errors import ImageError, StudyError, command
from steelyard.images.catalog import Catalog
from steelyard.loop.chance import Purpose
from steelyard.progress import Progress
from steelyard.ranker.inputs import read_inputs
from steelyard.ranker.ranker import Ranker
from steelyard.store.records import Model
from steelyard.study.domain import add_domain, measure, read_check
from steelyard.study.grading import grade_table, study_scale
from steelyard.study.judging import judges_of
from steelyard.study.learning import answers_about, estimate, predictions_of, some_answers
from steelyard.study.models import (
    learnt_reserved,
    load_absent,
    load_predictions,
    load_unreadable,
    usable_model,
    usable_ranker,
)
from steelyard.study.scales import (
    QuestionsReport,
    add_scales,
    further_judges,
    of_question,
    place_on_scales,
    questions_report,
    scales_of,
    units_of,
)
from steelyard.study.scores import score_table, spread_over_scores
from steelyard.trust.accuracy import NOTHING
from steelyard.trust.stopping import AccuracyEstimate, Pace, advise

if TYPE_CHECKING:
    import pandas as pd

    from steelyard.ranker.grades import GradeScale
    from steelyard.ranker.posterior import Posterior
    from steelyard.study.belief import Belief
    from steelyard.study.study import Study

__all__ = ["Knowledge"]

_AT_WORK_SECONDS = 900.0  # without an answer for a quarter of an hour, somebody is not counted on


class Knowledge:
    """Scores, grades and accuracy; `Study` says what each of them is.

    Args:
        study: what is known about.
        belief: its belief, which may have read the newest model already.
    """

    def __init__(self, study: Study, belief: Belief) -> None:
        self._study, self._belief = study, belief

    def score(
        self, folder: str | Path | None, *, answers_alone: bool, question: str | None, progress: Progress | None = None
    ) -> pd.DataFrame:  # fmt: skip
        """Of the study's images or of others, by the model and, if wanted, by the answers alone."""
        from steelyard.study.answers_alone import beside_the_model

        if folder is not None and answers_alone:
            raise StudyError(
                f"nobody has answered about the images of {folder}; answers alone score the study's own images only"
            )
        if folder is not None:
            return self.scores_of(folder, progress, question)
        if not answers_alone:
            return self.scores(progress, question)
        if question:
            raise StudyError(
                f"answers alone score the main question, not {question!r}; leave the question out"
            )
        self._study.follow()
        known = self._study.store.models.newest() is not None
        return beside_the_model(self._study, self.scores(progress, question) if known else None)

    def scores(self, progress: Progress | None = None, question: str | None = None) -> pd.DataFrame:
        """Of the study's images: on every scale, or in full on that of one question."""
        study = self._study
        study.follow()
        posterior, absent = self._scored(progress)
        left_out = self._out(absent)
        if question is not None:
            posterior = of_question(study, self._usable()[0], posterior, question)
        table = score_table(study.catalog, posterior, left_out=left_out)
        if question is None and study.config.questions:
            rows = np.setdiff1d(np.arange(len(posterior)), left_out)
            places = np.searchsorted(rows, study.catalog.rows_of(table["image"].tolist()))
            add_scales(table, scales_of(study, self._usable()[0], posterior, rows), places)
        return self._with_domain(table, absent)

    def questions(self) -> QuestionsReport:
        """The questions, their scales, and how these go together."""
        study = self._study
        study.follow()
        if study.store.models.newest() is None:
            return questions_report(study, None, [])
        model, posterior = self._usable()
        rows = np.setdiff1d(np.arange(len(posterior)), self._out(self._absent(model)))
        return questions_report(study, model, scales_of(study, model, posterior, rows))

    def scores_of(
        self, folder: str | Path, progress: Progress | None = None, question: str | None = None
    ) -> pd.DataFrame:
        """Of images that need not belong to the study."""
        study, images = self._study, self._study.config.images
        catalog = Catalog.from_folder(
            folder, check=True, on_error=images.on_error, max_megapixels=images.max_megapixels,
            originals=study.catalog.originals, progress=progress,
        )  # fmt: skip
        model, ranker = self._newest_ranker()
        inputs = read_inputs(catalog, ranker.config, cache=study.folder / "cache", progress=progress)
        posterior = ranker.posterior(inputs, progress=progress)
        if question is not None:
            posterior = of_question(study, model, posterior, question, strangers=True)
        table = score_table(catalog, posterior)
        if question is None and study.config.questions:
            rows, own = np.arange(len(posterior)), self._usable()[1]
            known = np.setdiff1d(np.arange(len(own)), self._out(self._absent(model)))
            places = catalog.rows_of(table["image"].tolist())
            theirs = scales_of(study, model, posterior, rows, strangers=True)
            add_scales(table, theirs, places, units_of(scales_of(study, model, own, known)))
        table = add_domain(table, catalog, measure(study.folder / model.path, inputs))
        table.attrs["without_score"] = [str(bad) for bad in catalog.report.bad]
        return table

    def place(self, rgb: NDArray[np.uint8]) -> dict[str, Any]:
        """Where a picture falls among the study's images, and whether it is one of their kind."""
        self._study.follow()
        made, ranker = self._newest_ranker()
        inputs = read_inputs(rgb[None], ranker.config)
        posterior, check = ranker.posterior(inputs), measure(self._study.folder / made.path, inputs)
        unlike, off = check.at(0)
        score = float(posterior.mean[0])
        model, newest = self._usable()
        others = np.delete(newest.mean, self._out(self._absent(model)))
        return {
            "score": score,
            "uncertainty": float(np.sqrt(posterior.variance[0])),
            "rank": int((others > score).sum()) + 1,
            "scales": self._placed(made, posterior),
            "unlike": unlike,
            "off_domain": off,
            "domain_note": check.note,
        }

    def _placed(self, model: Model, posterior: Posterior) -> dict[str, tuple[float, float]]:
        """Score and uncertainty of one picture on the further scales and their composite, by key."""
        study = self._study
        if not study.config.questions:
            return {}
        own = self._usable()[1]
        known = np.setdiff1d(np.arange(len(own)), self._out(self._absent(model)))
        placed = scales_of(study, model, posterior, np.arange(1), strangers=True)
        return place_on_scales(placed, units_of(scales_of(study, model, own, known)))

    def grades(self, method: str) -> pd.DataFrame:
        """Scores turned into grades."""
        study = self._study
        study.follow()
        posterior, absent = self._scored()
        table = grade_table(
            study.catalog, posterior, self.grade_scale(method), study.grade_list, study.known_grades(), self._out(absent)
        )  # fmt: skip
        return self._with_domain(table, absent)

    def grade_scale(self, method: str) -> GradeScale:
        """The calibration from scores to grades."""
        posterior, absent = self._scored()
        return study_scale(self._study, self._usable()[0], posterior, self._out(absent), method)

    def suggest_grading(self, n: int) -> list[str]:
        """Images whose grade would help most."""
        study, state = self._study, self._belief.refresh().state
        known = study.known_grades()[
            : state.taken.size
        ]  # images that join this very moment are for the next look
        free = np.setdiff1d(np.flatnonzero(known < 0), self._out(self._belief.absent))
        if state.posterior is None:
            chosen = study.chance.rng(Purpose.GRADING).permutation(free)[:n]
        else:
            chosen = spread_over_scores(
                state.posterior, free, n, study.chance.rng(Purpose.GRADING, len(free))
            )
        return [str(study.catalog.ids[row]) for row in chosen]

    def accuracy(self) -> AccuracyEstimate:
        """How many unseen pairs are ordered right, and whether to stop."""
        study = self._study
        study.follow()
        models, answers = study.store.models.all(), study.store.answers.lessons()
        found = NOTHING
        if models:
            model, posterior = self._usable()
            left_out = self._out(self._absent(model))
            counted = answers_about(answers, left_out)
            predictions = load_predictions(study.folder / model.path)
            if predictions is None:  # of a model of 0.1: by the answers that were there when it was made
                learnt = some_answers(counted, counted.seq <= model.comparisons_seq)
                predictions = predictions_of(
                    study, posterior, learnt, left_out, learns_reserved=learnt_reserved(model)
                )
            found = estimate(posterior, predictions.without(left_out), counted)
        return advise(
            found, answers=study.store.answers.count(), budget=study.budget, enough=study.config.ask.stopping,
            models=[m.metrics for m in models], pace=self._pace(),
        )  # fmt: skip

    def _pace(self) -> Pace:
        """How fast those answer who were at work when the last answer came."""
        counts = [c for c in self._study.store.answers.by_annotator() if c.last_at is not None]
        last = max((c.last_at for c in counts if c.last_at is not None), default=0.0)
        there = [c for c in counts if c.last_at is not None and last - c.last_at < _AT_WORK_SECONDS]
        paces = [c.seconds for c in there if c.seconds is not None]
        return Pace(float(np.median(paces)) if paces else np.nan, max(1, len(there)))

    def agreement(self) -> dict[str, Any]:
        """How well answers agree, and how reliable everybody is."""
        from steelyard.evaluate.consistency import consistency
        from steelyard.study.agreement import answered_of, reliability_of

        posterior = self._belief.refresh().state.posterior
        told = answered_of(self._study, self._study.store.answers.arrays())
        agreed = consistency(
            told.pairs, told.labels, told.annotator, list(told.annotators), told.left_first,
            None if posterior is None else posterior.difference(told.pairs)[0],
        )  # fmt: skip
        judges = judges_of(None if posterior is None else posterior.panel)
        further = further_judges(self._study, self._belief.model)
        figures = reliability_of(self._study, told).to_dict()
        return {**agreed, **figures, "judges": judges, **({"further judges": further} if further else {})}

    def left_out(self) -> list[str]:
        """Paths of the images that have no score."""
        return [str(self._study.catalog.paths[row]) for row in self._out(self.absent())]

    def absent(self) -> Rows:
        """Rows that the newest model knows nothing of; before there is one, none."""
        if self._study.store.models.newest() is None:
            return self._belief.absent
        return self._absent(self._usable()[0])

    def unreadable(self) -> Rows:
        """Those of them that could not be read, not those that joined later or whose turn had not come."""
        if self._study.store.models.newest() is None:
            return self._belief.absent
        return load_unreadable(self._study.folder / self._usable()[0].path)

    def _absent(self, model: Model) -> Rows:
        return load_absent(self._study.folder / model.path, images=len(self._study.catalog))

    def _out(self, absent: Rows) -> Rows:
        return np.union1d(absent, self._study.store.images.excluded_rows()).astype(np.int64)

    def _scored(self, progress: Progress | None = None) -> tuple[Posterior, Rows]:
        """The newest model's scores and the rows it has none for; images that can be read again are scored now."""
        model, posterior = self._usable()
        absent = self._absent(model)
        if not any(self._readable(int(row)) for row in absent):
            return posterior, absent
        seen = self._study.seen(progress)
        again = self._ranker().posterior(seen.rows, progress=progress)
        return again.with_effects(posterior.effects), seen.absent

    def _readable(self, row: int) -> bool:
        try:
            self._study.catalog.read_small(row, 1)
        except ImageError:
            return False
        return True

    def _usable(self) -> tuple[Model, Posterior]:
        """The newest model that can be read, as the belief has it or from its folder."""
        newest, belief = self._newest(), self._belief
        model, start = belief.model, belief.start
        images = len(self._study.catalog)
        if belief.announced == newest.id and model and start is not None and len(start) == images:
            return model, start
        return usable_model(self._study.folder, self._study.store, images=images)

    def _newest(self) -> Model:
        newest = self._study.store.models.newest()
        if newest is None:
            raise StudyError(f"there is no model yet; train one with: {command('train', self._study.folder)}")
        return newest

    def _with_domain(self, table: pd.DataFrame, absent: Rows) -> pd.DataFrame:
        """How unlike the others each of the study's images is; those that can be read again are measured now."""
        study, folder = self._study, self._study.folder / self._usable()[0].path
        check = read_check(folder, len(study.catalog))
        again = np.setdiff1d(load_absent(folder, images=len(study.catalog)), absent)
        if len(again):
            now = measure(folder, study.seen().rows[again])
            check.unlike_N[again], check.off_N[again] = now.unlike_N, now.off_N
        return add_domain(table, study.catalog, check)

    def _ranker(self) -> Ranker:
        return self._newest_ranker()[1]

    def _newest_ranker(self) -> tuple[Model, Ranker]:
        self._newest()
        return usable_ranker(self._study.folder, self._study.store)
