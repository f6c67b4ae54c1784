"""How many answers count: asked in every request, so it is kept and counted on."""

from __future__ import annotations

import sqlalchemy as sa

from steelyard.store.database import Database
from steelyard.store.schema import WITHDRAWN, comparisons

__all__ = ["CountedLog"]


class CountedLog(Database):
    """Methods that count answers."""

    _counted: tuple[int, int] = 0, 0  # the last row of the log that was counted, and the answers up to there

    def answer_count(self, annotator: str | None = None, *, since: int | None = None) -> int:
        """How many answers count, of one annotator or of all.

        The number of all is kept: the log only grows, and what each row of it adds or takes away never changes.

        Args:
            annotator: only this one's.
            since: the number of all may be as old as this row of the log (which is in it), if it is kept: whoever
                wrote that row then need not ask the database again.
        """
        seq, answers = self._counted
        if annotator is None and since is not None and seq >= since > 0:
            return answers
        with self._reading() as connection:
            if annotator is not None:
                return int(connection.execute(_COUNT_OF_ONE, {"annotator": annotator}).scalar_one())
            more, last = connection.execute(_COUNT_AFTER, {"after": seq}).one()
        if last is not None:
            answers += int(more)
            if self._settled:
                self._counted = int(last), answers
        return answers

    def _count_on(self, first: int, n: int) -> None:
        """Rows from number `first` were written, `n` answers that supersede nothing."""
        seq, answers = self._counted
        if (
            seq == first - 1 and self._settled
        ):  # else somebody else wrote in between, and the next who asks reads on
            self._counted = first + n - 1, answers + n


_row, _target = comparisons.alias("later_row"), comparisons.alias("target")
# A row is an answer more, unless it is an undo; what it supersedes is one less, unless that was an undo.
_replaced = sa.select(_target.c.answer).where(_target.c.id == _row.c.supersedes).scalar_subquery()
_takes = sa.case((_row.c.answer == WITHDRAWN, 1), else_=0) + sa.case((_replaced != WITHDRAWN, 1), else_=0)
_COUNT_AFTER = sa.select(sa.func.sum(1 - _takes), sa.func.max(_row.c.seq)).where(
    _row.c.seq > sa.bindparam("after", type_=sa.BigInteger)
)

# Only rows that supersede something are looked at one by one; the others are counted in an index. "Is not null", and
# below the name, spelled so that SQLite takes the index of what supersedes.
_one = sa.bindparam("annotator", type_=sa.Text)
_COUNT_OF_ONE = sa.select(
    sa.select(sa.func.count())
    .select_from(comparisons)
    .where(comparisons.c.annotator == _one)
    .scalar_subquery()
    - sa.select(sa.func.coalesce(sa.func.sum(_takes), 0))
    .where(_row.c.supersedes > "", _row.c.annotator + "" == _one)
    .scalar_subquery()
)
