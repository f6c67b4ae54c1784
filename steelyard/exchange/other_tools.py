"""The JSON of other tools, both ways: choix tuples and Label Studio's pairwise tasks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from steelyard.errors import StudyError
from steelyard.pairs import Answer

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["choix_rows", "label_studio_rows", "to_choix", "to_label_studio"]

# What Label Studio has no place for travels in the task's `meta`, which it keeps.
_KEPT = (
    "answer",
    "shown_at",
    "answered_at",
    "round",
    "strategy",
    "reserved",
    "note",
    "source",
    "received_at",
    "seq",
    "hash",
    "question",
    "role",
)


def to_choix(ids: list[str], table: pd.DataFrame) -> dict[str, Any]:
    """choix compares integers, winner first, and knows no ties: rows of the catalog, in `items`."""
    place = {id: row for row, id in enumerate(ids)}
    comparisons = []
    for left, right, answer in zip(table["left"], table["right"], table["answer"], strict=True):
        if answer == Answer.LEFT.value:
            comparisons.append([place[left], place[right]])
        elif answer == Answer.RIGHT.value:
            comparisons.append([place[right], place[left]])
    return {"items": ids, "comparisons": comparisons}


def choix_rows(comparisons: Any, items: Any) -> Iterator[dict[str, Any]]:
    """Answers from (winner, loser): places in `items`, or rows of the catalog where there are none."""
    if not isinstance(comparisons, list) or not (items is None or isinstance(items, list)):
        raise StudyError("choix comparisons are a list of (winner, loser), and items a list")
    for pair in comparisons:
        most = None if items is None else len(items)
        if (
            not isinstance(pair, list)
            or len(pair) != 2
            or not all(type(k) is int and k >= 0 and (most is None or k < most) for k in pair)
        ):
            raise StudyError(f"{str(pair)[:80]} is not a (winner, loser) of the items")
        winner, loser = pair if items is None else (items[pair[0]], items[pair[1]])
        yield {"left": winner, "right": loser, "answer": "left"}


def to_label_studio(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """One task an answer; `records` are rows of the table of answers."""
    return [_task(number, row) for number, row in enumerate(records, start=1)]


def _task(number: int, row: dict[str, Any]) -> dict[str, Any]:
    # Label Studio's Pairwise tag knows left and right only; an annotation without a result is an answer of neither.
    result = []
    if row["answer"] in ("left", "right"):
        value = {"selected": row["answer"]}
        result = [{"from_name": "pairwise", "to_name": "left,right", "type": "pairwise", "value": value}]
    shown, answered = row["shown_at"], row["answered_at"]
    return {
        "id": number,
        "data": {
            "left": row["left_path"],
            "right": row["right_path"],
            "left_id": row["left"],
            "right_id": row["right"],
        },
        "meta": {"steelyard_id": row["id"], **{key: row[key] for key in _KEPT}},
        "annotations": [
            {
                "completed_by": {"email": row["annotator"]},
                "was_cancelled": row["answer"] == Answer.CANNOT_JUDGE.value,
                "lead_time": None if shown is None else answered - shown,
                "result": result,
            }
        ],
    }


def label_studio_rows(tasks: list[Any]) -> Iterator[dict[str, Any]]:
    """Answers from tasks that Label Studio or we exported."""
    for number, task in enumerate(tasks, start=1):
        try:
            yield from _answers_of(_object(task, "a task"))
        except StudyError as error:
            raise StudyError(f"task {number}: {error}") from None


def _answers_of(task: dict[str, Any]) -> Iterator[dict[str, Any]]:
    data = _object(task.get("data") or {}, "data")
    meta = _object(task.get("meta") or {}, "meta")
    pictures = [key for key in data if not key.endswith("_id")]
    left, right = ("left", "right") if {"left", "right"} <= set(pictures) else [*pictures, "", ""][:2]
    for place, given in enumerate(_list(task.get("annotations") or [], "annotations")):
        annotation = _object(given, "an annotation")
        # What we wrote down is about the one annotation that we exported; others were added since.
        kept = meta if place == 0 else {}
        who = annotation.get("completed_by")
        if isinstance(who, dict):
            who = who.get("email") or who.get("id")
        chosen = [
            _object(result.get("value"), "a value").get("selected")
            for result in (_object(r, "a result") for r in _list(annotation.get("result") or [], "a result"))
            if result.get("type") == "pairwise"
        ]
        silent = "cannot judge" if annotation.get("was_cancelled") else "equal"
        yield {
            "answered_at": annotation.get("created_at"),
            **{key: kept[key] for key in _KEPT if key in kept},
            "id": kept.get("steelyard_id") or "",
            "left": data.get("left_id") or data.get(left),
            "right": data.get("right_id") or data.get(right),
            "answer": chosen[0] if chosen else kept.get("answer") or silent,
            "annotator": who,
        }


def _object(value: Any, what: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise StudyError(f"{what} is an object, not {str(value)[:80]!r}")
    return value


def _list(value: Any, what: str) -> list[Any]:
    if not isinstance(value, list):
        raise StudyError(f"{what} is a list, not {str(value)[:80]!r}")
    return value
