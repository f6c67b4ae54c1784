"""What people answered earlier, given again."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from steelyard.arrays import Floats
from steelyard.errors import PairError
from steelyard.pairs import check_pairs

__all__ = ["ReplayAnnotator"]


class ReplayAnnotator:
    """Gives recorded answers: one somebody gave about the pair, in either order; NaN where nobody did.

    Where a pair was answered several times, each asking gives one of the answers by chance.

    Args:
        pairs: rows (i, j), shape (n, 2).
        answers: P1's labels for them, shape (n,).

    Raises:
        PairError: shapes that do not match, or an answer that is none of 1, 0.5 and 0.
    """

    def __init__(self, pairs: ArrayLike, answers: ArrayLike) -> None:
        rows, given = check_pairs(pairs), np.asarray(answers, dtype=np.float64).reshape(-1)
        if len(rows) != len(given):
            raise PairError(
                f"there are {len(rows)} recorded pairs and {len(given)} answers; give one answer per pair"
            )
        bad = ~np.isin(given, (0.0, 0.5, 1.0))
        if bad.any():
            raise PairError(
                f"recorded answer {int(np.flatnonzero(bad)[0])} is {given[bad][0]}; answers are 1, 0.5 or 0 (P1)"
            )
        self.recorded: dict[tuple[int, int], list[float]] = {}
        for (i, j), label in zip(rows.tolist(), given.tolist(), strict=True):
            key, value = ((i, j), label) if i < j else ((j, i), 1.0 - label)
            self.recorded.setdefault(key, []).append(value)

    @classmethod
    def read_csv(
        cls,
        path: str | Path,
        index: Mapping[str, int] | None = None,
        *,
        first: str = "image_a",
        second: str = "image_b",
        answer: str = "answer",
    ) -> ReplayAnnotator:
        """Read a CSV with a column for each image and one for the answer.

        Args:
            path: the file.
            index: catalog row by image id or path; None takes the columns for rows.
            first: column of the first image.
            second: column of the second image.
            answer: column of the answer: `1`, `0.5`, `0`, or the words `left`, `equal`, `right` (first image left);
                lines with `cannot judge` or nothing are passed over.

        Raises:
            PairError: the file or a column is missing, an image is unknown, or an answer is none.
        """
        words = {"left": 1.0, "equal": 0.5, "right": 0.0}
        pairs, answers = [], []
        try:
            with Path(path).open(newline="", encoding="utf-8-sig") as file:
                reader = csv.DictReader(file)
                missing = [name for name in (first, second, answer) if name not in (reader.fieldnames or ())]
                if missing:
                    raise PairError(
                        f"{path} has no column '{missing[0]}'; it has {', '.join(reader.fieldnames or ()) or 'none'}"
                    )
                for line, record in enumerate(reader, start=2):
                    said = (record[answer] or "").strip().lower()
                    if said in ("", "cannot judge"):
                        continue
                    try:
                        pairs.append(
                            tuple(
                                int(record[name]) if index is None else index[record[name]]
                                for name in (first, second)
                            )
                        )
                        answers.append(words[said] if said in words else float(said))
                    except KeyError as error:
                        raise PairError(
                            f"{path}, line {line}: image {error.args[0]!r} is not in the catalog"
                        ) from None
                    except ValueError as error:
                        raise PairError(f"{path}, line {line}: {error}") from None
        except FileNotFoundError:
            raise PairError(f"{path} does not exist; give a CSV of recorded answers") from None
        return cls(np.array(pairs, dtype=np.int64).reshape(-1, 2), answers)

    def answer(self, pairs: ArrayLike, rng: np.random.Generator) -> Floats:
        """What was answered about the pairs."""
        result = []
        for i, j in check_pairs(pairs).tolist():
            answers = self.recorded.get((min(i, j), max(i, j)))
            label = answers[int(rng.integers(len(answers)))] if answers else np.nan
            result.append(label if i < j else 1.0 - label)
        return np.array(result, dtype=np.float64)
