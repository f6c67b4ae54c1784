"""What was noticed while a catalog was made: left out, found twice, oddly named – each by name, with the reason."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

__all__ = ["CatalogReport", "Duplicate", "Noticed", "SameName"]


@dataclass(frozen=True)
class Noticed:
    """A file and what is the matter with it."""

    path: str
    reason: str

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}"


@dataclass(frozen=True)
class Duplicate:
    """A file with the same bytes as another, which stays in the catalog in its place.

    Attributes:
        path: the file left out.
        kept: the file that stays.
        conflict: how the two disagree in grade or group; empty when they do not.
    """

    path: str
    kept: str
    conflict: str = ""

    def __str__(self) -> str:
        return f"{self.path}: same bytes as {self.kept}" + (f", but {self.conflict}" if self.conflict else "")


@dataclass(frozen=True)
class SameName:
    """Different images in different folders that share a file name."""

    name: str
    paths: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.name}: the name of {len(self.paths)} different images ({', '.join(self.paths)})"


@dataclass(frozen=True)
class CatalogReport:
    """Everything noticed.

    Attributes:
        bad: files left out because they are no images.
        duplicates: files left out because another has the same bytes.
        same_names: file names that occur in several folders; all of them stay in.
        mislabelled: images whose suffix names another format; they stay in.
        passed_over: number of other files by suffix (CSV, text …).
        notes: other decisions somebody may want to know.
    """

    bad: tuple[Noticed, ...] = ()
    duplicates: tuple[Duplicate, ...] = ()
    same_names: tuple[SameName, ...] = ()
    mislabelled: tuple[Noticed, ...] = ()
    passed_over: tuple[tuple[str, int], ...] = ()
    notes: tuple[str, ...] = ()

    def lines(self, most: int = 10) -> list[str]:
        """Sentences for people, at most so many examples of each kind."""
        lines = []
        for what, found in (
            ("left out, not readable as images", self.bad),
            ("left out, same bytes as another", self.duplicates),
            ("file names in several folders", self.same_names),
            ("with a suffix of another format", self.mislabelled),
        ):
            if found:
                lines.append(f"{len(found)} {what}:")
                lines += [f"  {item}" for item in found[:most]]
                lines += [f"  … and {len(found) - most} more"] * (len(found) > most)
        if self.passed_over:
            kinds = ", ".join(f"{count} {suffix or 'without suffix'}" for suffix, count in self.passed_over)
            lines.append(f"passed over: {kinds}")
        return lines + list(self.notes)

    def __str__(self) -> str:
        return "\n".join(self.lines()) or "nothing to report"

    def to_json(self) -> str:
        """As one JSON object; `from_json` is its inverse."""
        return json.dumps(asdict(self), ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> CatalogReport:
        """Read what `to_json` wrote."""
        values = json.loads(text)
        return cls(
            bad=tuple(Noticed(**item) for item in values["bad"]),
            duplicates=tuple(Duplicate(**item) for item in values["duplicates"]),
            same_names=tuple(SameName(item["name"], tuple(item["paths"])) for item in values["same_names"]),
            mislabelled=tuple(Noticed(**item) for item in values["mislabelled"]),
            passed_over=tuple((suffix, count) for suffix, count in values["passed_over"]),
            notes=tuple(values["notes"]),
        )
