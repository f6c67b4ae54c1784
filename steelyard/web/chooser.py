"""A process of its own that chooses pairs for `steelyard serve`; in tests the asker's thread does it itself.

With fifty people at work a pair has to be chosen every twenty milliseconds. Done in the page's process, every answer
would wait for Python's one lock between two steps of that arithmetic; a process that steps back a little behind the page
costs the same and holds up nobody. It only chooses: SQLite has one writer at a time, and one that is asked to step back
would make every answer wait for it, so the page's process puts the pairs up.
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import BinaryIO

from steelyard.store.records import NewPair
from steelyard.study import Study
from steelyard.study.following import ConfigFollower
from steelyard.web.child import Child, answer, answer_requests, exactly
from steelyard.web.priority import step_back

__all__ = ["Chooser"]

NICE = 5  # behind the page, before the trainer
TIMEOUT_SECONDS = 300.0


class Chooser:
    """A process that chooses pairs when asked."""

    def __init__(self, study_folder: Path) -> None:
        self._child = Child(__name__, study_folder, timeout=TIMEOUT_SECONDS, task="choosing", threads=1)

    def draft(self, missing: int) -> list[NewPair] | None:
        """As `Questions.draft_for_page`.

        Raises:
            StudyError: choosing failed, or the process ended.
        """
        chosen = self._child.ask(missing.to_bytes(8, "little"))["pairs"]
        return None if chosen is None else [NewPair(**pair) for pair in chosen]

    def stop(self) -> None:
        """End the process."""
        self._child.stop()


def _draft(file: ConfigFollower, study: Study, request: BinaryIO) -> dict[str, object]:
    missing = int.from_bytes(exactly(request, 8), "little")
    file.follow(study)  # the page may have changed it
    study.follow()  # and others may have added images
    chosen = study.questions.draft_for_page(missing)
    return {"pairs": chosen and [asdict(pair) for pair in chosen]}


def _main(folder: str) -> None:
    file, stood_back = ConfigFollower(), False

    def reply(study: Study, request: BinaryIO) -> dict[str, object]:
        nonlocal stood_back
        said = _draft(file, study, request)
        if not stood_back:  # the first choice is what the first person looks at an empty page for
            step_back(NICE)
            stood_back = True
        return said

    answer_requests(folder, reply)


if __name__ == "__main__":
    answer(_main)
