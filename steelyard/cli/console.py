"""How the command line speaks: progress on standard error, results on standard output, JSON for machines."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

if TYPE_CHECKING:
    import pandas as pd

    from steelyard.study import Study


app = typer.Typer(
    name="steelyard",
    help="Turn “which of these two is worse?” into a severity scale with as few questions as possible.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
out = Console(highlight=False)

StudyFolder = Annotated[
    Path, typer.Argument(metavar="STUDY", help="Folder of the study.", show_default=False)
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]


class Layout(str, Enum):
    """How a folder of images is read."""

    folder = "folder"
    grades = "grades"
    csv = "csv"
    limuc = "limuc"
    hyperkvasir = "hyperkvasir"
    medmnist = "medmnist"


class PresetName(str, Enum):
    """Sets of defaults."""

    quick = "quick"
    paper = "paper"
    small = "small"
    tuned = "tuned"


@contextmanager
def opened_study(folder: Path) -> Iterator[Study]:
    from steelyard.study import Study

    study = Study.open(folder)
    try:
        yield study
    finally:
        study.close()


def deliver(table: pd.DataFrame, output: Path | None, as_json: bool) -> None:
    if output is not None:
        from steelyard.exchange import write_table

        write_table(table, output)
        if as_json:
            print_json({"rows": len(table), "file": str(output)})
        else:
            out.print(f"{len(table)} rows written to {output}", soft_wrap=True)
    elif as_json:
        print(table.to_json(orient="records"))
    else:
        from steelyard.exchange import csv_text

        print(csv_text(table), end="")


def print_json(value: Any) -> None:
    print(json.dumps(value, indent=2, ensure_ascii=False, default=str))


def deliver_facts(facts: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print_json(facts)
    else:
        print_facts(facts)


def print_facts(facts: dict[str, Any], indent: str = "") -> None:
    width = max((len(key) for key in facts), default=0)
    for key, value in facts.items():
        if isinstance(value, dict):
            out.print(f"{indent}{key}")
            print_facts(value, indent + "  ")
        elif isinstance(value, list):
            out.print(
                f"{indent}{key:<{width}}  {escape_markup(', '.join(map(str, value))) or '–'}", soft_wrap=True
            )
        else:
            shown = f"{value:.3f}" if isinstance(value, float) else "–" if value is None else str(value)
            out.print(f"{indent}{key:<{width}}  {escape_markup(shown)}", soft_wrap=True)


def escape_markup(text: str) -> str:
    from rich.markup import escape

    return escape(text)
