"""A virtual annotator at a study's pairs, for trials without people."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from steelyard.loop.chance import Purpose
from steelyard.pairs import Answer

if TYPE_CHECKING:
    from steelyard.annotators import VirtualAnnotator
    from steelyard.study.study import Study

__all__ = ["simulate"]

_AT_ONCE = 200


def simulate(study: Study, annotator: VirtualAnnotator, n: int | None, name: str) -> int:
    """Let a virtual annotator answer the pairs that are up.

    Args:
        study: whose pairs.
        annotator: who knows the truth about every image of the catalog.
        n: answers at most; None answers everything that is up.
        name: under which the answers are recorded.

    Returns:
        Answers given.
    """
    given = 0
    while n is None or given < n:
        pairs = study.lease(_AT_ONCE if n is None else min(_AT_ONCE, n - given), name)
        if not pairs:
            break
        rows = [study.catalog.rows_of([pair.left, pair.right]) for pair in pairs]
        rng = study.chance.rng(Purpose.ANSWERS, study.store.answers.last_seq())
        for pair, label in zip(pairs, annotator.answer(rows, rng).tolist(), strict=True):
            answer = Answer.CANNOT_JUDGE if np.isnan(label) else Answer.from_label(label)
            study.tell(pair, answer, annotator=name, source="virtual")
        given += len(pairs)
    return given
