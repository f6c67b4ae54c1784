"""How a study speaks about what it compares: “more severe”, “least bleeding”, “a severity score”.

The words follow from the question. What cannot be read from it is said in terms of the score, which is always right.
"""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass

__all__ = ["Words", "read_words"]

_VERBS = "is|are|has|have|shows?|looks?|seems?|appears?|contains?|displays?|exhibits?"
_QUESTION = re.compile(
    rf"^\s*(?:which|what)\b(?:\s+[\w-]+){{0,6}}?\s+(?P<said>(?:{_VERBS})\s+[^?.!,:;(–—]+?)\s*(?:[?.!,:;(–—].*)?$",
    re.IGNORECASE | re.DOTALL,
)
# A comparison: “more severe”, “the larger ulcer”, “worse”, “clearly more bleeding”.
_BEFORE = re.compile(r"^(?:the\s+)?(?:\w+ly\s+)?", re.IGNORECASE)
_COMPARES = re.compile(r"(?:more|less|fewer|worse|better|\w{2,}er)\b", re.IGNORECASE)
_LONGEST = 60

_OTHERS = {  # comparative: what the other image is; the upper end of the scale, the lower one
    "more": ("less", "most", "least"),
    "less": ("more", "least", "most"),
    "fewer": ("more", "fewest", "most"),
    "worse": ("better", "worst", "best"),
    "better": ("worse", "best", "worst"),
}
_OF_ADJECTIVES = "is|are|looks?|seems?|appears?"  # verbs that go with an adjective, which names no scale
_SCALES = {"severe": "severity"}  # adjectives whose noun is another word


@dataclass(frozen=True)
class Words:
    """What is said of images and of the scale.

    Attributes:
        chosen: of the image that is chosen, after “left …”: “is more severe”.
        more: the same without its verb: “more severe”.
        less: of the other one: “less severe”.
        most: the upper end of the scale: “most severe”.
        least: its lower end: “least severe”.
        order: from one end to the other: “from least to most severe”.
        scale: what is measured, as in “a … score”: “severity”; empty where there is no word for it.
    """

    chosen: str
    more: str
    less: str
    most: str
    least: str
    order: str
    scale: str

    def to_dict(self) -> dict[str, str]:
        """By name, for pages."""
        return asdict(self)

    @property
    def score(self) -> str:
        """What every image gets: “severity score”."""
        return f"{self.scale} score".strip()


def read_words(question: str, more: str = "", scale: str = "") -> Words:
    """The words of a study.

    Args:
        question: that people are asked.
        more: of the image that is chosen, after “left …”; empty takes it from the question.
        scale: what is measured; empty takes it from `more`.

    >>> read_words("Which has more bleeding?").chosen, read_words("Which has more bleeding?").order
    ('has more bleeding', 'from least to most bleeding')
    >>> read_words("Which would you treat first?").chosen
    'ranks higher'
    """
    said = " ".join(more.split()) or _from_question(question)
    verb, rest = _parted(said) if said else ("ranks", "higher")
    bare = _BEFORE.sub("", rest)
    first, _, tail = bare.partition(" ")
    if first.lower() not in _OTHERS:
        return Words(
            f"{verb} {rest}", bare, "lower", "highest", "lowest", "from lowest to highest", scale.strip()
        )
    less, most, least = _OTHERS[first.lower()]
    thing = not re.fullmatch(_OF_ADJECTIVES, verb, re.IGNORECASE)
    if first.lower() == "more" and thing and re.match(r"\w+[^\Wsiu]s\b", tail):  # more polyps, fewer polyps
        less, least = "fewer", "fewest"
    noun = _SCALES.get(tail.lower(), tail if thing and least == "least" and tail.count(" ") < 2 else "")
    end = f" {tail}" if tail else ""
    return Words(
        f"{verb} {rest}", bare, f"{less}{end}", f"{most}{end}", f"{least}{end}", f"from {least} to {most}{end}",
        scale.strip() or (noun if most == "most" else ""),  # a high score of “less severe” is no high severity
    )  # fmt: skip


def _from_question(question: str) -> str:
    found = _QUESTION.match(question)
    if found is None or len(found["said"]) > _LONGEST:
        return ""
    verb, _, rest = " ".join(found["said"].split()).partition(" ")
    return f"{verb.lower()} {rest}" if _COMPARES.match(_BEFORE.sub("", rest)) else ""


def _parted(said: str) -> tuple[str, str]:
    """Verb and the rest; “is” where somebody wrote only “more severe”."""
    verb, _, rest = said.partition(" ")
    return ("is", said) if not rest or verb.lower() in _OTHERS else (verb, rest)
