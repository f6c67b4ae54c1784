"""Images by id – and only of this study – and the ranking made of them."""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
from anyio import to_thread
from fastapi import APIRouter, File, Header, Path, Query, Response, UploadFile

from steelyard.errors import ImageError
from steelyard.images.decode import decode
from steelyard.pairs import Answer
from steelyard.store.records import Image
from steelyard.web.api import cursor
from steelyard.web.api.answers import Cursor, Limit
from steelyard.web.api.schema.fields import ChangeId, ImageId
from steelyard.web.api.schema.images import (
    ImageChange,
    ImageInfo,
    ImageList,
    ImageListed,
    ImageRow,
    Neighbour,
    Placed,
    RankingOut,
    RankingSummary,
    TookPart,
)
from steelyard.web.auth import Principal
from steelyard.web.bodies import UPLOAD_BYTES
from steelyard.web.context import Anyone, Lead, Web, WebOf
from steelyard.web.problems import Problem, responses
from steelyard.web.ranking import Z95, Filter, Ranking

__all__ = ["router"]

router = APIRouter()
PLACE_MEGAPIXELS = 40
"""Largest picture to be placed, whatever the study allows for its own: a file of 400 KB may unpack to a gigabyte."""
PLACE_WAITING = 4
"""Pictures that wait for their turn; one is unpacked at a time."""
BINARY = {"schema": {"type": "string", "format": "binary"}}
Id = Annotated[ImageId, Path(description="The image's id.")]
Grade = Annotated[int | None, Query(ge=0, le=99, description="Only images of this grade.")]
Group = Annotated[str, Query(max_length=100, description="Only images of this group.")]
Text = Annotated[str, Query(max_length=100, description="Text in path, group or id.")]
OffDomain = Annotated[bool, Query(description="Only images that are flagged as unlike the study's others.")]


@router.get(
    "/images/{id}/pixels",
    tags=["images"],
    response_class=Response,
    responses=responses(
        401, 403, 404, 422,
        also={200: {"content": dict.fromkeys(("image/png", "image/jpeg", "image/webp"), BINARY)}, 304: {"description": "Not Modified"}},
    ),
)  # fmt: skip
async def pixels(
    id: Id,
    web: WebOf,
    who: Anyone,
    size: Literal["thumb", "view", "full"] = "view",
    study: Annotated[str, Query(max_length=32, description="The study's name in caches.")] = "",
    if_none_match: Annotated[str | None, Header()] = None,
) -> Response:
    """The picture, encoded anew: `thumb` (192 px), `view` (at most 1600 px) or `full`."""
    row = await _visible(web, who, id)
    tag = f'"{web.id}-{id}-{size}"'
    # What is behind an id never changes within a study; another study on the same address may use the same ids.
    kept = "private, max-age=31536000, immutable" if study == web.id else "private, no-cache"
    headers = {"ETag": tag, "Cache-Control": kept}
    if if_none_match is not None and tag in [given.strip() for given in if_none_match.split(",")]:
        return Response(status_code=304, headers=headers)
    try:
        # Threads of their own: a wall full of thumbnails must not keep answers waiting.
        content, kind = await to_thread.run_sync(web.pictures.get, row, size, limiter=web.drawing)
    except ImageError as error:
        why = f": {error.reason}" if who.may("admin") else "; an admin can see why"
        raise Problem(404, f"The picture cannot be read{why}.", code="unreadable") from error
    return Response(content, media_type=kind, headers=headers)


async def _visible(web: Web, who: Principal, id: str) -> int:
    """The row of an image that somebody may look at; for an annotator any other is as unknown as one that is not there.

    Nearly always both are known at once; only what has to be looked up goes to a thread.
    """
    row = web.row(id) if web.ids.ready else await to_thread.run_sync(web.row, id)
    if who.may("lead") or web.sight.remembers(who.name, row):
        return row
    if not await to_thread.run_sync(web.sight.holds, who.name, row):
        raise Problem(404, "There is no such image in this study.")
    return row


