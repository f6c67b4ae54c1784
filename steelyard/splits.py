"""Folds by group: rotating 60 % train, 20 % validation, 20 % test, no group in two sets.

The images are dealt into k parts once. Fold f tests on part f, validates on part f+1 and trains on the rest, so that every
image is tested exactly once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from steelyard.arrays import Rows
from steelyard.errors import ExperimentError

__all__ = ["Split", "check_split", "folds", "halves"]


@dataclass(frozen=True)
class Split:
    """Three disjoint sets of catalog rows, each in ascending order.

    Attributes:
        train: the pool that may be asked about.
        validation: for early stopping.
        test: for nothing but the final figures.
        note: what was kept together, in one sentence.
    """

    train: Rows
    validation: Rows
    test: Rows
    note: str = ""


def folds(
    groups: ArrayLike | Sequence[str] | None,
    grades: ArrayLike | None,
    *,
    n: int,
    k: int = 5,
    seed: int = 0,
    same: ArrayLike | None = None,
    same_by: str = "perceptual hash",
) -> list[Split]:
    """Deal n images into k folds.

    Whatever must stay together – a group (patient), a cluster of near-duplicates – is dealt as one; where both are given,
    a cluster that spans two groups joins them. The largest go first, each to the part that is then closest to an equal share
    of every grade; a rare grade weighs as much as a frequent one.

    Args:
        groups: group of each image, shape (n,); None where there are none.
        grades: grade code of each image, shape (n,), −1 for unknown; None where there are none.
        n: number of images.
        k: number of folds, at least 3.
        seed: the order in which equals are dealt.
        same: near-duplicate label of each image (`images.similar.near_duplicates`); None to treat all as different.
        same_by: how those were found, for the note.

    Returns:
        k splits; split f tests on part f.

    Raises:
        ExperimentError: lengths disagree, k is too small, or there are fewer things to deal than folds.
    """
    if k < 3:
        raise ExperimentError(f"train, validation and test need at least 3 folds, not {k}")
    blocks, note = _blocks(groups, same, n, same_by)
    count = int(blocks.max()) + 1 if n else 0
    if count < k:
        what = "groups" if groups is not None else "images (near-duplicates count once)"
        raise ExperimentError(
            f"{k} folds need at least {k} {what}, but there are {count}; ask for fewer folds or add images"
        )
    codes = _codes(grades, n)
    part = _deal(blocks, codes, k, np.random.default_rng(seed))
    splits = []
    for f in range(k):
        test, validation = part == f, part == (f + 1) % k
        splits.append(
            Split(np.flatnonzero(~test & ~validation), np.flatnonzero(validation), np.flatnonzero(test), note)
        )
    return splits


def halves(
    groups: ArrayLike | Sequence[str] | None,
    grades: ArrayLike | None,
    *,
    n: int,
    seed: int = 0,
    same: ArrayLike | None = None,
) -> tuple[Rows, Rows]:
    """Deal n images into two halves, one to choose settings on and one to report: what belongs together stays together.

    Args:
        groups: as for `folds`.
        grades: as for `folds`; each half has about as many of each.
        n: number of images.
        seed: the order in which equals are dealt.
        same: as for `folds`.

    Returns:
        Rows of both halves, ascending.

    Raises:
        ExperimentError: lengths disagree, or everything belongs together.
    """
    blocks, _ = _blocks(groups, same, n, "")
    if not n or not blocks.max():
        raise ExperimentError("halves need two groups or more (near-duplicates count as one); add images")
    part = _deal(blocks, _codes(grades, n), 2, np.random.default_rng(seed))
    return np.flatnonzero(part == 0), np.flatnonzero(part == 1)


def check_split(
    split: Split, groups: ArrayLike | Sequence[str] | None = None, same: ArrayLike | None = None
) -> None:
    """Make sure that no image, group or cluster of near-duplicates is in two sets.

    Raises:
        ExperimentError: one is, and which.
    """
    sets = {"train": split.train, "validation": split.validation, "test": split.test}
    kinds: list[tuple[str, NDArray[np.generic] | None]] = [
        ("image", None),
        ("group", None if groups is None else np.asarray(groups)),
        ("cluster of near-duplicates", None if same is None else np.asarray(same)),
    ]
    for kind, labels in kinds:
        if labels is None and kind != "image":
            continue
        seen: dict[object, str] = {}
        for name, rows in sets.items():
            for label in np.unique(rows if labels is None else labels[rows]).tolist():
                if label in seen:
                    raise ExperimentError(
                        f"leak: {kind} {label!r} is in both the {seen[label]} and the {name} set; every {kind} belongs to one"
                    )
                seen[label] = name


def _blocks(
    groups: ArrayLike | Sequence[str] | None, same: ArrayLike | None, n: int, same_by: str
) -> tuple[Rows, str]:
    """Which images stay together: labels 0 … B−1, shape (n,), and the sentence that says so."""
    labels = []
    for name, given in (("groups", groups), ("near-duplicate labels", same)):
        if given is None:
            continue
        array = np.asarray(given)
        if array.shape != (n,):
            raise ExperimentError(
                f"{name} have the shape {array.shape}; one for each of the {n} images was expected"
            )
        labels.append(np.unique(array, return_inverse=True)[1].reshape(-1).astype(np.int64))
    if not labels:
        return np.arange(
            n, dtype=np.int64
        ), "split by image: there are no groups, and near-duplicates were not looked for"
    repeated = 0 if same is None else int((np.bincount(labels[-1]) > 1).sum())
    if len(labels) == 1:
        if groups is not None:
            return labels[0], f"split by group: {int(labels[0].max(initial=-1)) + 1} groups, none in two sets"
        return labels[0], (
            f"split by image: there are no groups; {repeated} clusters of near-duplicates ({same_by}) were kept together"
        )
    from scipy.sparse import coo_matrix
    from scipy.sparse.csgraph import connected_components

    first, second = labels
    size = int(first.max(initial=-1)) + 1 + int(second.max(initial=-1)) + 1
    graph = coo_matrix(
        (np.ones(n, dtype=bool), (first, second + int(first.max(initial=-1)) + 1)), shape=(size, size)
    )
    joined = connected_components(graph, directed=False)[1][first]
    blocks = np.unique(joined, return_inverse=True)[1].reshape(-1).astype(np.int64)
    return blocks, (
        f"split by group: {int(first.max()) + 1} groups, none in two sets; {repeated} clusters of near-duplicates "
        f"({same_by}) were kept together as well"
    )


def _codes(grades: ArrayLike | None, n: int) -> Rows:
    if grades is None:
        return np.zeros(n, dtype=np.int64)
    array = np.asarray(grades)
    if array.shape != (n,):
        raise ExperimentError(
            f"grades have the shape {array.shape}; one for each of the {n} images was expected"
        )
    return np.unique(array, return_inverse=True)[1].reshape(-1).astype(np.int64)


def _deal(blocks: Rows, codes: Rows, k: int, rng: np.random.Generator) -> Rows:
    """The part 0 … k−1 of each image."""
    count, grades = int(blocks.max()) + 1, int(codes.max()) + 1
    content = np.zeros((count, grades), dtype=np.int64)
    np.add.at(content, (blocks, codes), 1)
    size = content.sum(axis=1)
    weight = 1.0 / np.maximum(content.sum(axis=0), 1) ** 2
    part = np.full(count, -1, dtype=np.int64)
    filled = np.zeros((k, grades), dtype=np.int64)
    order = rng.permutation(count)
    order = order[np.argsort(-size[order], kind="stable")]
    for block in order[size[order] > 1]:
        # Putting c into a part that holds h changes Σ h² by 2·h·c + const: the least is the most even.
        cost = (filled * content[block] * weight).sum(axis=1)
        best = np.flatnonzero(cost <= cost.min() + 1e-15)
        chosen = best[np.argmin(filled[best].sum(axis=1))]
        part[block] = chosen
        filled[chosen] += content[block]
    # Single images, a grade at a time and all at once: the emptiest parts are topped up, then everybody in turn.
    single = order[size[order] == 1]
    kind = content[single].argmax(axis=1)
    for grade in range(grades):
        mine = single[kind == grade]
        part[mine] = _top_up(filled, grade, len(mine))
        filled[:, grade] += np.bincount(part[mine], minlength=k)
    # An empty part costs nothing and is the smallest, so each of the first k things dealt opens one: none stays empty.
    return part[blocks]


def _top_up(filled: Rows, grade: int, many: int) -> Rows:
    """Parts for `many` single images of a grade: water-filling, ties to the part that is smallest in all."""
    k = len(filled)
    level = filled[:, grade].copy()
    total = filled.sum(axis=1)
    share = np.zeros(k, dtype=np.int64)
    # Whole turns first, so that the loop below runs at most k times whatever the number of images.
    gap = int((level.max() - level).sum())
    if many > gap:
        turns = (many - gap) // k
        share += level.max() - level + turns
        many -= gap + turns * k
    for _ in range(many):
        height = level + share
        lowest = np.flatnonzero(height == height.min())
        share[lowest[np.argmin((total + share)[lowest])]] += 1
    return np.repeat(np.arange(k, dtype=np.int64), share)
