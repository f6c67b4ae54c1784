"""Commands that keep a study safe: backup, restore, check."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from steelyard.cli.console import (
    AsJson,
    StudyFolder,
    app,
    escape_markup,
    opened_study,
    out,
    print_json,
)
from steelyard.terminal import progress_bar

if TYPE_CHECKING:
    from steelyard.rescue import Finding

Portable = Annotated[
    bool,
    typer.Option(
        "--portable",
        help="Write a dump that fits SQLite and PostgreSQL alike, even if pg_dump is installed.",
    ),
]


@app.command()
def backup(
    study: StudyFolder,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o", "--output", help="File to write; by default one in STUDY/backups, named by date and time."
        ),
    ] = None,
    all_models: Annotated[
        bool, typer.Option("--all-models", help="Every model that is still there, not only the newest.")
    ] = False,
    portable: Portable = False,
    as_json: AsJson = False,
) -> None:
    """Write answers, configuration, catalog and newest model to one file, while people answer; images are not in it."""
    from steelyard.rescue import backup_study

    with progress_bar() as progress:
        made = backup_study(study, output, all_models=all_models, portable=portable, progress=progress)
    if as_json:
        print_json(
            {
                "file": str(made.path), "bytes": made.bytes, "answers": made.answers, "models": made.models,
                "notes": made.notes,
            }
        )  # fmt: skip
        return
    out.print(
        f"{made.path}: {made.answers} answers in the log, {len(made.models)} models, {made.bytes / 1e6:.1f} MB",
        markup=False, soft_wrap=True,
    )  # fmt: skip
    for note in made.notes:
        out.print(escape_markup(note), soft_wrap=True)
    out.print("copy it to another machine; images are not in it")


@app.command()
def restore(
    file: Annotated[
        Path,
        typer.Argument(metavar="FILE", help="A backup, as `steelyard backup` wrote it.", show_default=False),
    ],
    study: StudyFolder,
    store: Annotated[
        str,
        typer.Option(
            metavar="URL",
            help="An empty PostgreSQL database; also STEELYARD_STORE. By default answers go to STUDY/study.db.",
        ),
    ] = "",
    replace: Annotated[
        bool, typer.Option("--replace", help="Move an existing study aside; nothing is deleted.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Restore a study from a backup. Everybody has to sign in again: backups hold no sessions."""
    from steelyard.rescue import restore_study

    with progress_bar() as progress:
        done = restore_study(file, study, store=store, replace=replace, progress=progress)
    problems = [finding for finding in done.findings if finding.level == "problem"]
    if as_json:
        print_json(
            {
                "study": str(done.folder), "store": done.store, "backup": done.about,
                "replaced": str(done.replaced) if done.replaced else None,
                "findings": [finding.to_dict() for finding in done.findings],
            }
        )  # fmt: skip
    else:
        rows = done.about.get("rows", {})
        out.print(
            f"{done.folder} is as it was at {done.about.get('made')}: {rows.get('comparisons', 0)} answers in the log; "
            "people sign in again",
            markup=False, soft_wrap=True,
        )  # fmt: skip
        if done.replaced:
            out.print(f"what was there before is in {done.replaced}", markup=False, soft_wrap=True)
        _show(done.findings)
    if problems:
        raise typer.Exit(1)


@app.command()
def check(
    study: StudyFolder,
    images: Annotated[
        bool, typer.Option("--images", help="Read every image instead of only looking for its file.")
    ] = False,
    expect: Annotated[
        list[str] | None,
        typer.Option(help="Where a log ended, as this command printed it earlier (comparisons:120:9f86d0…)."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Look for damage in every part of a study; exit code 0: sound, 1: problems found, 2: could not check."""
    from steelyard.rescue import check_study, noted_heads
    from steelyard.store.chain import read_heads

    noted = [head for text in expect or [] for head in read_heads(text)]
    with progress_bar() as progress:
        findings = check_study(study, images=images, expect=noted, progress=progress)
    problems = [finding for finding in findings if finding.level == "problem"]
    heads = [] if problems else [str(head) for head in noted_heads(study)]
    if as_json:
        found = [finding.to_dict() for finding in findings]
        print_json({"sound": not problems, "findings": found, "heads": heads})
    else:
        _show(findings)
        if heads:
            out.print(
                "the logs end here; keep these lines elsewhere to show later that nothing before them was changed:"
            )
        for head in heads:
            out.print(f"  {head}", soft_wrap=True)
    if problems:
        raise typer.Exit(1)


@app.command()
def relocate(
    study: StudyFolder,
    images: Annotated[
        str, typer.Argument(metavar="DIR", help="Folder or URL where the images are now.", show_default=False)
    ],
    as_json: AsJson = False,
) -> None:
    """Say where the images are after their folder was moved or renamed."""
    with opened_study(study) as opened:
        missing = opened.relocate(images)
        count = len(opened.catalog)
    if as_json:
        print_json({"images": count, "missing": missing})
    else:
        out.print(f"{count - len(missing)} of {count} images found in {images}", markup=False, soft_wrap=True)
        for path in missing[:20]:
            out.print(f"missing: {path}", markup=False, soft_wrap=True)
    if missing:
        raise typer.Exit(1)


def _show(findings: list[Finding]) -> None:
    for finding in findings:
        out.print(f"{finding.level}: {finding.sentence}\n  → {finding.remedy}", markup=False, soft_wrap=True)
    problems = sum(finding.level == "problem" for finding in findings)
    out.print(
        "checked: sound" if not problems else f"checked: {problems} problem{'s' if problems > 1 else ''}"
    )