@router.get("/images", tags=["images"], responses=responses(401, 403, 422, 503))
def list_images(
    web: WebOf, who: Lead, cursor_: Cursor = None, limit: Limit = 100, excluded: bool | None = None
) -> ImageList:
    """Images in catalog order; with `excluded`, only those that are (or are not) taken out."""
    after = cursor.read("images", cursor_, first=-1)
    found: list[Image] = []
    while len(found) <= limit:
        rows = web.store.images.all(after, limit + 1)
        found += [row for row in rows if excluded is None or row.excluded == excluded]
        if len(rows) <= limit:
            break
        after = rows[-1].row
    return ImageList(
        images=[
            ImageListed(
                id=web.ids.public(i.id), content=i.id, path=i.path, group=i.group, grade=i.grade, excluded=i.excluded,
                excluded_by=i.excluded_by, excluded_reason=i.excluded_reason,
            )
            for i in found[:limit]
        ],
        next=cursor.write("images", found[limit - 1].row) if len(found) > limit else None,
    )  # fmt: skip


@router.get("/images/{id}", tags=["images"], responses=responses(401, 403, 404, 422, 503))
def image(id: Id, web: WebOf, who: Lead) -> ImageInfo:
    """One image: its place, its neighbours, the comparisons it took part in.

    One that is excluded or could not be read has neither score, rank nor neighbours, as in every table.
    """
    row, content = web.row(id), web.content(id)
    stored = web.store.images.get(content)
    newest = web.rankings.newest()
    ranking = newest if newest is not None and newest.rank[row] else None
    below, above = _neighbours(web, ranking, *ranking.neighbours(row)) if ranking else ([], [])
    low, high = ranking.interval(row) if ranking else (None, None)
    unlike, off_domain = ranking.domain.at(row) if ranking else (None, None)
    grade = int(web.rankings.grades()[row])
    names = web.study.grade_names
    return ImageInfo(
        id=id, content=content, path=stored.path, group=stored.group,
        grade=_grade_name(names, grade),
        score=float(ranking.score[row]) if ranking else None, low=low, high=high,
        rank=int(ranking.rank[row]) if ranking else None,
        total=len(newest.order) if newest else len(web.study.catalog),
        unlike=unlike, off_domain=off_domain, domain_note=ranking.domain.note if ranking else "",
        below=below, above=above,
        comparisons=[
            TookPart(
                other=web.ids.public(c.right if c.left == content else c.left),
                outcome=_outcome(c.answer, c.left == content),
                annotator=c.annotator, answered_at=c.answered_at,
            )
            for c in web.store.answers.of_image(content)
        ],
        excluded=stored.excluded, excluded_by=stored.excluded_by, excluded_reason=stored.excluded_reason,
    )  # fmt: skip


@router.patch(
    "/images/{id}", tags=["images"], status_code=204, responses=responses(401, 403, 404, 409, 422, 503)
)
def change_image(id: Id, body: ImageChange, web: WebOf, who: Lead, key: ChangeId = None) -> None:
    """Take an image out of the study, or back in. Answers about it stay in the log."""
    content = web.content(id)
    what = f"{'exclude' if body.excluded else 'include'} image {content}"
    with web.store.change(key, who.name, what) as change:
        if change.first and body.excluded:
            web.store.images.exclude(content, who.name, body.reason)
        elif change.first:
            web.store.images.include(content, who.name)
    web.images_changed()


