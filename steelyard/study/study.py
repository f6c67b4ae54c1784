"""A study: ask, tell, fit, score. Ties images, store, ranker and acquisition together; docs/architecture.md lists its files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from steelyard.config import StudyConfig
from steelyard.images.catalog import Catalog
from steelyard.loop.chance import Chance, Purpose
from steelyard.loop.policy import Policy
from steelyard.pairs import Answer, Pair
from steelyard.progress import Progress
from steelyard.store.records import NewGrade, Recorded, new_id
from steelyard.store.store import Store
from steelyard.study.asked import comparison_of, question_key
from steelyard.study.belief import Belief
from steelyard.study.grading import check_code, known_grades
from steelyard.study.images import Added, CatalogWatch, add_images, kept_by, relocate
from steelyard.study.inputs import InputReader, Inputs
from steelyard.study.knowledge import Knowledge
from steelyard.study.learning import TrainedModel, learn, learn_alone
from steelyard.study.making import make_files, open_files, study_config
from steelyard.study.questions import Questions
from steelyard.study.sharing import Sharing
from steelyard.study.simulating import simulate
from steelyard.study.status import describe
from steelyard.study.wording import show_wording, study_grades

if TYPE_CHECKING:
    import pandas as pd

    from steelyard.annotators import VirtualAnnotator
    from steelyard.config.grades import GradeList
    from steelyard.ranker.grades import GradeScale
    from steelyard.ranker.posterior import Posterior
    from steelyard.study.lease import TrainerLease
    from steelyard.study.scales import QuestionsReport
    from steelyard.trust.stopping import AccuracyEstimate

__all__ = ["Study"]


class Study:
    """Ask / tell / fit / score.

    Make one with `Study.create` or `Study.open`. It can be used as a context manager; `close` lets go of the database.

    Attributes:
        folder: where it lies.
        config: what it is set to.
        catalog: what is compared.
        store: what people answered.
        questions: chooses pairs, and puts them up only where it says so.
        sharing: with machines that do not have the folder.
        patient: whether `seen` computes what is missing; False takes what is there, while somebody computes the rest.
    """

    def __init__(
        self, folder: Path, config: StudyConfig, catalog: Catalog, store: Store, watch: CatalogWatch | None = None
    ) -> None:  # fmt: skip
        self.folder, self.config, self.catalog, self.store = folder, config, catalog, store
        store.answers.third_reader = config.ask.reading == "two_plus_annotator"
        self._watch = watch or CatalogWatch(folder)
        self._belief = Belief(self)
        self.questions = Questions(self, self._belief)
        self._knowledge = Knowledge(self, self._belief)
        self._reader = InputReader(kept_by(self, catalog), folder / "cache")
        self.sharing = Sharing(self)
        self.wording_noted: StudyConfig | None = None  # by `show_wording`, which looks once
        self.patient = True

    # ------------------------------------------------------------------ make, open, close

    @classmethod
    def create(
        cls,
        folder: str | Path,
        catalog: Catalog,
        *,
        preset: str = "quick",
        config: StudyConfig | None = None,
        progress: Progress | None = None,
        **changes: Any,
    ) -> Study:
        """Make a study.

        Args:
            folder: a new or empty folder.
            catalog: at least two images.
            preset: `quick`, `paper`, `small`, `tuned` or `features`; not used when `config` is given.
            config: the whole configuration.
            progress: told how far it is.
            **changes: keys to change, `ask={"raters": 2}`.

        Raises:
            StudyError: the folder holds something already, or there are fewer than two images.
        """
        place = Path(folder)
        settings = (config or study_config(preset)).with_changes(
            **{"name": (config.name if config else "") or place.name, **changes}
        )
        return cls(place, settings, catalog, make_files(place, catalog, settings, progress))

    @classmethod
    def open(cls, folder: str | Path, *, store: str = "") -> Study:
        """Open a study, migrating its database if it is an older one; `store` is its URL where study.toml does not say.

        Raises:
            StudyError: there is no study in that folder.
        """
        place = Path(folder)
        watch = CatalogWatch(place)  # looks before the file is opened: nothing happens in between unseen
        return cls(place, *open_files(place, store), watch).sharing.catch_up()

    def close(self) -> None:
        """Let go of the database."""
        self.store.close()

    def __enter__(self) -> Study:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def relocate(self, root: str | Path) -> list[str]:
        """Find the images again after their folder was moved: by content, where they are files; gives paths that were not found."""
        return relocate(self, root)

    def add(
        self, images: Catalog | str | Path, *, labels: str | Path | None = None, layout: str | None = None,
        by: str | None = None, progress: Progress | None = None,
    ) -> Added:  # fmt: skip
        """New images join the study: they get the next rows, and whoever has the study open takes them in by itself.

        Content decides what is new, so adding a folder again adds what came into it since.

        Args:
            images: a folder or URL, or a catalog of files.
            labels: CSV with `image` (below the folder) and, optionally, `grade` and `group`.
            layout: how the folder is read; None takes the study's own.
            by: who adds them, for the audit log; None is the user of this machine.
            progress: told how far it is.

        Raises:
            StudyError, CatalogError: the study is not one of image files, or the folder is not as the layout says.
        """
        return add_images(self, images, labels=labels, layout=layout, by=by, progress=progress)

    def follow(self) -> bool:
        """Take in what became of the images – others joined, or all moved; whether anything did. Asking costs next to nothing."""
        return self._watch.follow(self, self._use)

    def _use(self, catalog: Catalog) -> None:
        if catalog.root is not None and catalog.root != self.catalog.root:
            # Whoever writes study.toml next must not move the images back.
            self.config = self.config.with_changes(images={"root": str(catalog.root)})
        self.catalog, self._reader = kept_by(self, catalog), InputReader(catalog, self.folder / "cache")

    @property
    def policy(self) -> Policy:
        """When to ask, how much, by which strategy."""
        return Policy(self.config.ask, len(self.catalog), self.config.ranker.kind == "convex")

    @property
    def chance(self) -> Chance:
        """Where all randomness comes from."""
        return Chance(self.config.seed)

    # ------------------------------------------------------------------ ask and tell

    def ask(self, n: int = 1, *, annotator: str = "you", strategy: str | None = None) -> list[Pair]:
        """The most informative pairs now, handed to one annotator.

        Pairs that are up but unanswered come first; new ones are chosen when they do not suffice.

        Args:
            n: pairs wanted.
            annotator: who is going to answer.
            strategy: how to choose new ones; the study's own by default.

        Returns:
            Pairs with their sides decided; fewer than n only when nothing is left to ask.
        """
        show_wording(self)
        pairs = self.lease(n, annotator)
        if len(pairs) < n:
            self.questions.put_up(
                self.questions.draft_for_person(n - len(pairs), annotator, strategy=strategy)
            )
            pairs = self.lease(n, annotator)
        return pairs

    def tell(
        self,
        pair: Pair,
        answer: Answer | str,
        *,
        annotator: str = "you",
        id: str | None = None,
        shown_at: float | None = None,
        answered_at: float | None = None,
        supersedes: str | None = None,
        note: str = "",
        source: str = "api",
        require_lease: bool = False,
        question: str = "",
    ) -> Recorded:
        """Record an answer. It is on disk when this returns.

        Args:
            pair: as `ask` gave it.
            answer: about the pair as it was shown.
            annotator: who answered.
            id: made by the client; the same id sent twice is one answer.
            shown_at: when the pair appeared.
            answered_at: when it was answered.
            supersedes: id of an earlier answer that this one replaces.
            note: a remark, or why it could not be judged.
            source: `page`, `api`, `import` or `virtual`.
            require_lease: refuse answers to pairs that were not handed to this annotator.
            question: key of a further question of the study; empty is the main one.

        Raises:
            StudyError: the pair is of no store, or the answer or the question is unknown.
        """
        said = comparison_of(
            pair, answer, annotator, shown_at, answered_at, id or new_id(), supersedes, note, source,
            question=question_key(self.config, question),
        )  # fmt: skip
        return self.store.answers.add(said, require_lease=require_lease)

    def undo(self, comparison: str, *, annotator: str = "you", id: str | None = None) -> Recorded:
        """Take an answer back; the pair is handed to the same annotator again, sides unchanged."""
        return self.store.answers.undo(
            comparison, annotator, id=id or new_id(), lease_seconds=self.config.ask.lease_seconds
        )

    def tell_grade(
        self, image: str, grade: int, *, annotator: str = "you", id: str | None = None, **times: Any
    ) -> Recorded:
        """Record an absolute grade of one image.

        Raises:
            StudyError: there is no such grade.
        """
        check_code(grade, self.grade_names)
        show_wording(self)
        return self.store.grades.add(NewGrade(image, annotator, int(grade), id=id or new_id(), **times))

    def propose(
        self, n: int | None = None, *, strategy: str | None = None, progress: Progress | None = None
    ) -> list[Pair]:
        """Choose new pairs and put them up for answering, without handing them to anybody.

        Args:
            n: how many; None takes the whole start or the rest of the round.
            strategy: how to choose them; the study's own by default.
            progress: told how far features are.
        """
        return self.questions.put_up(self.questions.draft(n, strategy=strategy, progress=progress))

    def simulate(self, annotator: VirtualAnnotator, n: int | None = None, *, name: str = "virtual") -> int:
        """Let a virtual annotator answer the pairs that are up, n at most, for trials without people; gives how many it answered."""
        return simulate(self, annotator, n, name)

    def lease(self, n: int, annotator: str) -> list[Pair]:
        """Pairs that are up, handed to one annotator."""
        rng = self.chance.rng(Purpose.SIDES, self.store.answers.last_seq())
        leased = self.store.pairs.lease(annotator, n, seconds=self.config.ask.lease_seconds, rng=rng)
        return [pair.shown() for pair in leased]

    # ------------------------------------------------------------------ learn

    def fit(self, *, progress: Progress | None = None, lease: TrainerLease | None = None) -> TrainedModel:
        """Train on all answers so far and make it the newest model.

        Args:
            progress: told how far it is.
            lease: the trainer's, held already; None takes it, waiting a minute for whoever trains now.

        Raises:
            StudyError: nobody has answered yet, somebody else trains, or the model cannot be written; the one before it stays
                the newest.
        """
        return learn(self, lease, progress or lease.progress) if lease else learn_alone(self, progress)

    def inputs(self, progress: Progress | None = None) -> NDArray[Any]:
        """What the ranker sees of each image, as `Inputs.rows`."""
        return self.seen(progress).rows

    def seen(self, progress: Progress | None = None) -> Inputs:
        """What the ranker sees, and which images could not be read; computed once, then taken from the cache."""
        return self._reader.read(self.config.ranker, progress, patient=self.patient)

    @property
    def described(self) -> bool:
        """Whether `seen` has nothing to compute any more, as far as this process knows."""
        return self._reader.ready(self.config.ranker)

    # ------------------------------------------------------------------ what is known

    @property
    def posterior(self) -> Posterior | None:
        """What is believed about the scores now: the newest model, moved by every answer since."""
        return self._belief.refresh().state.posterior

    @property
    def grade_list(self) -> GradeList:
        """The grades in order, with their definitions."""
        return study_grades(self.config, self.catalog)

    @property
    def grade_names(self) -> tuple[str, ...]:
        """Names of the grades, in order."""
        return self.grade_list.names

    def known_grades(self, upto: int | None = None) -> NDArray[np.int64]:
        """A grade code for each image, −1 where none is known, now or as of number `upto` of the log; people go before the catalog."""
        return known_grades(self, upto)

    def score(
        self, folder: str | Path | None = None, *, question: str | None = None, answers_alone: bool = False,
        progress: Progress | None = None,
    ) -> pd.DataFrame:  # fmt: skip
        """Score of every image: `image`, `path`, `score`, `uncertainty`, `low`, `high` (95%), `rank` (1 = the highest).

        `unlike` is the share of the study's images that are more typical, `off_domain` whether that flags it. Images that are excluded or could not be read are left out; `left_out` tells which.
        Where the study asks further questions, `score_KEY` and `uncertainty_KEY` follow for each, and the `composite`.

        Args:
            folder: score the images of this folder or URL instead; they need not belong to the study.
            question: only on the scale of this one, by key (`main` is the main question); None is all of them.
            answers_alone: also what the answers say without the images (`alone`, …, `differs`); only that before there is a model.
            progress: told how far it is.

        Raises:
            StudyError: there is no model yet, or none with this scale; or no answer to score by.
        """
        key = None if question is None else question_key(self.config, question)
        return self._knowledge.score(folder, answers_alone=answers_alone, question=key, progress=progress)

    def scales(self) -> QuestionsReport:
        """What is asked, how much was answered, and how the scales of the questions go together."""
        return self._knowledge.questions()

    def place(self, rgb: NDArray[np.uint8]) -> dict[str, Any]:
        """Where a new picture falls: `score`, `uncertainty`, `rank` among the study's images, `unlike`, `off_domain`, `domain_note`; `scales`: score and uncertainty on the further ones."""
        return self._knowledge.place(rgb)

    def grade(self, *, method: str = "ordinal") -> pd.DataFrame:
        """Scores turned into grades: the columns of `score` plus `grade`, `grade_low`, `grade_high` and `known`.

        90% of the images of new groups (patients) have their grade in `grade_low` … `grade_high`; docs/statistics.md says how.

        Args:
            method: `ordinal` or `isotonic` calibration from the images whose grade is known, or `rounding` for scores of
                multi-task learning (P6).

        Raises:
            StudyError: too few grades are known to calibrate.
        """
        return self._knowledge.grades(method)

    def grade_scale(self, method: str = "ordinal") -> GradeScale:
        """The calibration from scores to grades."""
        return self._knowledge.grade_scale(method)

    def suggest_grading(self, n: int = 10) -> list[str]:
        """Images to grade next: spread over the score and else drawn at random, so that they stand for the rest; none graded twice."""
        return self._knowledge.suggest_grading(n)

    def accuracy(self) -> AccuracyEstimate:
        """How many unseen pairs are ordered right, with its interval, and whether to stop."""
        return self._knowledge.accuracy()

    @property
    def budget(self) -> int:
        """Answers that are planned."""
        return self.policy.budget

    def agreement(self) -> dict[str, Any]:
        """How well answers agree, between people, with themselves and with the model, and how reliable each person is: `figures`, `people`."""
        return self._knowledge.agreement()

    def status(self) -> dict[str, Any]:
        """Where the study stands and what to do next."""
        return describe(self)

    def unreadable(self) -> NDArray[np.int64]:
        """Rows of images that could not be read when the newest model was made."""
        return self._knowledge.unreadable()

    def left_out(self) -> list[str]:
        """Paths of the images that have no score: excluded, or not readable when the newest model was made."""
        return self._knowledge.left_out()
