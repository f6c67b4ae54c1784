"""The ranking on any scale of the study: as a whole, in windows, as a table, and where a new picture falls in it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import numpy as np
from anyio import to_thread
from fastapi import APIRouter, Depends, File, Query, Response, UploadFile
from fastapi.responses import StreamingResponse
from numpy.typing import NDArray

from steelyard.config.questions import COMPOSITE, MAIN
from steelyard.errors import ImageError
from steelyard.images.decode import decode
from steelyard.study.scales import why_no_scale
from steelyard.web.api.answers import Limit
from steelyard.web.api.images import BINARY, grade_name, neighbours
from steelyard.web.api.questions import Scale, known_scale
from steelyard.web.api.schema.images import ImageRow, Placed, RankingOut, RankingSummary
from steelyard.web.bodies import UPLOAD_BYTES
from steelyard.web.context import Lead, Web, WebOf
from steelyard.web.problems import Problem, responses
from steelyard.web.ranking import Z95, Filter, Ranking

__all__ = ["router"]

router = APIRouter()
PLACE_MEGAPIXELS = 40
"""Largest picture to be placed, whatever the study allows for its own: a file of 400 KB may unpack to a gigabyte."""
PLACE_WAITING = 4
"""Pictures that wait for their turn; one is unpacked at a time."""
TABLE_ROWS = 20_000
"""Rows of the table that are written at once."""
Grade = Annotated[int | None, Query(ge=0, le=99, description="Only images of this grade.")]
Group = Annotated[str, Query(max_length=100, description="Only images of this group.")]
Text = Annotated[str, Query(max_length=100, description="Text in path, group or id.")]
OffDomain = Annotated[bool, Query(description="Only images that are flagged as unlike the study's others.")]


class Wanted:
    """Which part of which ranking is asked for.

    Attributes:
        web: of the study.
        scale: its key as `Rankings` knows it.
        ranking: None where there is no model yet, or none with this scale.
        rows: those that the filter lets through, from the lowest score to the highest.
    """

    def __init__(
        self,
        web: WebOf,
        scale: Scale = "",
        grade: Grade = None,
        group: Group = "",
        text: Text = "",
        off_domain: OffDomain = False,
    ) -> None:
        self.web, self.scale = web, known_scale(web, scale)
        self.ranking: Ranking | None = web.rankings.newest(self.scale)
        # A public id stands for its content id.
        row = web.ids.row(text) if len(text) == 32 else None
        wanted = Filter(grade, group, text if row is None else web.study.catalog.ids[row], off_domain)
        self.rows = (
            np.zeros(0, dtype=np.int64) if self.ranking is None else web.rankings.rows(self.ranking, wanted)
        )


Part = Annotated[Wanted, Depends()]


@router.get("/ranking/summary", tags=["ranking"], responses=responses(401, 403, 422, 503))
def ranking_summary(web: WebOf, who: Lead, part: Part) -> RankingSummary:
    """How many images the filter lets through, and which model ranked them."""
    ranking, main = part.ranking, web.rankings.newest()
    missing = main is not None and ranking is None
    return RankingSummary(
        model=main.model.id if main else None,
        created=main.model.created if main else None,
        scale=part.scale,
        no_scale=why_no_scale(web.study, main.model, part.scale) if main and missing else "",
        count=len(part.rows),
        total=len(ranking.order) if ranking else len(web.study.catalog),
        aspect=web.aspect,
        grades=list(web.study.grade_names),
        off_domain=ranking.off_domain if ranking else None,
        domain_note=ranking.domain.note if ranking else "",
    )


@router.get(
    "/ranking/scores",
    tags=["ranking"],
    response_class=Response,
    responses=responses(401, 403, 422, 503, also={200: {"content": {"application/octet-stream": BINARY}}}),
)  # fmt: skip
def ranking_scores(who: Lead, part: Part) -> Response:
    """All scores in ascending order, as little-endian 32-bit floats."""
    values = part.ranking.score[part.rows].astype("<f4") if part.ranking else np.zeros(0, dtype="<f4")
    return Response(
        values.tobytes(), media_type="application/octet-stream", headers={"Cache-Control": "no-store"}
    )


@router.get(
    "/ranking/table",
    tags=["ranking"],
    response_class=Response,
    responses=responses(401, 403, 409, 422, 503, also={200: {"content": {"text/csv": BINARY}}}),
)  # fmt: skip
def ranking_table(web: WebOf, who: Lead, part: Part) -> Response:
    """The ranking on one scale as CSV, the highest score first; `image` is the id in exports and on the command line."""
    if part.ranking is None:
        main = web.rankings.newest()
        why = (
            why_no_scale(web.study, main.model, part.scale)
            if main
            else "There is no model yet; compare some pairs first."
        )
        raise Problem(409, why)
    grades, counts = web.rankings.grades(), web.rankings.comparisons(part.scale)
    web.store.audit.add(who.name, "exported", {"format": "csv", "ranking": part.scale or MAIN})
    headers = {
        "Content-Disposition": f'attachment; filename="ranking-{part.scale or MAIN}.csv"',
        "Cache-Control": "no-store",
    }
    return StreamingResponse(
        _table(web, part, part.ranking, grades, counts), media_type="text/csv; charset=utf-8", headers=headers
    )


def _table(
    web: Web, part: Wanted, ranking: Ranking, grades: NDArray[np.int64], counts: NDArray[np.int64]
) -> Iterator[str]:
    """The table in pieces: it takes the memory of one of them. Nothing is asked of the database any more, which may fail."""
    import pandas as pd

    from steelyard.exchange.exporting import csv_text

    catalog = web.study.catalog
    codes = range(-1, int(grades.max(initial=-1)) + 1)
    names = np.array([grade_name(web.study.grade_names, code) for code in codes], dtype=object)
    for start in range(0, max(len(part.rows), 1), TABLE_ROWS):
        rows = part.rows[::-1][start : start + TABLE_ROWS]
        score, std = ranking.score[rows], ranking.std[rows]
        table = pd.DataFrame(
            {
                "image": catalog.ids[rows],
                "path": catalog.paths[rows],
                "scale": part.scale or MAIN,
                "score": score,
                "uncertainty": std,
                "low": score - Z95 * std,
                "high": score + Z95 * std,
                "rank": ranking.rank[rows],
                "grade": names[grades[rows] + 1],
                "comparisons": counts[rows],
                "unlike": ranking.domain.unlike_N[rows],
                "off_domain": ranking.domain.off_N[rows],
            }
        )
        yield csv_text(table, header=start == 0)


@router.get("/ranking", tags=["ranking"], responses=responses(401, 403, 422, 503))
def ranking_rows(
    web: WebOf, who: Lead, part: Part, start: Annotated[int, Query(ge=0, le=2**31 - 1)] = 0, limit: Limit = 200
) -> RankingOut:  # fmt: skip
    """A window of the ranking, from the lowest score to the highest."""
    ranking, rows = part.ranking, part.rows
    if ranking is None:
        return RankingOut(model=None, start=start, total=0, images=[])
    counts, grades = web.rankings.comparisons(part.scale), web.rankings.grades()
    images = []
    for row in rows[start : start + limit].tolist():
        low, high = ranking.interval(row)
        unlike, off = ranking.domain.at(row)
        images.append(
            ImageRow(
                id=web.ids.at(row), score=float(ranking.score[row]), low=low, high=high, rank=int(ranking.rank[row]),
                grade=grade_name(web.study.grade_names, int(grades[row])), comparisons=int(counts[row]),
                unlike=unlike, off_domain=off,
            )
        )  # fmt: skip
    return RankingOut(model=ranking.model.id, start=start, total=len(rows), images=images)


@router.post("/place", tags=["ranking"], responses=responses(401, 403, 408, 409, 413, 422, 503))
async def place(
    web: WebOf,
    who: Lead,
    file: Annotated[
        UploadFile,
        File(
            description=f"An image file, at most {UPLOAD_BYTES >> 20} MB and {PLACE_MEGAPIXELS} megapixels."
        ),
    ],
    scale: Scale = "",
) -> Placed:
    """Where a new picture falls. It is checked like any other, scored, and not kept."""
    # Counted here and not by the limiter: between asking it and waiting for it others would slip in.
    if web.being_placed > PLACE_WAITING:
        raise Problem(
            503, "Other pictures are being placed; try again in a moment.", headers={"Retry-After": "5"}
        )
    web.being_placed += 1
    try:
        return await to_thread.run_sync(_place, web, file, known_scale(web, scale), limiter=web.placing)
    finally:
        web.being_placed -= 1


def _place(web: Web, file: UploadFile, scale: str) -> Placed:
    content = file.file.read(UPLOAD_BYTES + 1)
    if len(content) > UPLOAD_BYTES:
        raise Problem(413, f"The file is larger than {UPLOAD_BYTES >> 20} MB.", code="size")
    most = min(PLACE_MEGAPIXELS, web.study.config.images.max_megapixels)
    try:
        rgb = decode(content, max_megapixels=most)
    except ImageError as error:
        raise Problem(
            422, f"This file is not a picture that can be read: {error.reason}.", code="image"
        ) from error
    del content
    if web.rankings.newest() is None:
        raise Problem(409, "There is no model yet; compare some pairs first.")
    ranking = web.rankings.newest(scale)
    found = web.placer.place(rgb)
    score, std = found["scales"].get(scale, (None, None)) if scale else (found["score"], found["uncertainty"])
    if ranking is None or score is None:
        what = "composite" if scale == COMPOSITE else "scale"
        raise Problem(409, f"The newest model has no such {what} yet; choose another scale.")
    below, above = neighbours(web, ranking, *ranking.around(score))
    return Placed(
        score=score, low=score - Z95 * std, high=score + Z95 * std,
        rank=int((ranking.score[ranking.order] > score).sum()) + 1, total=len(ranking.order),
        unlike=found["unlike"], off_domain=found["off_domain"], domain_note=found["domain_note"], below=below, above=above,
    )  # fmt: skip
