"""A model card as it is read: headings, a sentence or two, and names with values; the page and the report show the same."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timezone

from steelyard.errors import command
from steelyard.trust.card import Card

__all__ = ["CardSection", "card_sections", "no_card"]


@dataclass(frozen=True)
class CardSection:
    """One part of a card.

    Attributes:
        title: its heading.
        words: paragraphs.
        facts: names and values.
        points: a list of sentences.
    """

    title: str
    words: tuple[str, ...] = ()
    facts: tuple[tuple[str, str], ...] = ()
    points: tuple[str, ...] = ()


def no_card(folder: str) -> str:
    """What to say of a model without one."""
    return (
        "This model was made before models had cards, so what it rests on was not written down with it. Train again and the next "
        f"model has one: {command('train', folder)}"
    )


def card_sections(card: Card) -> list[CardSection]:
    """All parts, in the order in which somebody who has to decide by the model asks for them."""
    data, answers, accuracy, calibration = card.data, card.answers, card.accuracy, card.calibration
    grades = card.grades
    return [
        CardSection("What it is for", (card.purpose,)),
        CardSection("What it is not for", (card.not_for,)),
        CardSection(
            "How accurate it is",
            (accuracy.words, accuracy.what),
            _known(
                ("unseen pairs ordered right", _percent(accuracy.estimate)),
                ("95% interval", _interval(accuracy.low, accuracy.high)),
                ("random pairs it rests on", f"{accuracy.pairs:,}"),
            ),
        ),
        CardSection(
            "Whether its probabilities come true",
            (calibration.words,),
            _known(
                ("stated", _percent(calibration.stated)),
                ("came true", _percent(calibration.observed)),
                ("95% interval", _interval(calibration.low, calibration.high)),
                ("calibration error", _plain(calibration.ece)),
                ("by chance alone", _plain(calibration.ece_by_chance)),
                ("Brier score", _plain(calibration.brier)),
            ),
        ),
        CardSection(
            "Grades",
            (grades.words,),
            _known(
                ("graded images", f"{grades.images:,}" if grades.images else ""),
                ("groups", f"{grades.groups:,}" if grades.groups else ""),
                ("the right grade", _percent(grades.exact)),
                ("grades in an interval", _plain(grades.size)),
            ),
        ),
        CardSection("Images that do not belong", (card.domain.words,)),
        CardSection("What is not known", points=tuple(card.limits)),
        CardSection(
            "Images",
            (data.words,),
            _known(
                ("images", f"{data.images:,}"),
                ("used", f"{data.used:,}"),
                ("could not be read", f"{data.unreadable:,}"),
                ("excluded", f"{data.excluded:,}"),
                ("groups (patients)", f"{data.groups:,}" if data.groups is not None else "not known"),
                *(
                    (f"grade {name}" if name.isdigit() else name, f"{count:,}")
                    for name, count in data.grades.items()
                ),
                ("fingerprint", data.fingerprint),
            ),
        ),
        CardSection(
            "Answers",
            (answers.words,),
            _known(
                *_questions(answers.question, answers.questions),
                ("answers", f"{answers.count:,}"),
                ("people", f"{answers.people:,}"),
                ("said equal", f"{answers.equal:,}"),
                ("could not judge", f"{answers.cannot_judge:,}"),
                ("asked again", f"{answers.repeats:,}"),
                ("from", _day(answers.first_at)),
                ("to", _day(answers.last_at)),
            ),
        ),
        CardSection(
            "How it was made",
            (card.ranker.words,),
            _known(
                ("made", f"{card.made[:16].replace('T', ' ')} UTC"),
                ("seed", str(card.seed)),
                ("encoder", card.ranker.encoder),
                (
                    "weights",
                    card.ranker.weights or "the encoder's own" if card.ranker.encoder != "none" else "",
                ),
                *((name, found or "not installed") for name, found in card.versions.items()),
            ),
        ),
    ]


def _questions(newest: str, asked: dict[str, int]) -> list[tuple[str, str]]:
    """The question, or each wording with its answers where there were several."""
    if set(asked) <= {newest}:
        return [("question", newest)]
    return [("question", f"{text or 'not known'} ({count:,} answers)") for text, count in asked.items()]


def _known(*facts: tuple[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple((name, value) for name, value in facts if value)


def _percent(value: float | None) -> str:
    return "" if value is None else f"{value:.0%}"


def _interval(low: float | None, high: float | None) -> str:
    return "" if low is None or high is None else f"{low:.0%}–{high:.0%}"


def _plain(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def _day(at: float | None) -> str:
    return "" if at is None else datetime.fromtimestamp(at, timezone.utc).strftime("%Y-%m-%d %H:%M UTC")
