"""A study: ask, tell, fit, score. Ties images, store, ranker and acquisition together.

A study is a folder:

    study.toml            configuration
    catalog.arrow         what is compared
    study.db              what people answered (unless `store` names a PostgreSQL database)
    models/round-000/     what was learnt, as safetensors and JSON
    cache/                pixels and features, computed once
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from steelyard.config import StudyConfig, ask_preset, ranker_preset
from steelyard.errors import ImageError, RankerError, StudyError
from steelyard.images.catalog import Catalog
from steelyard.loop.chance import Chance, Purpose
from steelyard.loop.policy import Policy
from steelyard.pairs import Answer, Pair
from steelyard.privacy import keep_private, make_private, read_umask
from steelyard.progress import Progress
from steelyard.stopping import AccuracyEstimate, advise
from steelyard.store.records import Model, NewComparison, NewGrade, NewImage, NewPair, Recorded, new_id
from steelyard.store.store import Store
from steelyard.study.belief import Belief
from steelyard.study.inputs import InputReader, Inputs
from steelyard.study.learning import TrainedModel, answers_about, estimate, learn
from steelyard.study.lease import LeaseLost, TrainerLease
from steelyard.study.models import load_absent, usable_model
from steelyard.study.questions import Questions
from steelyard.study.scores import grade_table, score_table, spread_over_scores, the_scale

if TYPE_CHECKING:
    import pandas as pd

    from steelyard.annotators import VirtualAnnotator
    from steelyard.ranker.grades import GradeScale
    from steelyard.ranker.model import Ranker
    from steelyard.ranker.posterior import Posterior

__all__ = ["Study", "store_url", "study_config"]

log = logging.getLogger("steelyard")


def study_config(preset: str = "quick", **changes: Any) -> StudyConfig:
    """The configuration of a preset, with some keys changed: `study_config("paper", seed=3, ask={"raters": 2})`."""
    start = StudyConfig(ranker=ranker_preset(preset), ask=ask_preset(preset))
    return start.with_changes(**changes)


class Study:
    """Ask / tell / fit / score.

    Make one with `Study.create` or `Study.open`. It can be used as a context manager; `close` lets go of the database.

    Attributes:
        folder: where it lies.
        config: what it is set to.
        catalog: what is compared.
        store: what people answered.
        questions: chooses pairs without putting them up.
    """

    def __init__(self, folder: Path, config: StudyConfig, catalog: Catalog, store: Store) -> None:
        self.folder, self.config, self.catalog, self.store = folder, config, catalog, store
        self._belief = Belief(folder, store, len(catalog))
        self.questions = Questions(self, self._belief)
        self._reader = InputReader(catalog, folder / "cache")

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
        if (place / "study.toml").exists():
            raise StudyError(f"{place} is a study already; open it, or choose another folder")
        if len(catalog) < 2:
            raise StudyError(
                f"a study compares images, and the catalog has {len(catalog)}; it needs 2 or more"
            )
        settings = (config or study_config(preset)).with_changes(
            **{"name": (config.name if config else "") or place.name, **changes}
        )
        if not place.exists():
            place.mkdir(parents=True, mode=0o777 & ~read_umask())
        catalog.save(place / "catalog.arrow")
        if not settings.store:
            make_private(place / "study.db")
        store = Store.open(store_url(place, settings))
        try:
            _register(store, catalog, progress)
            # Written last: a folder with a study.toml is a whole study, whenever the power went.
            settings.save(place / "study.toml")
            for name in ("models", "cache"):
                (place / name).mkdir(exist_ok=True)
            keep_private(place, new=True)
        except BaseException:
            store.close()
            raise
        return cls(place, settings, catalog, store)

    @classmethod
    def open(cls, folder: str | Path) -> Study:
        """Open a study, migrating its database if it is an older one.

        Raises:
            StudyError: there is no study in that folder.
        """
        place = Path(folder)
        keep_private(place)
        if not (place / "study.toml").exists():
            raise StudyError(
                f"{place} is no study (no study.toml); make one with: steelyard init {place} --images DIR"
            )
        config = StudyConfig.load(place / "study.toml")
        if not (place / "catalog.arrow").exists():
            raise StudyError(
                f"{place / 'catalog.arrow'} is missing; restore a backup with: steelyard restore FILE {place} --replace"
            )
        return cls(
            place,
            config,
            Catalog.open(place / "catalog.arrow"),
            Store.open(store_url(place, config), create=False),
        )

    def close(self) -> None:
        """Let go of the database."""
        self.store.close()

    def __enter__(self) -> Study:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def relocate(self, root: str | Path) -> list[str]:
        """Find the images again after their folder was moved or renamed: by content, where they are files of their own.

        Returns:
            Paths of images that were not found.
        """
        missing: Sequence[str]
        if self.catalog.kind == "files":
            found, _, missing = self.catalog.relocate(Path(root))
        else:
            found = self.catalog.with_root(root)
            paths = found.paths.tolist() if found.kind == "features" else []
            missing = [path for path in paths if not (Path(root) / path).is_file()]
        found.save(self.folder / "catalog.arrow")
        self.store.images.relocate(dict(zip(map(str, found.ids), map(str, found.paths), strict=True)))
        self.config = self.config.with_changes(images={"root": str(Path(root).resolve())})
        self.config.save(self.folder / "study.toml")
        self.catalog = found
        self._reader = InputReader(found, self.folder / "cache")
        return list(missing)

    @property
    def policy(self) -> Policy:
        """When to ask, how much, by which strategy."""
        return Policy(self.config.ask, len(self.catalog))

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
        pairs = self._lease(n, annotator)
        if len(pairs) < n:
            self._put_up(self.questions.draft_for_person(n - len(pairs), strategy=strategy))
            pairs = self._lease(n, annotator)
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

        Raises:
            StudyError: the pair is of no store, or the answer is unknown.
        """
        if pair.id is None:
            raise StudyError("this pair was not handed out by ask(); ask for pairs, then tell")
        try:
            said = Answer(answer)
        except ValueError:
            raise StudyError(
                f"an answer is one of {', '.join(a.value for a in Answer)}; not {answer!r}"
            ) from None
        comparison = NewComparison(
            pair.id, annotator, said, pair.left, pair.right, shown_at, answered_at, id or new_id(), supersedes, note,
            source,  # type: ignore[arg-type]  # checked by the store
        )  # fmt: skip
        return self.store.answers.add(comparison, require_lease=require_lease)

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
        names = self.grade_names
        if not 0 <= grade < len(names):
            raise StudyError(f"grade {grade} is none of 0 … {len(names) - 1} ({', '.join(names)})")
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
        return self._put_up(self.questions.draft(n, strategy=strategy, progress=progress))

    def _put_up(self, new: list[NewPair]) -> list[Pair]:
        ids = self.store.pairs.add_all(new)
        images = self.catalog.ids
        return [
            Pair(str(images[p.first]), str(images[p.second]), p.round, p.strategy, p.reason, id)
            for p, id in zip(new, ids, strict=True)
        ]

    def simulate(self, annotator: VirtualAnnotator, n: int | None = None, *, name: str = "virtual") -> int:
        """Let a virtual annotator answer the pairs that are up, for trials without people.

        Args:
            annotator: who knows the truth about every image of the catalog.
            n: answers at the most; None answers everything that is up.
            name: under which the answers are recorded.

        Returns:
            Answers given.
        """
        given = 0
        while n is None or given < n:
            pairs = self._lease(200 if n is None else min(200, n - given), name)
            if not pairs:
                break
            rows = [self.catalog.rows_of([pair.left, pair.right]) for pair in pairs]
            rng = self.chance.rng(Purpose.ANSWERS, self.store.answers.last_seq())
            for pair, label in zip(pairs, annotator.answer(rows, rng).tolist(), strict=True):
                answer = Answer.CANNOT_JUDGE if np.isnan(label) else Answer.from_label(label)
                self.tell(pair, answer, annotator=name, source="virtual")
            given += len(pairs)
        return given

    def _lease(self, n: int, annotator: str) -> list[Pair]:
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
        if lease is not None:
            return learn(self, lease, progress or lease.progress)
        own = TrainerLease(self.store)
        own.wait(progress=progress)

        def tell(done: int, total: int, text: str) -> None:
            own.progress(done, total, text)
            if progress is not None:
                progress(done, total, text)

        try:
            with own.working("fit"):
                return learn(self, own, tell)
        except LeaseLost:
            raise StudyError(
                "another trainer took over, because this one gave no sign of life; see whose model is newest with: "
                f"steelyard status {self.folder}"
            ) from None

    def inputs(self, progress: Progress | None = None) -> NDArray[Any]:
        """What the ranker sees of each image: features (N, D), activations (N, H, W, C), or pixels (N, H, W, 3).

        Rows of images that cannot be read are zero; nothing is learnt from them.
        """
        return self.seen(progress).rows

    def seen(self, progress: Progress | None = None) -> Inputs:
        """What the ranker sees, and which images could not be read."""
        return self._reader.read(self.config.ranker, progress)

    # ------------------------------------------------------------------ what is known

    @property
    def posterior(self) -> Posterior | None:
        """What is believed about the scores now: the newest model, moved by every answer since."""
        return self._belief.refresh().state.posterior

    @property
    def grade_names(self) -> tuple[str, ...]:
        """Names of the grades, in order."""
        return tuple(self.config.page.grades) or tuple(self.catalog.grade_names)

    def known_grades(self) -> NDArray[np.int64]:
        """A grade code for each image, −1 where none is known; what people said here goes before the catalog."""
        grades = np.full(len(self.catalog), -1, dtype=np.int64)
        if self.catalog.grades is not None:
            grades[:] = self.catalog.grades
        given = self.store.grades.arrays()
        for row in np.unique(given.row):  # several people: the median, rounded down
            grades[row] = int(np.median(given.grade[given.row == row]))
        return grades

    def score(self, folder: str | Path | None = None, *, progress: Progress | None = None) -> pd.DataFrame:
        """Severity of every image: `image`, `path`, `score`, `uncertainty`, `low`, `high` (95%), `rank` (1 = most severe).

        Images that are excluded or could not be read are left out; `left_out` tells which.

        Args:
            folder: score the images of this folder instead; they need not belong to the study.
            progress: told how far it is.

        Raises:
            StudyError: there is no model yet.
        """
        if folder is None:
            posterior, absent = self._scored(progress)
            return score_table(self.catalog, posterior, left_out=self._out(absent))
        from steelyard.ranker.model import ranker_inputs

        catalog = Catalog.from_folder(
            Path(folder), check=True, on_error=self.config.images.on_error, progress=progress
        )
        ranker = self._newest_ranker()
        inputs = ranker_inputs(catalog, self.config.ranker, cache=self.folder / "cache", progress=progress)
        return score_table(catalog, ranker.posterior(inputs, progress=progress))

    def place(self, rgb: NDArray[np.uint8]) -> dict[str, float]:
        """Where a picture that is not in the study falls: `score`, `uncertainty`, `rank` among the study's images."""
        from steelyard.ranker.model import picture_inputs

        ranker = self._newest_ranker()
        posterior = ranker.posterior(picture_inputs(rgb[None], self.config.ranker))
        score = float(posterior.mean[0])
        others = np.delete(self._newest_posterior().mean, self._out(self._absent()))
        return {
            "score": score,
            "uncertainty": float(np.sqrt(posterior.variance[0])),
            "rank": int((others > score).sum()) + 1,
        }

    def grade(self, *, method: str = "ordinal") -> pd.DataFrame:
        """Scores turned into grades: the columns of `score` plus `grade`, `grade_low`, `grade_high` and `known`.

        Args:
            method: `ordinal` or `isotonic` calibration from the images whose grade is known, or `rounding` for scores of
                multi-task learning (P6).

        Raises:
            StudyError: too few grades are known to calibrate.
        """
        posterior, absent = self._scored()
        return grade_table(
            self.catalog, posterior, self.grade_scale(method), self.grade_names, self.known_grades(),
            self._out(absent),
        )  # fmt: skip

    def grade_scale(self, method: str = "ordinal") -> GradeScale:
        """The calibration from scores to grades."""
        posterior, absent = self._scored()
        known = self.known_grades()
        known[self._out(absent)] = -1
        return the_scale(lambda: posterior, self.grade_names, known, method)

    def suggest_grading(self, n: int = 10) -> list[str]:
        """Images whose grade would help most: spread over the score, the unsure ones first, none graded twice."""
        posterior = self.posterior
        free = np.setdiff1d(np.flatnonzero(self.known_grades() < 0), self._out(self._belief.absent))
        if posterior is None:
            chosen = self.chance.rng(Purpose.GRADING).permutation(free)[:n]
        else:
            chosen = spread_over_scores(posterior, free, n)
        return [str(self.catalog.ids[row]) for row in chosen]

    def accuracy(self) -> AccuracyEstimate:
        """How many unseen pairs are ordered right, with its interval, and whether to stop."""
        models = self.store.models.all()
        answers = self.store.answers.arrays()
        accuracy = (
            estimate(
                self._newest_posterior(),
                answers_about(answers, self._out(self._absent())),
                learns_reserved=self.config.ranker.head == "convex",
            )
            if models
            else (np.nan, np.nan, np.nan, 0)
        )
        earlier = [float(m.metrics["accuracy"]) for m in models if "accuracy" in m.metrics]
        return advise(accuracy, answers=len(answers), budget=self.budget, earlier=earlier)

    @property
    def budget(self) -> int:
        """Answers that are planned."""
        return self.policy.budget

    def agreement(self) -> dict[str, Any]:
        """How well answers agree: between people, with themselves, and with the model."""
        from steelyard.evaluate.consistency import consistency

        answers = self.store.answers.arrays()
        posterior = self.posterior
        return consistency(
            answers.pairs, answers.labels, answers.annotator, list(answers.annotators), answers.left_first,
            None if posterior is None else posterior.difference(answers.pairs)[0],
        )  # fmt: skip

    def status(self) -> dict[str, Any]:
        """Where the study stands and what to do next."""
        models = self.store.models.all()
        answers = self.store.answers.count()
        newest = models[-1] if models else None
        new_answers = self.store.answers.last_seq() - (newest.comparisons_seq if newest else 0)
        state: dict[str, Any] = {
            "study": self.config.name,
            "folder": str(self.folder),
            "store": self.store.url,
            "images": len(self.catalog),
            "excluded": len(self.store.images.excluded_rows()),
            "unreadable": len(self._absent()) if newest else 0,
            "graded": int((self.known_grades() >= 0).sum()),
            "answers": answers,
            "budget": self.budget,
            "open pairs": self.store.pairs.open_count(),
            "annotators": {c.annotator: c.answers for c in self.store.answers.by_annotator()},
            "models": len(models),
            "newest model": newest.path if newest else None,
            "new log entries since": new_answers,
            "accuracy": self.accuracy().sentence if newest else None,
            "strategy": self.config.ask.strategy,
        }
        if self.store.trouble:
            state["next"] = f"see what is wrong: steelyard check {self.folder} ({self.store.trouble})"
        elif not answers:
            state["next"] = f"answer some pairs: steelyard serve {self.folder}"
        elif newest is None or new_answers >= self.config.refit_after:
            state["next"] = f"train: steelyard train {self.folder} (the page does it by itself)"
        else:
            state["next"] = f"go on answering: steelyard serve {self.folder}"
        return state

    def _newest_model(self) -> Model:
        newest = self.store.models.newest()
        if newest is None:
            raise StudyError(f"there is no model yet; train one with: steelyard train {self.folder}")
        return newest

    def left_out(self) -> list[str]:
        """Paths of the images that have no score: excluded, or not readable when the newest model was made."""
        absent = self._absent() if self.store.models.newest() else self._belief.absent
        return [str(self.catalog.paths[row]) for row in self._out(absent)]

    def _absent(self) -> NDArray[np.int64]:
        """Rows that the newest model could not read."""
        return load_absent(self.folder / self._usable()[0].path)

    def _out(self, absent: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.union1d(absent, self.store.images.excluded_rows()).astype(np.int64)

    def _scored(self, progress: Progress | None = None) -> tuple[Posterior, NDArray[np.int64]]:
        """The newest model's scores and the rows it has none for; images that can be read again are scored now."""
        posterior, absent = self._newest_posterior(), self._absent()
        if not any(self._readable(int(row)) for row in absent):
            return posterior, absent
        seen = self.seen(progress)
        return self._newest_ranker().posterior(seen.rows, progress=progress), seen.absent

    def _readable(self, row: int) -> bool:
        try:
            self.catalog.read(row)
        except ImageError:
            return False
        return True

    def _newest_posterior(self) -> Posterior:
        return self._usable()[1]

    def _usable(self) -> tuple[Model, Posterior]:
        """The newest model that can be read, as the belief has it or from its folder."""
        newest, belief = self._newest_model(), self._belief
        if belief.announced == newest.id and belief.model is not None and belief.start is not None:
            return belief.model, belief.start
        return usable_model(self.folder, self.store)

    def _newest_ranker(self) -> Ranker:
        from steelyard.ranker.model import load_ranker

        self._newest_model()
        first: RankerError | None = None
        for model in reversed(self.store.models.all()):
            try:
                return load_ranker(self.folder / model.path)
            except RankerError as error:  # damaged, or an older one that was in no backup
                first = first or error
                log.warning("%s – the model before it is used", error)
        assert first is not None
        raise first


def store_url(folder: Path, config: StudyConfig) -> str:
    """Where a study's answers are."""
    return config.store or f"sqlite:///{(folder / 'study.db').resolve()}"


def _register(store: Store, catalog: Catalog, progress: Progress | None) -> None:
    groups, grades = catalog.groups, catalog.grades
    store.images.add_all(
        (
            NewImage(
                row, str(id), str(path), None if groups is None else str(groups[row]),
                None if grades is None or grades[row] < 0 else int(grades[row]),
            )
            for row, (id, path) in enumerate(zip(catalog.ids, catalog.paths, strict=True))
        ),
        progress=progress,
    )  # fmt: skip
