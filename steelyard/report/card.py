"""The model card as a section of a study's report."""

from __future__ import annotations

from pathlib import Path

from steelyard.errors import StudyError
from steelyard.report.html import Section
from steelyard.trust.card import read_card
from steelyard.trust.card_sections import card_sections, no_card

__all__ = ["card_section"]


def card_section(folder: Path) -> list[Section]:
    """What is known about the model in this folder, and what is not."""
    title = "The model card"
    try:
        card = read_card(folder)
    except StudyError as error:
        return [Section(title, text=[f"It cannot be shown: {error}."])]
    if card is None:
        return [Section(title, text=[no_card("STUDY")])]
    parts = card_sections(card)
    first = (card.not_for, card.purpose)
    said = [text for part in parts for text in part.words if text not in (*first, card.accuracy.what)]
    figures = [f"{part.title} – {name}: {value}" for part in parts for name, value in part.facts]
    return [
        Section(title, text=first, findings=said, details=[
            ("What accuracy means here", card.accuracy.what), ("All figures of the card", "\n".join(figures))
        ]),
        Section("What is not known", findings=card.limits),
    ]  # fmt: skip
