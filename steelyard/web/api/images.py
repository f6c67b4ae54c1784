"""Images by id, and only of this study: their pixels, what is known about each, taking one out."""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
from anyio import to_thread
from fastapi import APIRouter, Header, Path, Query, Response

from steelyard.config.questions import COMPOSITE
from steelyard.errors import ImageError, StudyError
from steelyard.pairs import Answer
from steelyard.store.records import Image
from steelyard.web.api import cursor
from steelyard.web.api.answers import Cursor, Limit
from steelyard.web.api.questions import Scale, known_scale, scales
from steelyard.web.api.schema.fields import ChangeId, ImageId
from steelyard.web.api.schema.images import (
    ImageChange,
    ImageInfo,
    ImageList,
    ImageListed,
    Neighbour,
    OnScale,
    TookPart,
)
from steelyard.web.auth import Principal
from steelyard.web.context import Anyone, Lead, Web, WebOf
from steelyard.web.problems import Problem, responses
from steelyard.web.ranking import Ranking

__all__ = ["BINARY", "grade_name", "neighbours", "router"]

router = APIRouter()
BINARY = {"schema": {"type": "string", "format": "binary"}}
Id = Annotated[ImageId, Path(description="The image's id.")]


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
def image(id: Id, web: WebOf, who: Lead, scale: Scale = "") -> ImageInfo:
    """One image: its place on a scale, its neighbours there, the comparisons it took part in, and how it scores on every scale.

    One that is excluded or could not be read has neither score, rank nor neighbours, as in every table.
    """
    row, content = web.row(id), web.content(id)
    stored = web.store.images.get(content)
    wanted = known_scale(web, scale)
    newest = web.rankings.newest(wanted)
    ranking = newest if newest is not None and newest.rank[row] else None
    below, above = neighbours(web, ranking, *ranking.neighbours(row)) if ranking else ([], [])
    low, high = ranking.interval(row) if ranking else (None, None)
    unlike, off_domain = ranking.domain.at(row) if ranking else (None, None)
    grade = int(web.rankings.grades()[row])
    names = web.study.grade_names
    return ImageInfo(
        id=id, content=content, path=stored.path, group=stored.group,
        grade=grade_name(names, grade),
        score=float(ranking.score[row]) if ranking else None, low=low, high=high,
        rank=int(ranking.rank[row]) if ranking else None,
        total=len(newest.order) if newest else len(web.study.catalog),
        unlike=unlike, off_domain=off_domain, domain_note=ranking.domain.note if ranking else "",
        below=below, above=above, scale=wanted, scales=_on_every_scale(web, row),
        comparisons=[
            TookPart(
                other=web.ids.public(c.right if c.left == content else c.left),
                outcome=_outcome(c.answer, c.left == content),
                annotator=c.annotator, answered_at=c.answered_at,
            )
            for c in web.store.answers.of_image(content, question="" if wanted == COMPOSITE else wanted)
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


def neighbours(
    web: Web, ranking: Ranking, low: np.ndarray, high: np.ndarray
) -> tuple[list[Neighbour], list[Neighbour]]:
    """Rows below and above as replies name them."""

    def named(rows: np.ndarray) -> list[Neighbour]:
        return [Neighbour(id=web.ids.at(int(r)), score=float(ranking.score[r])) for r in rows]

    return named(low), named(high)


def _on_every_scale(web: Web, row: int) -> list[OnScale]:
    """How an image scores on each scale that the newest model has, where there are several."""
    found = []
    for key in scales(web):
        try:
            ranking = web.rankings.newest(key)
        except StudyError:
            continue  # its file is damaged: whoever asks for that scale is told so
        if ranking is not None and ranking.rank[row]:
            low, high = ranking.interval(row)
            found.append(
                OnScale(
                    scale=key,
                    score=float(ranking.score[row]),
                    low=low,
                    high=high,
                    rank=int(ranking.rank[row]),
                )
            )
    return found


def _outcome(answer: Answer | None, left: bool) -> Literal["more", "less", "equal", "cannot"]:
    if answer is Answer.EQUAL:
        return "equal"
    if answer is Answer.LEFT or answer is Answer.RIGHT:
        return "more" if (answer is Answer.LEFT) == left else "less"
    return "cannot"


def grade_name(names: tuple[str, ...], grade: int) -> str | None:
    """The name of a grade, None for no grade."""
    if grade < 0:
        return None
    return names[grade] if grade < len(names) else str(grade)
