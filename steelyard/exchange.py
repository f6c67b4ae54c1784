"""Answers in and out: CSV, JSON, Parquet, choix tuples, and Label Studio's pairwise JSON.

Every format goes through one table with a row an answer (`COLUMNS`). What is exported can be imported again and is the
same answers, not new ones.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlparse

from steelyard.errors import StudyError
from steelyard.pairs import Answer
from steelyard.store.records import Comparison, NewComparison, NewPair

if TYPE_CHECKING:
    import pandas as pd

    from steelyard.study import Study

__all__ = ["COLUMNS", "FORMATS", "Imported", "answers_table", "export_file", "import_file", "write_table"]

COLUMNS = (
    "id", "left", "right", "left_path", "right_path", "answer", "annotator", "shown_at", "answered_at", "round",
    "strategy", "reserved", "note",
)  # fmt: skip
FORMATS = ("csv", "json", "parquet", "choix", "labelstudio")


@dataclass(frozen=True)
class Imported:
    """What an import did: answers added, and answers that were there already."""

    added: int
    known: int

    def to_dict(self) -> dict[str, int]:
        """Plain values for JSON."""
        return asdict(self)


# ---------------------------------------------------------------------- out


def answers_table(study: Study) -> pd.DataFrame:
    """Every answer that counts, in the order of the log, one row each, with the columns `COLUMNS`."""
    import pandas as pd

    paths = dict(zip(map(str, study.catalog.ids), map(str, study.catalog.paths), strict=True))
    pairs = {pair.id: pair for pair in study.store.pairs()}
    rows = [
        (
            c.id, c.left, c.right, paths.get(c.left, ""), paths.get(c.right, ""), c.answer.value, c.annotator, c.shown_at,
            c.answered_at, pairs[c.pair].round, pairs[c.pair].strategy, pairs[c.pair].reserved, c.note,
        )
        for c in study.store.comparisons()
        if c.effective and c.answer is not None
    ]  # fmt: skip
    return pd.DataFrame(rows, columns=list(COLUMNS))


def export_file(study: Study, path: Path, *, form: str | None = None) -> int:
    """Write all answers that count; the file's ending picks the format unless it is named.

    Returns:
        Number of answers written.

    Raises:
        StudyError: the format is not known.
    """
    kind = _format_of(path, form)
    table = answers_table(study)
    writers: dict[str, Callable[[], bytes]] = {
        "csv": lambda: table.to_csv(index=False).encode(),
        "json": lambda: (table.to_json(orient="records", indent=1) or "").encode(),
        "parquet": lambda: bytes(table.to_parquet(index=False) or b""),
        "choix": lambda: _to_choix(study, table),
        "labelstudio": lambda: _to_label_studio(table),
    }
    _write(path, writers[kind]())
    return int(table["answer"].isin(["left", "right"]).sum()) if kind == "choix" else len(table)


def write_table(table: pd.DataFrame, path: Path) -> None:
    """Write scores or grades as CSV or Parquet, by the file's ending.

    Raises:
        StudyError: another ending.
    """
    if path.suffix == ".csv":
        _write(path, table.to_csv(index=False).encode())
    elif path.suffix == ".parquet":
        _write(path, bytes(table.to_parquet(index=False) or b""))
    else:
        raise StudyError(f"{path.name}: write to a file that ends in .csv or .parquet")


def _to_choix(study: Study, table: pd.DataFrame) -> bytes:
    """choix compares integers, winner first, and knows no ties: rows of the catalog, in `items`."""
    place = {str(id): row for row, id in enumerate(study.catalog.ids)}
    comparisons = []
    for row in table.itertuples():
        left, right = place[str(row.left)], place[str(row.right)]
        if row.answer == Answer.LEFT.value:
            comparisons.append([left, right])
        elif row.answer == Answer.RIGHT.value:
            comparisons.append([right, left])
    return json.dumps({"items": [str(id) for id in study.catalog.ids], "comparisons": comparisons}).encode()


def _to_label_studio(table: pd.DataFrame) -> bytes:
    tasks = []
    for number, row in enumerate(table.to_dict("records"), start=1):
        task: dict[str, Any] = {
            "id": number,
            "data": {
                "left": row["left_path"],
                "right": row["right_path"],
                "left_id": row["left"],
                "right_id": row["right"],
            },
            "meta": {
                "steelyard_id": row["id"],
                "answer": row["answer"],
                "round": row["round"],
                "strategy": row["strategy"],
            },
        }
        # Label Studio's Pairwise tag knows left and right only; an annotation without a result is an answer of neither.
        result = []
        if row["answer"] in ("left", "right"):
            result = [
                {
                    "from_name": "pairwise",
                    "to_name": "left,right",
                    "type": "pairwise",
                    "value": {"selected": row["answer"]},
                }
            ]
        shown, answered = row["shown_at"], row["answered_at"]
        task["annotations"] = [
            {
                "completed_by": {"email": row["annotator"]},
                "was_cancelled": row["answer"] == Answer.CANNOT_JUDGE.value,
                "lead_time": answered - shown if shown == shown and shown is not None else None,
                "result": result,
            }
        ]
        tasks.append(task)
    return json.dumps(tasks, indent=1).encode()


# ---------------------------------------------------------------------- in


def import_file(study: Study, path: Path, *, annotator: str = "imported") -> Imported:
    """Bring in answers: all of the file or, if anything in it is wrong, nothing.

    Images are named by id, by path below the image folder, or by file name where that is unique.

    Args:
        study: where they go.
        path: the file.
        annotator: who answered, where the file does not say.

    Raises:
        StudyError: the file cannot be read, or a row names an unknown image or answer.
    """
    rows = [_row(row, f"{path.name}, answer {k}", annotator) for k, row in enumerate(_read(path), start=1)]
    images = _Images(study)
    place = {str(id): row for row, id in enumerate(study.catalog.ids)}
    log = study.store.comparisons()
    known_ids = {c.id for c in log}
    asked = _Asked(study, log)
    seen: Counter[tuple[str, ...]] = Counter()
    pairs: list[NewPair] = []
    answers: list[tuple[str, str, str, dict[str, Any]]] = []
    for row in rows:
        left, right = images.find(row["left"], row["where"]), images.find(row["right"], row["where"])
        if left == right:
            raise StudyError(f"{row['where']}: compares image {left} with itself; nothing was imported")
        key = (row["annotator"], left, right, row["answer"].value, _text(row["answered_at"]))
        seen[key] += 1  # the same line twice is two answers, the same file twice is not
        id = (
            row["id"]
            or hashlib.blake2b("\x1f".join((*key, str(seen[key]))).encode(), digest_size=16).hexdigest()
        )
        if id in known_ids:
            continue
        pairs.append(
            NewPair(
                place[left], place[right], row["round"], row["strategy"], "Imported from a file.",
                reserved=row["reserved"], repeat=asked.next_repeat(row["annotator"], left, right),
            )
        )  # fmt: skip
        answers.append((id, left, right, row))
    # Only now, with every row understood, is anything written.
    numbers = study.store.add_pairs(pairs)
    study.store.add_comparisons(
        [
            NewComparison(
                pair, row["annotator"], row["answer"], left, right, row["shown_at"], row["answered_at"], id,
                note=row["note"], source="import",
            )
            for pair, (id, left, right, row) in zip(numbers, answers, strict=True)
        ]
    )  # fmt: skip
    return Imported(len(answers), len(rows) - len(answers))


def _row(row: dict[str, Any], where: str, annotator: str) -> dict[str, Any]:
    """One answer of a file with every value checked, whatever the file calls a number."""
    return {
        "where": where,
        "id": _text(row.get("id")),
        "left": row.get("left"),
        "right": row.get("right"),
        "answer": _answer(row.get("answer"), where),
        "annotator": _text(row.get("annotator")) or annotator,
        "shown_at": _number(row.get("shown_at")),
        "answered_at": _number(row.get("answered_at")),
        "round": int(_number(row.get("round")) or 0),
        "strategy": _text(row.get("strategy")) or "imported",
        "reserved": row.get("reserved") in (True, "True", "true"),
        "note": _text(row.get("note")),
    }


class _Asked:
    """Who has answered which question how often, so that a second answer becomes a repeated question."""

    def __init__(self, study: Study, log: list[Comparison]) -> None:
        pairs = {pair.id: pair for pair in study.store.pairs()}
        self._answered = {
            (c.annotator, frozenset((c.left, c.right)), pairs[c.pair].repeat) for c in log if c.effective
        }

    def next_repeat(self, annotator: str, left: str, right: str) -> int:
        repeat = 0
        while (annotator, frozenset((left, right)), repeat) in self._answered:
            repeat += 1
        self._answered.add((annotator, frozenset((left, right)), repeat))
        return repeat


class _Images:
    """Finds images by id, path or unique file name."""

    def __init__(self, study: Study) -> None:
        ids = [str(id) for id in study.catalog.ids]
        paths = [str(path) for path in study.catalog.paths]
        names = Counter(PurePosixPath(p).name for p in paths)
        self._known = {
            PurePosixPath(p).name: id
            for p, id in zip(paths, ids, strict=True)
            if names[PurePosixPath(p).name] == 1
        }
        self._known |= dict(zip(paths, ids, strict=True))
        self._known |= {id: id for id in ids}
        self._ids = ids

    def find(self, given: Any, where: str) -> str:
        if isinstance(given, int) and not isinstance(given, bool) and 0 <= given < len(self._ids):
            return self._ids[given]
        text = _text(given)
        bare = unquote(urlparse(text).path if "://" in text else text).lstrip("/")
        for name in (text, bare, PurePosixPath(bare).name):
            if name and name in self._known:
                return self._known[name]
        raise StudyError(
            f"{where}: image {given!r} is not in the study (by id, path or unique file name); nothing was imported"
        )


def _read(path: Path) -> list[dict[str, Any]]:
    try:
        if path.suffix == ".json":
            return _from_json(json.loads(path.read_text(encoding="utf-8")), path)
        import pandas as pd

        if path.suffix == ".csv":
            table = pd.read_csv(path, dtype=str, keep_default_na=False)
        elif path.suffix == ".parquet":
            table = pd.read_parquet(path)
        else:
            raise StudyError(f"{path.name}: import a file that ends in .csv, .json or .parquet")
    except OSError as error:
        raise StudyError(f"{path} cannot be read: {error.strerror or error}") from None
    except ValueError as error:  # pandas, pyarrow and json all raise children of it
        raise StudyError(f"{path.name} is no valid {path.suffix[1:]} file: {error}") from None
    missing = {"left", "right", "answer"} - set(table.columns)
    if missing:
        raise StudyError(
            f"{path.name} lacks the column {sorted(missing)[0]!r}; answers need left, right and answer"
        )
    return [{str(key): value for key, value in row.items()} for row in table.to_dict("records")]


def _from_json(content: Any, path: Path) -> list[dict[str, Any]]:
    if isinstance(content, dict) and "comparisons" in content:  # choix, as exported here: rows of `items`
        items = content.get("items")
        return [_choix_row(pair, items, path) for pair in content["comparisons"]]
    if not isinstance(content, list):
        raise StudyError(
            f"{path.name} holds no list of answers, no choix comparisons and no Label Studio tasks"
        )
    if content and isinstance(content[0], dict) and "annotations" in content[0]:
        return [row for task in content for row in _label_studio_rows(task)]
    if content and isinstance(
        content[0], list
    ):  # plain choix: a list of (winner, loser), rows of the catalog
        return [_choix_row(pair, None, path) for pair in content]
    if not all(isinstance(row, dict) for row in content):
        raise StudyError(
            f"{path.name} holds something that is no answer: {next(r for r in content if not isinstance(r, dict))!r}"
        )
    return content


def _choix_row(pair: Any, items: Any, path: Path) -> dict[str, Any]:
    try:
        winner, loser = pair
        return {
            "left": items[winner] if items else winner,
            "right": items[loser] if items else loser,
            "answer": "left",
        }
    except (TypeError, ValueError, IndexError):
        raise StudyError(f"{path.name}: {pair!r} is no (winner, loser) of the items") from None


def _label_studio_rows(task: dict[str, Any]) -> list[dict[str, Any]]:
    data, meta = task.get("data") or {}, task.get("meta") or {}
    pictures = [key for key in data if not key.endswith("_id")]
    left, right = ("left", "right") if {"left", "right"} <= set(pictures) else [*pictures, None, None][:2]
    rows = []
    for annotation in task.get("annotations") or []:
        who = annotation.get("completed_by")
        who = who.get("email") or who.get("id") if isinstance(who, dict) else who
        chosen = [
            r["value"].get("selected") for r in annotation.get("result") or [] if r.get("type") == "pairwise"
        ]
        cancelled = annotation.get("was_cancelled")
        answer = chosen[0] if chosen else meta.get("answer") or ("cannot judge" if cancelled else "equal")
        rows.append(
            {
                "id": meta.get("steelyard_id") or "",
                "left": data.get("left_id") or data.get(left),
                "right": data.get("right_id") or data.get(right),
                "answer": answer,
                "annotator": "" if who is None else str(who),
                "round": meta.get("round", 0),
                "strategy": meta.get("strategy", ""),
            }
        )
    return rows


def _answer(given: Any, where: str) -> Answer:
    text = _text(given).strip().lower()
    words = {
        "left": Answer.LEFT,
        "right": Answer.RIGHT,
        "equal": Answer.EQUAL,
        "cannot judge": Answer.CANNOT_JUDGE,
    }
    words |= {
        "1": Answer.LEFT,
        "1.0": Answer.LEFT,
        "0": Answer.RIGHT,
        "0.0": Answer.RIGHT,
        "0.5": Answer.EQUAL,
    }
    if text not in words:
        raise StudyError(
            f"{where}: an answer is left, right, equal or cannot judge (or 1, 0, 0.5); not {given!r}; nothing was imported"
        )
    return words[text]


def _text(value: Any) -> str:
    return "" if value is None or value != value else str(value)


def _number(value: Any) -> float | None:
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return number if number == number else None


def _format_of(path: Path, form: str | None) -> str:
    kind = form or path.suffix.removeprefix(".")
    if kind not in FORMATS:
        raise StudyError(
            f"{kind or path.name!r} is no format; there are {', '.join(FORMATS)} (by the file's ending or --format)"
        )
    return kind


def _write(path: Path, content: bytes) -> None:
    """All of it or nothing: an export that stops half-way must not look like one."""
    try:
        temporary = path.with_name(path.name + ".new")
        temporary.write_bytes(content)
        temporary.replace(path)
    except OSError as error:
        raise StudyError(f"{path} cannot be written: {error.strerror or error}") from None
