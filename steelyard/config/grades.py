"""The list of grades as it is written down, “name: definition” one after the other: a grade's code is its place here.

Grades that were given refer to places, so a list that is changed afterwards must not move what stands at a place.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

__all__ = ["MOST_GRADES", "GradeList", "too_many_grades"]

MOST_GRADES = 10  # each has a digit for its key on the grading page


def too_many_grades(number: int) -> str:
    """What to say of more grades than there are keys, with the remedy; empty where they fit."""
    if number <= MOST_GRADES:
        return ""
    return (
        f"{number} grades are too many: on the grading page each has a digit for its key, 0 to 9, so there are {MOST_GRADES} "
        "at most; join some of them"
    )


@dataclass(frozen=True)
class GradeList:
    """Grades in order, as somebody wrote them.

    Attributes:
        texts: “name: definition”, or just the name.

    >>> GradeList(("Mayo 0: normal", "Mayo 1")).names
    ('Mayo 0', 'Mayo 1')
    """

    texts: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.texts)

    @cached_property
    def _parts(self) -> list[tuple[str, str]]:
        split = [text.partition(":") for text in self.texts]
        parts = [(name.strip(), definition.strip()) for name, _, definition in split]
        names = [name for name, _ in parts]
        # “1:1” and “1:2” are two names, not two definitions of “1”.
        whole = not all(names) or len(set(map(_folded, names))) < len(names)
        return [(text.strip(), "") for text in self.texts] if whole else parts

    @property
    def names(self) -> tuple[str, ...]:
        """Each grade without its definition."""
        return tuple(name for name, _ in self._parts)

    @property
    def definitions(self) -> tuple[str, ...]:
        """What each grade means, "" where that is not said."""
        return tuple(definition for _, definition in self._parts)

    def find(self, cell: str) -> int | None:
        """The code of a grade by its name, or by name and definition in one cell, as older tables have it.

        >>> [GradeList(("calm", "angry: red")).find(cell) for cell in ("Calm", "angry: red spots", "2")]
        [0, 1, None]
        """
        places = {_folded(text): code for code, text in (*enumerate(self.texts), *enumerate(self.names))}
        # A colon without a space may belong to a name, as in “1:2”.
        for name in (cell, cell.partition(": ")[0]):
            if _folded(name) in places:
                return places[_folded(name)]
        return None

    def fault(self) -> str:
        """Why nobody can grade by this list, as a sentence with the remedy; empty where one can."""
        for name, times in Counter(map(_folded, self.names)).items():
            if times > 1:
                return f"the grade {name!r} is there {times} times; give each grade a name of its own"
        return too_many_grades(len(self))

    def moved(self, after: GradeList) -> list[int]:
        """Codes that would mean something else by another list.

        A name or a definition that stands at another place has moved, and so has whatever made room for it. A grade that is
        called something new in its place is renamed, and new ones at the end move nothing.

        >>> old = GradeList(("calm", "red", "angry"))
        >>> [old.moved(GradeList(new)) for new in (("calm", "pink", "angry", "worst"), ("angry", "red", "calm"), ("calm", "red"))]
        [[], [0, 2], [2]]
        """
        found = {code for code in range(len(self)) if code >= len(after)}
        for old, new in ((self.names, after.names), (self.definitions, after.definitions)):
            was, now = _places(old), _places(new)
            for word in was.keys() & now.keys():
                if was[word] != now[word]:
                    found |= {was[word], now[word]}
        return sorted(code for code in found if code < len(self))


def _folded(text: str) -> str:
    return " ".join(text.split()).casefold()


def _places(words: Sequence[str]) -> dict[str, int]:
    """Where each word stands that is there once."""
    times = Counter(map(_folded, words))
    return {
        _folded(word): code for code, word in enumerate(words) if times[_folded(word)] == 1 and _folded(word)
    }
