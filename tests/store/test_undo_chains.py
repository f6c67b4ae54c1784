"""Whatever people answer, send again, change and undo: what counts is what a page of plain Python says."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from steelyard.pairs import Answer
from steelyard.store.errors import ConflictError, UnknownRecordError
from steelyard.store.records import NewComparison, NewPair
from steelyard.store.store import Store

_repeats = count()
_names = count()

steps = st.lists(
    st.tuples(
        st.sampled_from(["answer", "answer", "answer", "change", "undo", "undo", "send again"]),
        st.integers(0, 2),  # which pair
        st.sampled_from(["a", "b"]),
        st.sampled_from(list(Answer)),
        st.booleans(),  # sides exchanged
        st.integers(0, 30),  # which earlier row
    ),
    max_size=25,
)


class Notebook:
    """The model: every row ever accepted, and a look at which ones count."""

    def __init__(self) -> None:
        self.rows: list[tuple[str, NewComparison | None, tuple[int, str], str | None]] = []

    def standing(self) -> dict[tuple[int, str], tuple[str, NewComparison]]:
        gone = {supersedes for _, _, _, supersedes in self.rows}
        return {key: (id, said) for id, said, key, _ in self.rows if said is not None and id not in gone}

    def may_supersede(self, id: str, key: tuple[int, str], undo: bool) -> bool:
        gone = {supersedes for _, _, _, supersedes in self.rows}
        for row, said, about, _ in self.rows:
            if row == id:
                return about == key and id not in gone and not (undo and said is None)
        return False


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=steps)
def test_what_counts_is_what_plain_python_says(
    store: Store, steps: Sequence[tuple[str, int, str, Answer, bool, int]]
) -> None:
    # New pairs for each example, so that one database serves them all.
    repeat = next(_repeats)
    pairs = store.pairs.add_all([NewPair(2 * k, 2 * k + 1, repeat=repeat) for k in range(3)])
    started = store.answers.last_seq()
    book = Notebook()
    before = store.answers.count()
    for kind, k, annotator, answer, exchanged, earlier in steps:
        assert store.answers.count() == before + len(book.standing())  # counted on from the last time
        key, id = (pairs[k], annotator), f"n{next(_names)}"
        ids = [row[0] for row in book.rows]
        target = ids[earlier % len(ids)] if ids else "nothing"
        sides = [f"{2 * k:032x}", f"{2 * k + 1:032x}"]
        left, right = reversed(sides) if exchanged else sides
        if kind == "send again":
            sent = [said for row, said, _, _ in book.rows if row == target and said is not None]
            assert all(not store.answers.add(said).created for said in sent)
            continue
        if kind == "undo":
            about = [row[2] for row in book.rows if row[0] == target]
            allowed = bool(about) and about[0][1] == annotator and book.may_supersede(target, about[0], True)
            try:
                store.answers.undo(target, annotator, id=id)
            except (ConflictError, UnknownRecordError):
                assert not allowed
            else:
                assert allowed
                book.rows.append((id, None, about[0], target))
            continue
        supersedes = target if kind == "change" else None
        said = NewComparison(pairs[k], annotator, answer, left, right, id=id, supersedes=supersedes)
        others = {key_: id_ for key_, (id_, _) in book.standing().items()}
        allowed = others.get(key, supersedes) == supersedes
        if supersedes is not None:
            allowed = allowed and book.may_supersede(supersedes, key, False)
        try:
            store.answers.add(said)
        except (ConflictError, UnknownRecordError):
            assert not allowed
        else:
            assert allowed
            book.rows.append((id, said, key, supersedes))

    log = store.answers.log(after=started)
    assert [(c.id, c.supersedes) for c in log] == [(row[0], row[3]) for row in book.rows]
    standing = book.standing()
    assert {c.id for c in log if c.effective} == {id for id, _ in standing.values()}
    arrays = store.answers.arrays(after=started)
    assert len(arrays) == len(standing)
    for pair, code, label in zip(
        arrays.pair.tolist(), arrays.annotator.tolist(), arrays.labels.tolist(), strict=True
    ):
        _, said = standing[pair, arrays.annotators[code]]
        stands_left = said.left == store.pairs.get(pair).first
        expected = (said.answer if stands_left else said.answer.mirrored()).label
        np.testing.assert_equal(label, np.nan if expected is None else expected)
    everything = store.answers.arrays()
    assert store.answers.count() == len(everything)
    for code, name in enumerate(everything.annotators):
        assert store.answers.count(name) == (everything.annotator == code).sum()
    answered = {pair for pair, _ in standing}
    assert [store.pairs.get(pair).open for pair in pairs] == [pair not in answered for pair in pairs]
