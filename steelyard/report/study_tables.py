"""The tables of a study's report: who answered, the ends of a scale, images unlike the others."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from steelyard.config.words import Words
from steelyard.report.tables import Table
from steelyard.study.domain import sentence

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["ends_table", "people_table", "unlike_table"]


def people_table(status: dict[str, Any], agreement: dict[str, Any]) -> Table:
    """A row a person."""
    model, self_, side = (agreement.get(key) or {} for key in ("with the model", "with themselves", "side"))
    rows = []
    for name, count in status["annotators"].items():
        repeats = self_.get(name)
        rows.append(
            [
                name,
                f"{count:,}",
                _percent(model.get(name)),
                f"{_percent(repeats['agreement'])} of {repeats['repeats']}" if repeats else "–",
            ]
        )
    parts = []
    if side.get("share left") is not None:
        parts.append(
            f"The left image was chosen in {side['share left']:.1%} of the clear answers (p = {side['p']:.2f} against one half)."
        )
    between = agreement.get("between people") or {}
    if between.get("fleiss kappa") is not None:
        parts.append(
            f"Fleiss' kappa over {between['pairs answered by several']} pairs answered by several people: {between['fleiss kappa']:.2f}."
        )
    return Table(
        "people", "Who answered, and how consistently",
        ["annotator", "answers", "agree with the model", "agree with themselves"], rows, " ".join(parts),
    )  # fmt: skip


def ends_table(scores: pd.DataFrame, words: Words, many: int = 5, *, key: str = "") -> Table:
    """Each image once, with every reason why it is here.

    Args:
        scores: on one scale.
        words: of that scale.
        many: images of each kind.
        key: of a further question, empty for the main one.
    """
    ordered = scores.sort_values("rank", ignore_index=True)
    unsure = scores.sort_values("uncertainty", ascending=False).head(many)
    reasons: dict[str, list[str]] = {}
    found: dict[str, dict[Any, Any]] = {}
    for kind, part in (
        (words.most, ordered.head(many)),
        (words.least, ordered.tail(many)),
        ("least certain", unsure),
    ):
        for row in part.to_dict("records"):
            found[str(row["image"])] = row
            reasons.setdefault(str(row["image"]), []).append(kind)
    rows = [
        [
            str(row["path"] or image),
            str(row["rank"]),
            f"{float(row['score']):.2f}".replace("-", "−"),
            f"{float(row['uncertainty']):.2f}",
            ", ".join(reasons[image]),
        ]
        for image, row in sorted(found.items(), key=lambda item: int(item[1]["rank"]))
    ]
    return Table(
        f"ends-{key}" if key else "ends",
        f"The ends of the scale {key}, and the doubtful"
        if key
        else "The ends of the scale, and the doubtful",
        ["image", "rank", "score", "deviation", "one of the"],
        rows,
    )


def unlike_table(scores: pd.DataFrame, many: int = 10) -> list[Table]:
    """The images that fit in least, where any is flagged."""
    flagged = scores[scores["off_domain"] == True].sort_values("unlike", ascending=False, kind="stable")  # noqa: E712
    rows = [
        [str(row["path"] or row["image"]), str(row["rank"]), f"{math.floor(100 * float(row['unlike']))} %"]
        for row in flagged.head(many).to_dict("records")
    ]
    more = f" The first {many} are shown." if len(flagged) > many else ""
    note = f"{sentence(scores, own=True)}{more}"
    columns = ["image", "rank", "images of the study that are more typical"]
    return [Table("unlike", "Images unlike the others", columns, rows, note)] if rows else []


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{value:.0%}"
