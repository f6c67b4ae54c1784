"""The model card: what a model is for, what it was made from, how right it is, and what nobody knows about it.

A typed record that is written beside the model when it is made and never changed. Numbers stand beside plain words; what is
not known is null, and the words say why. It names no person, no path and no address: it may be shown around.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from steelyard.errors import StudyError
from steelyard.files import write_atomically

__all__ = [
    "CARD",
    "PURPOSE",
    "AccuracyPart",
    "AnswersPart",
    "CalibrationPart",
    "Card",
    "DataPart",
    "DomainPart",
    "GradesPart",
    "RankerPart",
    "read_card",
    "save_card",
]

CARD = "card.json"

PURPOSE = (
    "Puts the images of one study in order, {order}, and gives each a score with its uncertainty, for research: how images "
    "compare, how they are spread, which ones a person should look at."
)
NOT_FOR = (
    "Not a medical device. It is not for diagnosis, for triage, for deciding about the treatment of a person, or for images of "
    "another organ, camera or population than those it was made from, until somebody has measured it there."
)


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True)


class DataPart(_Part):
    """The images. `groups` is null where no groups (patients) are known."""

    words: str
    images: int
    used: int
    unreadable: int
    excluded: int
    groups: int | None
    graded: int
    grades: dict[str, int]
    kind: str
    fingerprint: str


class AnswersPart(_Part):
    """What people said, of what the model learnt from or was measured by. Times are UTC, seconds since 1970.

    `question` is the newest wording, `questions` how many answers were given to each; "" is a wording that was not noted, or
    that of answers from elsewhere.
    """

    words: str
    question: str
    questions: dict[str, int] = {}
    count: int
    learnt: int
    pairs: int
    people: int
    virtual: int
    equal: int
    cannot_judge: int
    repeats: int
    random: int
    first_at: float | None
    last_at: float | None


class RankerPart(_Part):
    """What was fitted, with all its settings."""

    words: str
    kind: str
    encoder: str
    weights: str
    settings: dict[str, Any]


class AccuracyPart(_Part):
    """How many unseen pairs are ordered right, and its 95% interval."""

    words: str
    what: str
    estimate: float | None = None
    low: float | None = None
    high: float | None = None
    pairs: int = 0


class CalibrationPart(_Part):
    """Whether stated probabilities come true, on random pairs, each predicted without its own answers.

    `stated` is the mean probability of the likelier side, `observed` how often that side was chosen (a tie counts half), with
    its 95% interval; `ece` is the expected calibration error, and `ece_by_chance` what perfect probabilities would show with so
    few pairs.
    """

    words: str
    stated: float | None = None
    observed: float | None = None
    low: float | None = None
    high: float | None = None
    ece: float | None = None
    ece_by_chance: float | None = None
    brier: float | None = None
    pairs: int = 0


class GradesPart(_Part):
    """How well scores turn into grades, on graded images whose group was left out. `size` counts the grades in an interval."""

    words: str
    names: list[str] = []
    images: int = 0
    groups: int = 0
    level: float | None = None
    size: float | None = None
    exact: float | None = None


class DomainPart(_Part):
    """Whether images unlike the study's are noticed; `flagged` counts the study's own."""

    words: str
    checked: bool = False
    flagged: int | None = None
    false_alarms: float | None = None


class Card(_Part):
    """Everything about one model."""

    version: int = 1
    study: str
    round: int
    made: str
    purpose: str
    not_for: str = NOT_FOR
    data: DataPart
    answers: AnswersPart
    ranker: RankerPart
    accuracy: AccuracyPart
    calibration: CalibrationPart
    grades: GradesPart
    domain: DomainPart
    limits: list[str]
    seed: int
    versions: dict[str, str | None]

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return self.model_dump(mode="json")


def save_card(folder: Path, card: Card) -> None:
    """Write the card beside the model that is made in this folder."""
    text = json.dumps(card.to_dict(), indent=2, ensure_ascii=False, allow_nan=False)
    write_atomically(folder / CARD, f"{text}\n")


def read_card(folder: Path) -> Card | None:
    """The card in a model's folder; None where there is none, as of every model made before there were cards.

    Raises:
        StudyError: the card is damaged.
    """
    try:
        return Card.model_validate_json((folder / CARD).read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValidationError) as error:
        what = (
            error.strerror
            if isinstance(error, OSError)
            else f"{error.error_count()} fields are not as expected"
        )
        raise StudyError(
            f"the model card of {folder.name} cannot be read ({what}); train again with: steelyard train"
        ) from error
