"""Commands that bring answers and whole studies in and out."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from steelyard.cli.console import AsJson, StudyFolder, app, opened_study, out, print_json

if TYPE_CHECKING:
    from steelyard.study import Study

__all__ = ["export_answers", "import_answers", "list_conflicts", "write_template"]


class TemplateName(str, Enum):
    """Tables to fill in."""

    labels = "labels"
    answers = "answers"
    gold = "gold"


@app.command("import")
def import_answers(
    study: StudyFolder,
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help="CSV, JSON, Parquet, Label Studio, tuples of choix, or a whole study (.zip or folder).",
        ),
    ],
    annotator: Annotated[str, typer.Option(help="Who answered, where the file does not say.")] = "imported",
    by: Annotated[
        str, typer.Option(help="Who imports, for the audit log; by default the user of this machine.")
    ] = "",
    as_json: AsJson = False,
) -> None:
    """Import answers given elsewhere, or a whole study on the same images; nothing is added twice."""
    from steelyard.exchange import import_file, import_study, is_bundle

    with opened_study(study) as opened:
        before = _names(opened)
        if is_bundle(file):
            whole = import_study(opened, file, by=by or None)
            if as_json:
                print_json(whole.to_dict())
                return
            added = {name: getattr(whole, name).added for name in _COUNTED}
            known = sum(getattr(whole, name).known for name in _COUNTED)
            out.print(f"{_counts(added)} added, {known} were already there\n{_WORDING[whole.wording]}")
            _tell_new(_names(opened) - before)
            return
        done = import_file(opened, file, annotator=annotator, by=by or None)
        new = _names(opened) - before
    if as_json:
        print_json(done.to_dict())
    else:
        out.print(f"{done.added} answers added, {done.known} were already there")
        _tell_new(new)


def _names(study: Study) -> set[str]:
    return {person.name for person in study.store.people.all()}


def _tell_new(names: set[str]) -> None:
    if names:
        out.print(
            f"new here: {', '.join(sorted(names))}; nobody comes in by an import – activate on the page Admin who may",
            soft_wrap=True, markup=False,
        )  # fmt: skip


@app.command("export")
def export_answers(
    study: StudyFolder,
    output: Annotated[
        Path, typer.Option("-o", "--output", help="File to write; its ending picks the format.")
    ],
    form: Annotated[
        str,
        typer.Option(
            "--format",
            help="csv, json, parquet, choix, labelstudio, or study (the whole of it), if the file's ending does not say.",
        ),
    ] = "",
    as_json: AsJson = False,
) -> None:
    """Write all answers to a file, or the whole study (.zip): answers, grades, exclusions, wording, people and known pairs.

    A whole study has no passwords, models or images in it; `steelyard backup` makes a copy of everything but the images.
    """
    from steelyard.exchange import export_file, export_study

    with opened_study(study) as opened:
        if form == "study" or (not form and output.suffix.lower() == ".zip"):
            counts = export_study(opened, output)
            if as_json:
                print_json({**counts, "file": str(output)})
            else:
                out.print(f"{_counts(counts)} written to {output}", soft_wrap=True)
            return
        count = export_file(opened, output, form=form or None)
    if as_json:
        print_json({"answers": count, "file": str(output)})
    else:
        out.print(f"{count} answers written to {output}", soft_wrap=True)


_COUNTED = {
    "answers": "answers",
    "grades": "grades",
    "exclusions": "exclusions",
    "people": "people",
    "known": "known pairs",
}
_WORDING = {
    "taken": "the wording – questions, grades, reasons, keys – and how people are prepared were taken over; restart a server that is running",
    "same": "the wording is the same",
    "kept": "the study has answers of its own and keeps its own wording and preparation of people",
}


def _counts(counts: dict[str, int]) -> str:
    *first, last = (f"{counts[name]} {text}" for name, text in _COUNTED.items())
    return f"{', '.join(first)} and {last}"


@app.command("conflicts")
def list_conflicts(
    study: StudyFolder,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="File to write: .csv, .json or .parquet.")
    ] = None,
    open_only: Annotated[
        bool, typer.Option("--open", help="Only pairs that nobody has decided about.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """List pairs on which people disagree, or people and a sure model: who said what, and what a lead decided.

    Leads decide on the page (Adjudicate), where names are hidden until then.
    """
    from steelyard.exchange import write_conflicts
    from steelyard.study.conflicts import find_conflicts

    with opened_study(study) as opened:
        found = [one for one in find_conflicts(opened) if not (open_only and one.decision)]
        if output is not None:
            write_conflicts(opened, found, output)
        if as_json:
            print_json([one.to_dict(opened) for one in found])
            return
        if output is None:
            for one in found:
                _show_conflict(one.to_dict(opened))
    decided = sum(one.decision is not None for one in found)
    counts = f"{len(found)} {'conflict' if len(found) == 1 else 'conflicts'}, {decided} decided"
    out.print(counts if output is None else f"{counts}; written to {output}", markup=False, soft_wrap=True)


def _show_conflict(one: dict[str, Any]) -> None:
    said = ", ".join(f"{each['annotator']} {each['answer']}" for each in one["said"])
    model = "" if one["model_left"] is None else f"; the model: left with {one['model_left']:.0%}"
    decision = one["decision"]
    decided = f"; decided: {decision['answer']} ({decision['annotator']})" if decision else ""
    line = f"{one['disagreement']:.2f}  {one['left_path']} – {one['right_path']}: {said}{model}{decided}"
    out.print(line, markup=False, soft_wrap=True)


@app.command("template")
def write_template(
    kind: Annotated[TemplateName, typer.Argument(help="Which table.", show_default=False)],
    images: Annotated[
        Path | None, typer.Option(metavar="DIR", help="List the images of this folder in a table of labels.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="File to write; printed by default.")
    ] = None,
) -> None:
    """Write a table to fill in: labels of images (for init and add), answers (for import), or pairs with known answers (for gold)."""
    from steelyard.exchange import template, write_new

    text = template(kind.value, images)
    if output is None:
        print(text, end="")
        return
    write_new(output, text)
    out.print(f"{output} written; its first lines say how to fill it in", soft_wrap=True)
