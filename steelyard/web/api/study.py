"""The study itself: wording, export, backup, audit log."""

from __future__ import annotations

import hashlib
import json
import tempfile
from pathlib import Path
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Header, Query, Response
from fastapi import Path as PathParameter
from fastapi.responses import FileResponse
from starlette.background import BackgroundTask

from steelyard.config.grades import GradeList
from steelyard.study.wording import regraded
from steelyard.web.api import cursor
from steelyard.web.api.answers import Cursor, Limit
from steelyard.web.api.schema.fields import ChangeId
from steelyard.web.api.schema.study import AuditEntryOut, AuditList, Backup, StudyChange, StudyInfo
from steelyard.web.context import Admin, Anyone, Lead, Web, WebOf
from steelyard.web.problems import Problem, responses

__all__ = ["router", "study_info"]

router = APIRouter(tags=["study"])

_ENDING = r"\.steelyard\.zip"
_BINARY = {"schema": {"type": "string", "format": "binary"}}
_KINDS = {
    "csv": ("text/csv; charset=utf-8", ".csv"),
    "json": ("application/json", ".json"),
    "parquet": ("application/vnd.apache.parquet", ".parquet"),
    "choix": ("application/json", ".choix.json"),
    "labelstudio": ("application/json", ".labelstudio.json"),
}


def study_info(web: Web) -> StudyInfo:
    """The study as annotators see it."""
    config, page = web.study.config, web.study.config.page
    own: dict[str, Any] = {
        "question": page.question, "more": page.more, "scale": page.scale, "reasons": list(page.reasons),
        "grades": list(web.study.grade_list.texts), "break_minutes": page.break_minutes, "raters": config.ask.raters,
    }  # fmt: skip
    tag = hashlib.blake2b(json.dumps(own).encode(), digest_size=12).hexdigest()
    return StudyInfo(
        name=config.name, images=len(web.study.catalog), **own, words=page.words.to_dict(), keys=dict(config.page.keys),
        wanted=web.study.budget, answered=web.store.answers.count(), etag=tag, note=web.note(),
    )  # fmt: skip


@router.get("/study", responses=responses(401, 403, 503))
def get_study(web: WebOf, who: Anyone) -> StudyInfo:
    """Name, question, grades, keys and how far it is."""
    info = study_info(web)
    if who.may("lead"):
        return info
    return info.model_copy(update={"answered": web.training.answered(), "wanted": web.training.wanted})


@router.patch("/study", responses=responses(401, 403, 409, 412, 422, 503))
def change_study(
    body: StudyChange, web: WebOf, who: Admin,
    if_match: Annotated[str | None, Header(description="`etag` of the version you changed.")] = None,
    key: ChangeId = None,
) -> StudyInfo:  # fmt: skip
    """Other wording or another number of raters. With `If-Match`, refused when somebody else was quicker."""
    asked = body.model_dump(exclude_none=True, exclude_defaults=True)
    what = f"study changed {hashlib.blake2b(json.dumps(asked).encode(), digest_size=12).hexdigest()}"
    with web.changing, web.store.change(key, who.name, what) as change:
        if not change.first:
            return study_info(web)
        web.reread()
        page = {name: value for name, value in asked.items() if name not in ("raters", "regrade")}
        if "reasons" in page:
            page["reasons"] = tuple(page["reasons"])
        if "grades" in page:
            page["grades"] = tuple(page["grades"])
            _check_grades(web, page["grades"], confirmed=body.regrade)
        ask = {} if body.raters is None else {"raters": body.raters}
        wanted = web.study.config.with_changes(page=page, ask=ask)
        current = if_match is None or if_match.strip().removeprefix("W/").strip('"') in (
            study_info(web).etag,
            "*",
        )
        # What is so already contradicts nobody: the file may have been written and the rest not.
        if not current and wanted != web.study.config:
            raise Problem(
                412, "Somebody else has changed the study in the meantime; reload the page and look again."
            )
        web.configure(wanted, by=who.name)
        web.store.audit.add(who.name, "study changed", asked)
        return study_info(web)


