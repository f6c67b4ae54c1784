"""Answers in: every row of a file is understood before the first is written."""

from __future__ import annotations

import hashlib
from collections import Counter
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, get_args
from urllib.parse import unquote, urlparse

from steelyard.config import StudyConfig
from steelyard.errors import StoreError, StudyError
from steelyard.exchange import cells
from steelyard.exchange.reading import read_rows
from steelyard.pairs import Answer
from steelyard.privacy import user_name
from steelyard.store.importing import ForeignAnswer, Imported, check_foreign
from steelyard.store.records import Source
from steelyard.study.asked import question_key

if TYPE_CHECKING:
    from steelyard.study import Study

__all__ = ["ImageFinder", "import_file", "read_answers", "read_source"]

_SHOWN = 5  # problems that are spelled out

_WORDS = {answer.value: answer for answer in Answer} | {
    "1": Answer.LEFT, "1.0": Answer.LEFT, "1,0": Answer.LEFT,
    "0": Answer.RIGHT, "0.0": Answer.RIGHT, "0,0": Answer.RIGHT,
    "0.5": Answer.EQUAL, "0,5": Answer.EQUAL,
}  # fmt: skip


def import_file(study: Study, path: Path, *, annotator: str = "imported", by: str | None = None) -> Imported:
    """Bring in answers: all of the file or, if anything in it is wrong, nothing.

    Images are named by id, by path below the image folder, or by file name where that is unique. The audit log keeps
    who imported, when, the file's name and SHA-256, and the counts.

    Args:
        study: where they go.
        path: the file.
        annotator: who answered, where the file does not say.
        by: who imports; None is the user of this machine.

    Raises:
        StudyError: the file cannot be read, or a row names an unknown image or answer.
        StoreError: an id of the file is there already with another answer.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise StudyError(f"{path} cannot be read: {error.strerror or error}") from None
    answers = read_answers(study, content, path.suffix, annotator, name=path.name)
    detail = {
        "file": path.name.encode("utf-8", "replace").decode(),
        "sha256": hashlib.sha256(content).hexdigest(),
        "bytes": len(content),
    }
    return study.store.answers.import_all(answers, actor=by or user_name(), detail=detail)


def read_answers(
    study: Study,
    content: bytes,
    ending: str,
    annotator: str = "imported",
    *,
    name: str,
    config: StudyConfig | None = None,
) -> list[ForeignAnswer]:
    """Every answer of a file, understood and checked.

    Args:
        study: where they go.
        content: of the file.
        ending: of its name.
        annotator: who answered, where it does not say.
        name: of the file, for errors.
        config: whose questions may have been asked; None is the study's.

    Raises:
        StudyError: it cannot be read, or rows of it cannot be understood; names the first few.
    """
    rows = _Rows(study, annotator, config or study.config)
    answers: list[ForeignAnswer] = []
    problems: list[str] = []
    wrong = 0
    try:
        for where, row in read_rows(content, ending):
            try:
                answers.append(rows.understood(row))
            except (StudyError, StoreError) as error:
                wrong += 1
                if len(problems) < _SHOWN:
                    problems.append(f"{where}: {error}")
    except StudyError as error:
        raise StudyError(f"{name}: {error}; nothing was imported") from None
    if problems:
        more = f"; and {wrong - len(problems)} more" if wrong > len(problems) else ""
        raise StudyError(f"{name}, {'; '.join(problems)}{more}; nothing was imported")
    return answers


class _Rows:
    """Understands raw rows, one after the other."""

    def __init__(self, study: Study, annotator: str, config: StudyConfig) -> None:
        self._images = ImageFinder(study)
        self._annotator = annotator
        self._config = config
        self._seen: Counter[tuple[str, ...]] = Counter()
        self._seen_before: Counter[tuple[str, ...]] = Counter()
        self._same: dict[str, str] = {}  # one object for each text that many rows share

    def understood(self, row: dict[str, Any]) -> ForeignAnswer:
        """One answer with every field checked.

        Raises:
            StudyError, StoreError: a field holds what it cannot.
        """
        left, right = (self._images.find(_first(row, side, f"{side}_path")) for side in ("left", "right"))
        if left == right:
            raise StudyError(f"compares image {self._images.ids[left]} with itself")
        answer = _answer(row.get("answer"))
        annotator = self._one(cells.text(row.get("annotator"), "annotator").strip() or self._annotator)
        answered_at = cells.either_moment(row, "answered_at")
        cells.moment(row.get("received_at"), "received_at")  # the log says when *we* received it
        question = question_key(self._config, self._one(cells.text(row.get("question"), "question").strip()))
        role = _role(row.get("role"))
        key: tuple[str, ...] = (annotator, self._images.ids[left], self._images.ids[right], answer.value)
        key += (question,) if question else ()  # what has no question keeps the id it always had
        key += () if role == "answer" else (role,)
        made = _made_id(self._seen, (*key, _shown(answered_at)))
        before = _made_id(self._seen_before, (*key, _shown(_as_before(row.get("answered_at")))))
        given = cells.text(row.get("id"), "id").strip()
        found = ForeignAnswer(
            given or made,
            left,
            right,
            answer,
            annotator,
            cells.moment(row.get("shown_at"), "shown_at"),
            answered_at,
            cells.whole(row.get("round"), "round"),
            self._one(cells.text(row.get("strategy"), "strategy") or "imported"),
            cells.truth(row.get("reserved"), "reserved"),
            self._one(cells.text(row.get("note"), "note")),
            read_source(row.get("source")),
            None if given or before == made else before,
            question,
            role,
        )
        check_foreign(found)
        return found

    def _one(self, text: str) -> str:
        return self._same.setdefault(text, text)


def _made_id(seen: Counter[tuple[str, ...]], key: tuple[str, ...]) -> str:
    """An id for a row that has none: the same line twice is two answers, the same file twice is not."""
    seen[key] += 1
    return hashlib.blake2b("\x1f".join((*key, str(seen[key]))).encode(), digest_size=16).hexdigest()


def _as_before(value: Any) -> float | None:
    """How 0.1 read a time: numbers only. Its ids were made with that."""
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if number == number else None


def _shown(number: float | None) -> str:
    return "" if number is None else str(number)


def _first(row: dict[str, Any], *columns: str) -> Any:
    """The first of some cells that is not empty."""
    return next((row[name] for name in columns if row.get(name) not in (None, "")), None)


def _answer(given: Any) -> Answer:
    word = cells.text(given, "answer").strip().lower().replace("_", " ")
    if word not in _WORDS:
        raise StudyError(
            f"an answer is left, right, equal or cannot judge (or 1, 0, 0.5); not {str(given)[:80]!r}"
        )
    return _WORDS[word]


def _role(given: Any) -> str:
    word = cells.text(given, "role").strip().lower() or "answer"
    if word not in ("answer", "decision"):
        raise StudyError(f"a role is answer or decision; not {word[:80]!r}")
    return word


def read_source(given: Any) -> str:
    """`import`, with what the answer was where it was given."""
    word = cells.text(given, "source").strip().lower()
    original = word.removeprefix("import:")
    if not word or word == "import":
        return "import"
    if f"import:{original}" not in get_args(Source):
        raise StudyError(f"source is one of {', '.join(get_args(Source))}; not {word[:80]!r}")
    return f"import:{original}"


class ImageFinder:
    """Finds catalog rows by id, path or unique file name."""

    def __init__(self, study: Study) -> None:
        self.ids = [str(id) for id in study.catalog.ids]
        paths = [str(path) for path in study.catalog.paths]
        names = Counter(PurePosixPath(p).name for p in paths)
        self._known: dict[str, int] = {}
        for row, path in enumerate(paths):
            if names[PurePosixPath(path).name] == 1:
                self._known[PurePosixPath(path).name] = row
        self._known |= {path: row for row, path in enumerate(paths)}
        self._known |= {id: row for row, id in enumerate(self.ids)}

    def find(self, given: Any) -> int:
        """The row of an image.

        Raises:
            StudyError: there is no such image.
        """
        if isinstance(given, int) and not isinstance(given, bool) and 0 <= given < len(self.ids):
            return given
        text = cells.text(given, "an image")
        if text and text in self._known:
            return self._known[text]
        for name in _bare(text):
            if name and name in self._known:
                return self._known[name]
        raise StudyError(f"image {text[:200]!r} is not in the study (by id, path or unique file name)")


def _bare(text: str) -> tuple[str, ...]:
    """A URL's path, and the file name at its end."""
    try:
        bare = unquote(urlparse(text).path if "://" in text else text).lstrip("/")
    except ValueError:  # brackets that promise an IPv6 address
        return ()
    return bare, PurePosixPath(bare).name
