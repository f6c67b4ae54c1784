"""Alembic runs this file; it works on the connection and in the transaction that `store/opening.py` holds."""

from __future__ import annotations

from alembic import context

context.configure(connection=context.config.attributes["connection"], transactional_ddl=True)
context.run_migrations()
