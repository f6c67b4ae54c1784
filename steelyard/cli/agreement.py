"""The command about people: how well their answers agree, and how reliable each of them is."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from steelyard.cli.console import (
    AsJson,
    StudyFolder,
    app,
    deliver,
    escape_markup,
    opened_study,
    out,
    print_json,
)

if TYPE_CHECKING:
    import pandas as pd


@app.command()
def agreement(
    study: StudyFolder,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o", "--output", help="people.csv, people.parquet or people.json: a row for each person."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """How well answers agree: between people, with themselves, with the model; and how reliable each person is.

    Every figure comes with its 95% interval and a sentence that says what it means and what to do; docs/statistics.md defines
    each. A person is flagged for a preferred side, for circular answers as a guesser makes them (A over B over C over A), for
    answers more erratic than those of the others, and for quick answers that are worse than their pairs explain. Whatever the
    number of people, a study in which everybody is fine flags anybody at all in 5 of 100 cases for each of these.
    """
    with opened_study(study) as opened:
        facts = opened.agreement()
    if output is not None:
        _write(facts["people"], output, as_json)
    elif as_json:
        print_json(facts)
    else:
        _print(facts)


def _write(people: list[dict[str, Any]], path: Path, as_json: bool) -> None:
    import json

    from steelyard.files import write_atomically

    if path.suffix != ".json":
        deliver(_table(people), path, as_json)
        return
    write_atomically(path, (json.dumps(people, indent=2, ensure_ascii=False) + "\n").encode())
    if as_json:
        print_json({"rows": len(people), "file": str(path)})
    else:
        out.print(f"{len(people)} rows written to {path}", soft_wrap=True, markup=False)


def _table(people: list[dict[str, Any]]) -> pd.DataFrame:
    import pandas as pd

    from steelyard.evaluate.reliability import Person

    columns = list(Person("", 0, 0, 0).to_dict())
    return pd.DataFrame(
        [{**person, "flags": " ".join(person["flags"])} for person in people], columns=columns
    )


def _print(facts: dict[str, Any]) -> None:
    answers, unclear = facts["answers"], facts["could not judge"]
    out.print(f"{answers:,} answers, {facts['equal']:,} equal, {unclear:,} could not be judged")
    for figure in facts["figures"]:
        if figure["means"]:
            out.print(f"\n{figure['name']}  [bold]{figure['shown']}[/]")
            out.print(f"  {escape_markup(figure['means'])}", soft_wrap=True)
    if facts["people"]:
        _print_people(facts)
    if facts["judges"]:
        out.print("\nas the model has learnt to hear them")
        for name, judge in facts["judges"].items():
            out.print(f"  {escape_markup(name)}  {judge['sentence']}", soft_wrap=True)
    for question, judges in facts.get("further judges", {}).items():
        out.print(f"\nas it has learnt to hear them about “{escape_markup(question)}”")
        for name, judge in judges.items():
            out.print(f"  {escape_markup(name)}  {judge['sentence']}", soft_wrap=True)
    between = {k: v for k, v in (facts["between people"] or {}).items() if isinstance(v, dict)}
    if 0 < len(between) <= 15:
        out.print("\nbetween two people (pairs, agreement, Cohen's κ)")
        for name, pair in between.items():
            kappa = "–" if pair["cohen kappa"] is None else f"{pair['cohen kappa']:.2f}"
            out.print(
                f"  {escape_markup(name)}  {pair['pairs']}, {pair['agreement']:.0%}, {kappa}", soft_wrap=True
            )
    elif between:
        out.print(f"\n{len(between)} times two people share pairs: --json has them all")


def _print_people(facts: dict[str, Any]) -> None:
    from rich import box
    from rich.table import Table

    from steelyard.evaluate.people_words import about

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in ("person", "answers", "s", "left", "again alike", "circular", "as others", "in line", "infit", "outfit"):  # fmt: skip
        table.add_column(name, justify="left" if name == "person" else "right")
    for one in facts["people"]:
        line = _share(one["in_line"])
        table.add_row(
            escape_markup(one["annotator"]), f"{one['answers']:,}", _number(one["seconds"], 1), _share(one["left_share"]),
            f"{one['repeats_alike']} of {one['repeats']}" if one["repeats"] else "–",
            f"{one['circular']} of {one['triangles']}" if one["triangles"] else "–",
            _share(one["others_alike"]), line if line == "–" else f"{line} ({_share(one['in_line_expected'])})",
            _number(one["infit"]), _number(one["outfit"]),
        )  # fmt: skip
    out.print()
    out.print(table)
    out.print(
        f"in line: with {facts['held against']}, in brackets what is expected on these pairs", soft_wrap=True
    )
    for one in facts["people"]:
        for said in about(one):
            out.print(f"{escape_markup(one['annotator'])}: {said}", soft_wrap=True)


def _share(value: float | None) -> str:
    return "–" if value is None else f"{value:.0%}"


def _number(value: float | None, digits: int = 2) -> str:
    return "–" if value is None else f"{value:.{digits}f}"
