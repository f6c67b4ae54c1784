"""Models that were trained, and the one lease that says who trains now."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import sqlalchemy as sa

from steelyard.store import fields
from steelyard.store.database import Database
from steelyard.store.errors import ConflictError
from steelyard.store.records import Model, NewModel, TrainerState
from steelyard.store.schema import models, trainer

__all__ = ["Models", "Trainer"]

_NAME = "trainer"


class Models:
    """Models that were announced; the newest is in use.

    Attributes:
        trainer: who trains now.
        arrived: whether the files of a model are on this machine, where they come from another one; None where they always are.
    """

    def __init__(self, database: Database) -> None:
        self._db = database
        self.arrived: Callable[[Model], bool] | None = None
        self.trainer = Trainer(database)

    def add(self, new: NewModel, *, trainer: str | None = None, now: float | None = None) -> int:
        """Announce a model; the newest announced one is in use.

        Args:
            new: the model.
            trainer: who trained it. A trainer that was taken for dead and replaced must not announce any more.
            now: seconds since 1970; None asks the database.

        Returns:
            Its number.

        Raises:
            ConflictError: `trainer` does not hold the lease.
        """
        values = {
            "round": fields.number(new.round, "a round", most=2**31 - 1),
            "path": fields.text(new.path, "a model's path", most=4096),
            "fingerprint": fields.text(new.fingerprint, "a model's fingerprint"),
            "comparisons_seq": fields.number(new.comparisons_seq, "comparisons_seq"),
            "grades_seq": fields.number(new.grades_seq, "grades_seq"),
            "metrics": fields.document(new.metrics, "the metrics of a model"),
            "config": fields.document(new.config, "the configuration of a model"),
        }
        with self._db.writing() as connection:
            at = self._db.clock(connection, now)
            if trainer is not None:
                holder = sa.select(_table.c.owner).where(_table.c.name == _NAME).with_for_update()
                if connection.execute(holder).scalar() != trainer:
                    raise ConflictError(
                        f"{trainer!r} does not hold the trainer's lease any more; its model is not announced"
                    )
            self._db.lock_log(connection)
            insert = sa.insert(models).values(**values, created=at).returning(models.c.id)
            return int(connection.execute(insert).scalar_one())

    def newest(self) -> Model | None:
        """The model in use, or None before the first: the newest that is here."""
        if self.arrived is not None:
            return next(iter(reversed(self.here())), None)
        with self._db.reading() as connection:
            row = (
                connection.execute(sa.select(models).order_by(models.c.id.desc()).limit(1))
                .mappings()
                .one_or_none()
            )
        return None if row is None else Model(**row)

    def here(self) -> list[Model]:
        """Models whose files are on this machine, in the order they were announced."""
        return [model for model in self.all() if self.arrived is None or self.arrived(model)]

    def all(self, after_id: int = 0, limit: int | None = None) -> list[Model]:
        """Models in the order they were announced."""
        query = sa.select(models).where(models.c.id > after_id).order_by(models.c.id).limit(limit)
        with self._db.reading() as connection:
            return [Model(**row) for row in connection.execute(query).mappings()]


class Trainer:
    """The one lease that says who trains now, and how far."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def claim(self, owner: str, seconds: float, *, now: float | None = None) -> bool:
        """Become the trainer if nobody is, or if the one there gave no sign of life in time.

        Args:
            owner: a name that no other process has.
            seconds: how long the lease lasts without a heartbeat.
            now: seconds since 1970; None asks the database.

        Returns:
            Whether `owner` is the trainer now.
        """
        fields.name(owner, "a trainer's name")
        fields.positive(seconds, "the time of a lease")
        with self._db.writing() as connection:
            at = self._db.clock(connection, now)
            claim = {"owner": owner, "expires": at + seconds, "heartbeat": at}
            insert = self._db.insert(_table).values(name=_NAME, progress={}, **claim)
            free = sa.or_(_table.c.expires <= at, _table.c.owner == owner)
            upsert = insert.on_conflict_do_update(index_elements=["name"], set_=claim, where=free)
            return bool(connection.execute(upsert.returning(_table.c.name)).first())

    def heartbeat(
        self, owner: str, progress: Mapping[str, Any], *, seconds: float, now: float | None = None
    ) -> bool:
        """Show that the trainer lives and how far it is.

        Returns:
            False when somebody else took over: stop training then.
        """
        fields.positive(seconds, "the time of a lease")
        with self._db.writing() as connection:
            at = self._db.clock(connection, now)
            values = {
                "expires": at + seconds,
                "heartbeat": at,
                "progress": fields.document(dict(progress), "progress"),
            }
            mine = sa.and_(_table.c.name == _NAME, _table.c.owner == owner)
            return connection.execute(sa.update(_table).where(mine).values(values)).rowcount == 1

    def release(
        self, owner: str, progress: Mapping[str, Any] | None = None, *, now: float | None = None
    ) -> bool:
        """Stop being the trainer, leaving a last word.

        Returns:
            Whether `owner` was the trainer.
        """
        with self._db.writing() as connection:
            at = self._db.clock(connection, now)
            values: dict[str, Any] = {"expires": at, "heartbeat": at}
            if progress is not None:
                values["progress"] = fields.document(dict(progress), "progress")
            mine = sa.and_(_table.c.name == _NAME, _table.c.owner == owner, _table.c.expires > at)
            return connection.execute(sa.update(_table).where(mine).values(values)).rowcount == 1

    def state(self, *, now: float | None = None) -> TrainerState:
        """Who trains now, and how far."""
        with self._db.reading() as connection:
            at = self._db.clock(connection, now)
            row = connection.execute(sa.select(_table).where(_table.c.name == _NAME)).mappings().one_or_none()
        if row is None:
            return TrainerState(None, None, 0.0, 0.0, {})
        owner = row["owner"] if row["expires"] > at else None
        return TrainerState(owner, row["owner"], row["expires"], row["heartbeat"], row["progress"])


_table = trainer  # methods have an argument of that name
