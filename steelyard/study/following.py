"""What `study.toml` says now, for processes that go on while somebody changes it."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from steelyard.config import StudyConfig
from steelyard.errors import ConfigError, StudyError
from steelyard.study.wording import check_grades

if TYPE_CHECKING:
    from steelyard.study.study import Study

__all__ = ["ConfigFollower"]

log = logging.getLogger("steelyard")


class ConfigFollower:
    """Keeps the configuration of an open study what its file says.

    A file that cannot be read – somebody is typing – or that would give grades another meaning stops nobody: it is said once, and the last one that could be read
    counts until it is mended. A strategy that is not installed here was told at opening; fits need none, and whoever
    chooses pairs hears of it.
    """

    def __init__(self) -> None:
        self._said = ""

    def follow(self, study: Study) -> None:
        """Take up what the file says."""
        path = study.folder / "study.toml"
        try:
            found = StudyConfig.load(path, any_strategy=True)
            if found != study.config:
                check_grades(study.store, found, study.catalog, str(path))
            study.config = found
        except (ConfigError, StudyError) as error:
            if str(error) != self._said:
                log.error("%s; going on with the settings as they were until it is mended", error)
            self._said = str(error)
            return
        if self._said:
            log.warning("%s can be read again; its settings count from now on", path)
        self._said = ""
