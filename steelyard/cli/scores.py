"""Commands that say what a study knows about images: scores and grades."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

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
from steelyard.errors import ConfigError, command
from steelyard.terminal import err, progress_bar

if TYPE_CHECKING:
    from steelyard.engine import Engine
    from steelyard.study import Study

__all__ = ["grade", "score"]


@app.command()
def score(
    study: StudyFolder,
    source: Annotated[
        str,
        typer.Argument(
            metavar="[SOURCE]",
            help="Folder of new images, or its URL; the study's own by default. With --engine also a list or a .npy.",
        ),
    ] = "",
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="scores.csv or scores.parquet.")
    ] = None,
    question: Annotated[
        str,
        typer.Option(
            metavar="KEY", help="One scale in full, by the key of its question; main is the main one."
        ),
    ] = "",
    answers_alone: Annotated[
        bool, typer.Option("--answers-alone", help="Also scores from the answers alone, without the images.")
    ] = False,
    engine: Annotated[
        str,
        typer.Option(
            help="local or ray: score any number of images in parts, into a folder of Parquet files."
        ),
    ] = "",
    address: Annotated[
        str, typer.Option(help="Ray cluster (host:port); RAY_ADDRESS, or one started here, by default.")
    ] = "",
    jobs: Annotated[
        int, typer.Option(min=0, help="Workers of an engine; 0 means one per core, or one per GPU.")
    ] = 0,
    part: Annotated[
        int, typer.Option(min=0, help="Images a file of an engine; 0 takes as many as a worker has room for.")
    ] = 0,
    as_json: AsJson = False,
) -> None:
    """Score images: score, uncertainty, interval and rank, and how unlike the study's images each is.

    A higher score has more of what the question asks for; 0 is the middle of the study's images, and scores have no unit of
    their own. `low` to `high` is score ± 1.96 × `uncertainty`: for 95% of images, where the score would end up with ever more
    answers of the same people. Images whose intervals overlap widely are not reliably ordered.

    `unlike` is the share of the study's images that are more typical; `off_domain` flags images of another organ or modality,
    damaged ones and often those of another camera: 4% of new images of the same kind are flagged by chance.

    Where a study asks further questions, `score_KEY` and `uncertainty_KEY` follow for each, and `composite`: the weighted mean
    of all scales, each with mean 0 and deviation 1 over the study's images. Its uncertainty takes their errors as independent.

    With --answers-alone there are also `alone`, `alone_low`, `alone_high` (95%) and `alone_rank`: Bradley and Terry's scores
    (Rao and Kupper's with ties) in logits of the answers, drawn towards 0 by a weak prior where answers are few; `model_alone`,
    the model's score on that scale; `differs`, where the two contradict each other (mislabelled, or a blind spot of the model);
    and `infit`, `outfit`, how much answers about the image surprise (1 is as expected). Without a model there are only these.

    With --engine, SOURCE may be a folder, a CSV or Parquet list with a column `image` or `path`, an address of either (s3://, gs://,
    https://, file://), or a .npy of feature rows. Scores go to the folder that -o names, in parts; the same command goes on where
    a killed one was. An image that cannot be scored is a row with the reason in `error`.
    """
    from steelyard.study.domain import sentence as about_domain

    if engine:
        _score_in_parts(
            study, source, output, engine, address, jobs, part, question or None, answers_alone, as_json
        )
        return
    if address or jobs or part:
        raise ConfigError(
            "--address, --jobs and --part are for an engine; add --engine local or --engine ray"
        )
    folder = _folder(source)
    with opened_study(study) as opened, progress_bar() as progress:
        table = opened.score(
            folder, question=question or None, answers_alone=answers_alone, progress=progress
        )
        if folder is None:
            _say_without_score(opened, len(table))
        for line in table.attrs.get("without_score", []):
            err.print(escape_markup(f"no score: {line}"), soft_wrap=True)
        if (folder is not None or table.attrs.get("domain")) and (
            said := about_domain(table, own=folder is None)
        ):
            err.print(escape_markup(said), soft_wrap=True)
    deliver(table, output, as_json)


def _folder(source: str) -> str | None:
    """The folder, or its address, that is scored in one go; what only an engine reads is refused with the remedy."""
    from steelyard.images.listing import LIST_SUFFIXES

    if source.lower().endswith((*LIST_SUFFIXES, ".npy")) and not Path(source).is_dir():
        raise ConfigError(
            f"{source} is no folder; lists and matrices are scored in parts: add --engine local -o scores.parquet"
        )
    return source or None


def _score_in_parts(
    study: Path, source: str, output: Path | None, engine: str, address: str, jobs: int, part: int,
    question: str | None, answers_alone: bool, as_json: bool,
) -> None:  # fmt: skip
    from dataclasses import asdict

    from steelyard.scoring import score_many

    if engine not in ("local", "ray"):
        raise ConfigError(f"--engine is local or ray, not '{engine}'")
    if not source or output is None:
        raise ConfigError(
            "an engine scores new images into a folder; name both: "
            + command("score", study, source or "SOURCE", "--engine", engine, "-o", "scores.parquet")
        )
    if answers_alone:
        raise ConfigError(f"nobody has answered about the images of {source}; leave --answers-alone out")
    with opened_study(study) as opened, progress_bar() as progress:
        found = score_many(
            opened, source, output, engine=cast("Engine", engine), address=address, jobs=jobs, part=part, question=question,
            progress=progress,
        )  # fmt: skip
        newest = opened.store.models.newest()
    if newest is not None and newest.id != found.model:
        err.print(
            f"scored by model {found.model}, with which this folder was begun; the newest is model {newest.id}",
            soft_wrap=True,
        )
    if as_json:
        print_json({**asdict(found), "folder": str(output)})
        return
    out.print(
        f"{found.rows:,} rows in {found.parts:,} parts written to {output} ({found.computed:,} computed now)",
        soft_wrap=True,
    )
    if found.failed:
        err.print(f"{found.failed:,} images have no score; the column error says why", soft_wrap=True)
    if found.flagged:
        err.print(
            f"{found.flagged:,} images are flagged as unlike the study's images (off_domain)", soft_wrap=True
        )


def _say_without_score(opened: Study, scored: int) -> None:
    from steelyard.study.scores import without_score

    excluded = len(opened.store.images.excluded_rows())
    if said := without_score(len(opened.catalog), scored, excluded):
        err.print(said, soft_wrap=True)


@app.command()
def grade(
    study: StudyFolder,
    method: Annotated[
        str, typer.Option(help="ordinal, isotonic, or rounding (multi-task scores).")
    ] = "ordinal",
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="grades.csv or grades.parquet.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Turn scores into grades, with intervals, learnt from the images that have one."""
    from steelyard.study.domain import sentence as about_domain
    from steelyard.trust.grade_sets import sentence

    with opened_study(study) as opened:
        table = opened.grade(method=method)
        _say_without_score(opened, len(table))
        err.print(sentence(opened.grade_scale(method)))
        if table.attrs["domain"]:
            err.print(escape_markup(about_domain(table, own=True)), soft_wrap=True)
    deliver(table, output, as_json)
