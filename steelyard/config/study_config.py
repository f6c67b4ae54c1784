"""The configuration of a study, read from and written to `study.toml`."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from steelyard.config.ask import ANY_STRATEGY, AskConfig
from steelyard.config.commented import END, is_cut, with_comments
from steelyard.config.images import ImagesConfig
from steelyard.config.old import VERSION, study_words, upgrade
from steelyard.config.page import PageConfig
from steelyard.config.people import PeopleConfig
from steelyard.config.presets import RankerField, change_ranker
from steelyard.config.questions import QuestionConfig, check_questions
from steelyard.config.ranker import ConvexConfig
from steelyard.config.section import Expect, Section, ZeroOrMore
from steelyard.errors import ConfigError
from steelyard.files import write_atomically

if TYPE_CHECKING:
    from typing_extensions import Self

if sys.version_info >= (3, 11):
    import tomllib
else:  # pragma: no cover
    import tomli as tomllib

__all__ = ["StudyConfig"]


class StudyConfig(Section):
    """Everything about a study, one section a room.

    Attributes:
        name: what people call it.
        seed: where all chance of the study comes from.
        store: database URL; empty is `study.db` (SQLite) in the study folder.
        models: URL of a folder (s3://…, file:///…) through which workers without the study folder share models; empty for none.
        refit_after: how many new answers there are before the model is fitted again.
        images: where the images are.
        ranker: the score and how it is learnt.
        ask: what is asked, of whom, and how much.
        page: what annotators see.
        people: how people are prepared, checked and spared.
        questions: further questions about every pair, each with a scale of its own: a table [[questions]] each.
    """

    name: str = ""
    seed: ZeroOrMore = 0
    store: str = ""
    models: str = ""
    refit_after: Annotated[int, Field(ge=1), Expect("1 or more answers")] = 20
    images: ImagesConfig = Field(default_factory=ImagesConfig)
    ranker: RankerField = Field(default_factory=ConvexConfig)
    ask: AskConfig = Field(default_factory=AskConfig)
    page: PageConfig = Field(default_factory=PageConfig)
    people: PeopleConfig = Field(default_factory=PeopleConfig)
    questions: Annotated[
        tuple[QuestionConfig, ...], Field(strict=False), Expect("a list of tables, [[questions]] each")
    ] = ()

    @classmethod
    def from_dict(
        cls, values: Mapping[str, Any], *, source: str = "configuration", context: Any = None
    ) -> Self:
        """Build from nested dictionaries, as `to_dict` gives them or as somebody writes them.

        Raises:
            ConfigError: an unknown key (with the nearest known one) or a bad value.
        """
        current = values if "version" in values else {"version": VERSION, **values}
        return super().from_dict(upgrade(current, source), source=source, context=context)

    @classmethod
    def load(cls, path: Path, *, any_strategy: bool = False) -> StudyConfig:
        """Read a `study.toml` of this version or an older one.

        Args:
            path: the file.
            any_strategy: take strategies that are not installed here, for whatever looks after a study without asking.

        Raises:
            ConfigError: the file is missing, is no TOML, holds something unknown, or was written by a newer version.
        """
        try:
            text = path.read_text(encoding="utf-8")
            values = tomllib.loads(text)
        except FileNotFoundError:
            raise ConfigError(
                f"{path} does not exist; make a study with: steelyard init STUDY --images DIR"
            ) from None
        except OSError as error:
            raise ConfigError(
                f"{path} cannot be read: {error.strerror}; it belongs to whoever runs the study"
            ) from None
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise ConfigError(
                f"{path} is not valid TOML: {error}; mend it, or restore a backup with: steelyard restore"
            ) from None
        # What a power cut leaves of a file would be another study, with the defaults of what is missing.
        if not values:
            raise ConfigError(f"{path} is empty; restore a backup with: steelyard restore")
        if is_cut(text):
            raise ConfigError(
                f"{path} was cut short: its last line is missing; restore a backup with: steelyard restore, or, if all settings "
                f"are there, put the line back: {END}"
            )
        return super().from_dict(
            upgrade(values, str(path)), source=str(path), context=ANY_STRATEGY if any_strategy else None
        )

    def to_dict(self) -> dict[str, Any]:
        """Nested plain dictionaries with the version, as they stand in TOML and JSON; only settings that have an effect."""
        values = super().to_dict()
        idle = self.ranker.unused()
        values["ranker"] = {key: value for key, value in values["ranker"].items() if key not in idle}
        if not self.questions:
            del values["questions"], values["page"]["weight"]
        return {"version": VERSION, **values}

    def conflict(self) -> str:
        """Why these values cannot stand together, as a sentence with the remedy; empty where they can."""
        if self.questions and self.ranker.kind == "network":
            return (
                "[[questions]] are learnt by the convex ranker, one head each on shared features, and this study has a network; "
                'choose [ranker] kind = "convex" (--preset quick), or make a study for each question'
            )
        if not self.questions and self.page.weight != 1.0:
            return (
                "'page.weight' has no effect without further questions; leave it at 1.0, or add [[questions]]"
            )
        if self.questions and not (self.page.weight or any(one.weight for one in self.questions)):
            return "'page.weight' and every 'questions.weight' are 0, so no composite score is left; give one of them another weight"
        return check_questions(self.page.question, self.questions)

    def save(self, path: Path) -> None:
        """Write as TOML with comments, replacing the file in one step; comments that people wrote into it stay."""
        try:
            before = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            before = ""
        write_atomically(path, with_comments(self, self.to_dict(), before))

    def with_changes(self, **changes: Any) -> Self:
        """A copy with some keys changed: `config.with_changes(ask={"raters": 2}, seed=3)`.

        Raises:
            ConfigError: an unknown key or a bad value.
        """
        wanted = study_words(changes)
        for name, change in wanted.items():
            if not isinstance(change, dict):
                continue
            if name == "ranker":
                wanted[name] = change_ranker(self.ranker, change)
            elif isinstance(section := getattr(self, name, None), Section):
                wanted[name] = section.with_changes(**change)
        return super().with_changes(**wanted)
