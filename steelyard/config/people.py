"""`[people]`: how people are prepared, checked and spared."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field, field_validator

from steelyard.config.section import Expect, Section, Share, Texts, ZeroOrMore

__all__ = ["PeopleConfig"]

_LONGEST = 20_000
_LONGEST_CAPTION = 200
_MOST_EXAMPLES = 24


class PeopleConfig(Section):
    """How people are prepared, checked and spared.

    Attributes:
        instructions: what everybody reads before their first pair: paragraphs, `# headings`, `- lists`, `**strong**` and
            `*emphasised*` words; empty shows no such page.
        examples: images below the instructions, “image: caption”, by path, unique file name or id; they are not asked about.
        consent: whether people must agree to the instructions before anything is handed to them; noted in the audit log.
        warmup: pairs with a known answer and feedback before somebody's first pair; `steelyard gold` says which; 0 for none.
        warmup_skip: whether people may skip the warm-up.
        gold_rate: share of pairs whose answer is known, hidden among the others to check people; `steelyard gold` says which.
        gold_wanted: share of hidden pairs that everybody should get right; leads see who is clearly below.
        gold_shown: whether people see their own share of hidden pairs, too, after a session.
        limit_per_day: answers that one person may give on one day of the server's clock; 0 for no limit.
        limit_per_person: answers that one person may give in all; 0 for no limit.
    """

    place: ClassVar[str] = "people"

    instructions: str = ""
    examples: Texts = ()
    consent: bool = False
    warmup: ZeroOrMore = 0
    warmup_skip: bool = False
    gold_rate: Annotated[float, Field(ge=0, le=0.5), Expect("a share between 0 and 0.5")] = 0.0
    gold_wanted: Share = 0.8
    gold_shown: bool = False
    limit_per_day: ZeroOrMore = 0
    limit_per_person: ZeroOrMore = 0

    @field_validator("instructions")
    @classmethod
    def _can_be_read(cls, text: str) -> str:
        if len(text) > _LONGEST:
            raise ValueError(
                f"'people.instructions' has {len(text):,} characters, and nobody reads more than {_LONGEST:,}; shorten it"
            )
        if any(not (c.isprintable() or c in "\n\t\r") for c in text):
            raise ValueError("'people.instructions' holds control characters; write plain text")
        return text

    @field_validator("examples")
    @classmethod
    def _have_captions(cls, examples: tuple[str, ...]) -> tuple[str, ...]:
        if len(examples) > _MOST_EXAMPLES:
            raise ValueError(
                f"'people.examples' has {len(examples)} images, and {_MOST_EXAMPLES} are the most; leave some out"
            )
        for example in examples:
            image, colon, caption = example.partition(": ")
            if not (colon and image.strip() and caption.strip()) or not example.isprintable():
                raise ValueError(
                    f"'people.examples' holds “image: caption”, as in 'ward-3/0001.png: mild redness'; not {example[:80]!r}"
                )
            if len(caption) > _LONGEST_CAPTION:
                raise ValueError(
                    f"a caption in 'people.examples' has at most {_LONGEST_CAPTION} characters; shorten {caption[:40]!r}"
                )
        return examples

    def conflict(self) -> str:
        """Why these values cannot stand together; empty where they can."""
        if not self.instructions.strip():
            if self.consent:
                return "'people.consent' needs something to agree to; write it into 'people.instructions'"
            if self.examples:
                return "'people.examples' stand below the instructions; write some into 'people.instructions'"
        if self.warmup_skip and not self.warmup:
            return "'people.warmup_skip' has no effect without a warm-up; set 'people.warmup'"
        if self.gold_shown and not self.gold_rate:
            return "'people.gold_shown' has no effect without hidden pairs; set 'people.gold_rate'"
        return ""
