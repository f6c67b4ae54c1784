"""Tables to fill in: what `init --labels`, `add --labels`, `import` and `gold add` take, with a word about each column."""

from __future__ import annotations

import csv
import io
from pathlib import Path

from steelyard.errors import StudyError
from steelyard.images.files import find_images

__all__ = ["TEMPLATES", "template"]

_LABELS = """\
# Labels of a study: one row for each image. Fill it in, then: steelyard init STUDY --images DIR --labels THIS_FILE
# image: path below DIR, as in ward-3/0001.png. Needed.
# grade: what it was graded, as in 2 or mild; leave it empty where that is not known.
# group: the patient (or eye, or film) it is of, so that no patient is in training and test at once; may be called patient.
# Lines that begin with # go before the heading; they may stay.
"""
_ANSWERS = """\
# Answers given elsewhere: one row for each. Fill it in, then: steelyard import STUDY THIS_FILE
# left, right: the two images, by path below the folder of the images, by file name where that is unique, or by id. Needed.
# answer: left, right (the one that is worse), equal, or cannot judge. Needed.
# annotator: who answered. answered_at_utc: when, as in 2026-11-17T13:54:45Z. note: a remark. All three may stay empty.
# Lines that begin with # go before the heading; they may stay.
"""
_GOLD = """\
# Pairs whose answer is known: one row for each. Fill it in, then: steelyard gold STUDY add THIS_FILE
# left, right: the two images, by path below the folder of the images, by file name where that is unique, or by id. Needed.
# answer: left, right (the one that is worse) or equal. Needed. Sides are drawn anew for everybody.
# kind: gold (hidden among the others) or warm-up (before the first pair, with feedback); gold where it is empty.
# Lines that begin with # go before the heading; they may stay.
"""
_EXAMPLES = {
    "labels": [["ward-3/0001.png", "2", "patient-01"], ["ward-3/0002.png", "", "patient-01"], ["0003.png", "0", "patient-02"]],
    "answers": [
        ["ward-3/0001.png", "0003.png", "left", "Dr. K", "2026-11-17T13:54:45Z", ""],
        ["0003.png", "ward-3/0002.png", "cannot judge", "Dr. K", "2026-11-17T13:55:10Z", "blurred"],
    ],
    "gold": [["ward-3/0001.png", "0003.png", "left", "gold"], ["0003.png", "ward-3/0002.png", "right", "warm-up"]],
}  # fmt: skip
TEMPLATES = {
    "labels": (_LABELS, ("image", "grade", "group")),
    "answers": (_ANSWERS, ("left", "right", "answer", "annotator", "answered_at_utc", "note")),
    "gold": (_GOLD, ("left", "right", "answer", "kind")),
}


def template(kind: str, images: Path | None = None) -> str:
    """The text of a table to fill in.

    Args:
        kind: `labels`, `answers` or `gold`.
        images: folder whose images are listed in a table of labels; None gives a few made-up rows.

    Raises:
        StudyError: there is no such table, or it lists no images.
        CatalogError: there is no such folder.
    """
    if kind not in TEMPLATES:
        raise StudyError(f"there is no template {kind!r}; there are {', '.join(TEMPLATES)}")
    comment, columns = TEMPLATES[kind]
    rows = _EXAMPLES[kind]
    if images is not None:
        if kind != "labels":
            raise StudyError(f"--images lists images in a table of labels; {kind} are about pairs")
        rows = [[path, "", ""] for path in find_images(images).paths]
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows([columns, *rows])
    return comment + out.getvalue()
