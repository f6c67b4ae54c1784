"""Bodies about how well people agree, and how reliable each of them is."""

from __future__ import annotations

from pydantic import BaseModel, Field

__all__ = ["AgreementOut", "AloneImage", "AloneOut", "FigureOut", "JudgeOut", "PersonOut", "TwoPeople"]


class FigureOut(BaseModel):
    """One figure about all answers together, with its 95% interval and what it means; null where nothing can be said yet."""

    key: str
    name: str
    value: float | None
    low: float | None
    high: float | None
    percent: bool = Field(description="Whether it is a share.")
    shown: str = Field(description="The figure with its interval, for people.")
    means: str


class JudgeOut(BaseModel):
    """What the model has learnt about how somebody answers (docs/ranker.md)."""

    worth: float = Field(description="How many answers of an ordinary judge one of theirs is worth.")
    lapse: float = Field(description="Share of answers that seem to be given without looking.")
    pull: float = Field(description="Towards the left image, in units of score; below 0 towards the right.")
    tie: float = Field(description="How many times as wide a difference they call equal.")
    answers: int = Field(description="That this was learnt from.")
    flagged: bool = Field(description="Whether their answers look like guesses.")
    sentence: str


class PersonOut(BaseModel):
    """One person's figures; null where there is nothing to tell them from. docs/statistics.md defines each."""

    annotator: str
    answers: int
    equal: int
    cannot_judge: int
    seconds: float | None = Field(description="Median from shown to answered.")
    left_share: float | None
    left_low: float | None
    left_high: float | None
    repeats: int = Field(description="Questions asked again.")
    repeats_alike: int
    repeats_low: float | None
    repeats_high: float | None
    triangles: int
    circular: int
    circular_expected: float
    others: int = Field(description="Comparisons with others' answers; 0 for annotators, who are not told.")
    others_alike: float | None
    in_line: float | None
    in_line_expected: float | None
    infit: float | None
    infit_others: float | None
    outfit: float | None
    quick_gap: float | None
    quick_low: float | None
    quick_high: float | None
    flags: list[str] = Field(description="side, guessing, erratic, quick")
    about: list[str] = Field(description="A sentence for each flag: what stands out and what to do.")
    judge: JudgeOut | None = Field(
        None, description="For leads, where the model has learnt its judges; else null."
    )


class TwoPeople(BaseModel):
    """How two people agree on the pairs that both answered."""

    first: str
    second: str
    pairs: int
    agreement: float | None
    kappa: float | None


class AgreementOut(BaseModel):
    """How well people agree. An annotator gets their own line alone, and of that only what their own answers tell."""

    answers: int
    sentence: str
    against: str = Field(description="What answers were held against: the model, or the other answers.")
    figures: list[FigureOut]
    people: list[PersonOut]
    between: list[TwoPeople]


class AloneImage(BaseModel):
    """An image on which the answers and the model differ; scores are in logits of the answers."""

    id: str
    answers: int
    alone: float
    alone_low: float
    alone_high: float
    placed: float = Field(description="The model's score on the same scale.")
    placed_low: float
    placed_high: float
    infit: float | None
    outfit: float | None
    sentence: str


class AloneOut(BaseModel):
    """Scores from the answers alone beside the model's: the images on which they differ, the least likely by chance first."""

    sentence: str
    total: int
    images: list[AloneImage]