def _check_grades(web: Web, texts: tuple[str, ...], *, confirmed: bool) -> None:
    """Refuse a list by which nobody can grade, or by which grades mean something else, unless somebody wants just that."""
    wanted = GradeList(texts or tuple(web.study.catalog.grade_names))
    if why := wanted.fault():
        raise Problem(422, f"{why[0].upper()}{why[1:]}.")
    found = regraded(web.store, web.study.catalog, web.study.grade_list, wanted)
    if found.lost >= 0:
        raise Problem(409, f"Images carry grade {found.lost}; name at least {found.lost + 1} grades.")
    if found and not confirmed:
        raise Problem(
            409,
            f"This list would give {found.sentence()} another meaning, because a grade that was given is a place in the list. "
            "Keep the order: rename a grade in its place, and add new ones at the end.",
            code="regrade",
        )


@router.get(
    "/export",
    response_class=Response,
    responses=responses(
        401,
        403,
        409,
        422,
        503,
        also={
            200: {
                "content": {
                    "text/csv": _BINARY,
                    "application/vnd.apache.parquet": _BINARY,
                    "application/json": {"schema": {}},
                }
            }
        },
    ),
)
def export(
    web: WebOf,
    who: Lead,
    format: Annotated[Literal["csv", "json", "parquet", "choix", "labelstudio"], Query()] = "csv",
) -> Response:
    """All answers that count."""
    from steelyard.exchange import export_file

    kind, suffix = _KINDS[format]
    folder = tempfile.TemporaryDirectory()
    try:
        path = Path(folder.name) / f"answers{suffix}"
        export_file(web.study, path, form=format)
    except BaseException:
        folder.cleanup()
        raise
    web.store.audit.add(who.name, "exported", {"format": format})
    name = (
        "".join(c if c.isascii() and (c.isalnum() or c in "-_") else "-" for c in web.study.config.name)
        or "study"
    )
    headers = {
        "Content-Disposition": f'attachment; filename="{name}-answers{suffix}"',
        "Cache-Control": "no-store",
    }
    # Sent from the disk, a piece at a time; then it goes.
    return FileResponse(path, media_type=kind, headers=headers, background=BackgroundTask(folder.cleanup))


@router.post("/backup", status_code=201, responses=responses(401, 403, 409, 422, 503))
def backup(web: WebOf, who: Admin, key: ChangeId = None) -> Backup:
    """Write store, configuration, catalog and newest model to one file in the study's `backups` folder, while it is in use."""
    from steelyard.rescue import backup_study

    with web.changing:
        # It takes too long for one transaction: nobody could answer meanwhile.
        before = web.store.change_made(key, who.name, "backup made")
        file = None if before is None else _backup_of(web, before)
        if file is None or not (web.study.folder / "backups" / file).is_file():
            file = backup_study(web.study.folder).path.name
            with web.store.change(key, who.name, "backup made") as change:
                if change.first:
                    web.store.audit.add(who.name, "backup made", {"file": file}, now=change.at)
        return Backup(file=f"backups/{file}", bytes=(web.study.folder / "backups" / file).stat().st_size)


def _backup_of(web: Web, at: float) -> str | None:
    """The file that a change at some time made."""
    for entry in web.store.audit.latest(1000):
        if entry.at == at and entry.action == "backup made":
            return str(entry.detail["file"])
    return None


@router.get(
    "/backups/{name}",
    response_class=FileResponse,
    responses=responses(401, 403, 404, 422, 503, also={200: {"content": {"application/zip": _BINARY}}}),
)
def download_backup(
    web: WebOf, who: Admin, name: Annotated[str, PathParameter(pattern=rf"^[A-Za-z0-9_-]{{1,120}}{_ENDING}$")]
) -> FileResponse:
    """A backup that was made, for keeping it on another machine; `steelyard restore` makes a study of it."""
    path = web.study.folder / "backups" / name
    if not path.is_file():
        raise Problem(404, "There is no such backup; make one first.")
    web.store.audit.add(who.name, "backup downloaded", {"file": name})
    return FileResponse(
        path, media_type="application/zip", filename=name, headers={"Cache-Control": "no-store"}
    )


@router.get("/audit", responses=responses(401, 403, 422, 503))
def audit(web: WebOf, who: Admin, cursor_: Cursor = None, limit: Limit = 50) -> AuditList:
    """Who did what and when, newest first."""
    before = None if cursor_ is None else cursor.read("audit", cursor_)
    entries = web.store.audit.latest(limit + 1, before)
    return AuditList(
        entries=[
            AuditEntryOut(seq=e.seq, at=e.at, actor=e.actor, action=e.action, detail=e.detail)
            for e in entries[:limit]
        ],
        next=cursor.write("audit", entries[limit - 1].seq) if len(entries) > limit else None,
    )
