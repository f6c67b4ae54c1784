"""Where a deployment's database is: study.toml says it, STEELYARD_STORE may say otherwise, a password comes from outside.

A study's folder travels – into backups, onto other machines – and a password should not travel with it.
"""

from __future__ import annotations

import os

from sqlalchemy.engine import URL
from sqlalchemy.util import immutabledict

from steelyard.errors import ConfigError
from steelyard.store.database import read_url

__all__ = ["address", "kept_address", "named_from_outside"]

_STORE = "STEELYARD_STORE"


def named_from_outside() -> bool:
    """Whether STEELYARD_STORE says where the database is."""
    return bool(os.environ.get(_STORE))


def address(kept: str) -> str:
    """The URL to open: what STEELYARD_STORE says in place of what the study keeps, whose options behind `?` stay.

    Raises:
        ConfigError: the variable names a file of SQLite, which would be every study's.
        StoreError: it is no URL of a store.
    """
    named = os.environ.get(_STORE, "")
    if not named:
        return kept
    url = _postgresql(named)
    if kept:
        url = url._replace(query=immutabledict({**read_url(kept).query, **url.query}))
    return url.render_as_string(hide_password=False)


def kept_address(given: str) -> str:
    """What a new study keeps of the address of its database: what was given, or STEELYARD_STORE without its password.

    Args:
        given: by option; empty takes the variable.

    Raises:
        ConfigError: both are given and differ; the variable would win as soon as the study is opened.
        StoreError: one of them is no URL of a store.
    """
    if not named_from_outside():
        return given
    url = read_url(address(given))._replace(password=None)
    if given and read_url(given)._replace(password=None, query=url.query) != url:
        raise ConfigError(
            f"--store and {_STORE} name different databases, and the variable counts whenever the study is opened; leave "
            "one out"
        )
    return url.render_as_string(hide_password=False)


def _postgresql(named: str) -> URL:
    url = read_url(named)
    if url.get_backend_name() == "sqlite":
        raise ConfigError(
            f"{_STORE} names a PostgreSQL database, as in postgresql+psycopg://user@host/database; a study in a file is in "
            "its folder, without the variable"
        )
    return url