@router.get("/ranking/summary", tags=["ranking"], responses=responses(401, 403, 422, 503))
def ranking_summary(
    web: WebOf,
    who: Lead,
    grade: Grade = None,
    group: Group = "",
    text: Text = "",
    off_domain: OffDomain = False,
) -> RankingSummary:
    """How many images the filter lets through, and which model ranked them."""
    ranking = web.rankings.newest()
    rows = (
        web.rankings.rows(ranking, _filter(web, grade, group, text, off_domain)) if ranking else np.zeros(0)
    )
    return RankingSummary(
        model=ranking.model.id if ranking else None,
        created=ranking.model.created if ranking else None,
        count=len(rows),
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
def ranking_scores(
    web: WebOf,
    who: Lead,
    grade: Grade = None,
    group: Group = "",
    text: Text = "",
    off_domain: OffDomain = False,
) -> Response:
    """All scores in ascending order, as little-endian 32-bit floats."""
    ranking = web.rankings.newest()
    rows = (
        web.rankings.rows(ranking, _filter(web, grade, group, text, off_domain))
        if ranking
        else np.zeros(0, dtype=np.int64)
    )
    values = ranking.score[rows].astype("<f4") if ranking else np.zeros(0, dtype="<f4")
    return Response(
        values.tobytes(), media_type="application/octet-stream", headers={"Cache-Control": "no-store"}
    )


@router.get("/ranking", tags=["ranking"], responses=responses(401, 403, 422, 503))
def ranking_rows(
    web: WebOf, who: Lead, start: Annotated[int, Query(ge=0, le=2**31 - 1)] = 0, limit: Limit = 200,
    grade: Grade = None, group: Group = "", text: Text = "", off_domain: OffDomain = False,
) -> RankingOut:  # fmt: skip
    """A window of the ranking, from the lowest score to the highest."""
    ranking = web.rankings.newest()
    if ranking is None:
        return RankingOut(model=None, start=start, total=0, images=[])
    rows = web.rankings.rows(ranking, _filter(web, grade, group, text, off_domain))
    counts, grades, names = web.rankings.comparisons(), web.rankings.grades(), web.study.grade_names
    images = []
    for row in rows[start : start + limit].tolist():
        low, high = ranking.interval(row)
        unlike, off = ranking.domain.at(row)
        images.append(
            ImageRow(
                id=web.ids.at(row), score=float(ranking.score[row]), low=low, high=high, rank=int(ranking.rank[row]),
                grade=_grade_name(names, int(grades[row])), comparisons=int(counts[row]),
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
) -> Placed:
    """Where a new picture falls. It is checked like any other, scored, and not kept."""
    # Counted here and not by the limiter: between asking it and waiting for it others would slip in.
    if web.being_placed > PLACE_WAITING:
        raise Problem(
            503, "Other pictures are being placed; try again in a moment.", headers={"Retry-After": "5"}
        )
    web.being_placed += 1
    try:
        return await to_thread.run_sync(_place, web, file, limiter=web.placing)
    finally:
        web.being_placed -= 1


def _place(web: Web, file: UploadFile) -> Placed:
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
    ranking = web.rankings.newest()
    if ranking is None:
        raise Problem(409, "There is no model yet; compare some pairs first.")
    found = web.placer.place(rgb)
    score, std = found["score"], found["uncertainty"]
    below, above = _neighbours(web, ranking, *ranking.around(score))
    return Placed(
        score=score, low=score - Z95 * std, high=score + Z95 * std,
        rank=int((ranking.score[ranking.order] > score).sum()) + 1, total=len(ranking.order),
        unlike=found["unlike"], off_domain=found["off_domain"], domain_note=found["domain_note"], below=below, above=above,
    )  # fmt: skip


def _neighbours(
    web: Web, ranking: Ranking, low: np.ndarray, high: np.ndarray
) -> tuple[list[Neighbour], list[Neighbour]]:
    def named(rows: np.ndarray) -> list[Neighbour]:
        return [Neighbour(id=web.ids.at(int(r)), score=float(ranking.score[r])) for r in rows]

    return named(low), named(high)


def _filter(web: Web, grade: int | None, group: str, text: str, off_domain: bool) -> Filter:
    """What is searched for: a public id stands for its content id."""
    row = web.ids.row(text) if len(text) == 32 else None
    return Filter(grade, group, text if row is None else web.study.catalog.ids[row], off_domain)


def _outcome(answer: Answer | None, left: bool) -> Literal["more", "less", "equal", "cannot"]:
    if answer is Answer.EQUAL:
        return "equal"
    if answer is Answer.LEFT or answer is Answer.RIGHT:
        return "more" if (answer is Answer.LEFT) == left else "less"
    return "cannot"


def _grade_name(names: tuple[str, ...], grade: int) -> str | None:
    """The name of a grade, None for no grade."""
    if grade < 0:
        return None
    return names[grade] if grade < len(names) else str(grade)
