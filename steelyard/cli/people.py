"""Commands about the people who answer: pairs that warm them up or check them, and who has agreed."""

from __future__ import annotations

from datetime import datetime, timezone
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from steelyard.cli.console import AsJson, StudyFolder, app, opened_study, out, print_json
from steelyard.errors import StudyError, command

if TYPE_CHECKING:
    from steelyard.study import Study
    from steelyard.study.checks import Checked

__all__ = ["consent", "gold"]

By = Annotated[
    str, typer.Option("--by", help="Who does it, for the audit log; by default the user of this machine.")
]


class Action(str, Enum):
    """What to do with pairs whose answer is known."""

    list = "list"
    add = "add"
    remove = "remove"


class Kind(str, Enum):
    """What they are for."""

    gold = "gold"
    warmup = "warm-up"


@app.command()
def gold(
    study: StudyFolder,
    action: Annotated[Action, typer.Argument(help="What to do.")] = Action.list,
    what: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="…",
            help="add: a CSV (steelyard template gold), or LEFT RIGHT and left, right or equal; remove: numbers.",
        ),
    ] = None,
    kind: Annotated[
        Kind, typer.Option(help="Hidden among the others (gold), or before them, with feedback.")
    ] = Kind.gold,
    from_grades: Annotated[
        int, typer.Option(metavar="N", help="Add N pairs whose grades differ widely.", min=0)
    ] = 0,
    by: By = "",
    as_json: AsJson = False,
) -> None:
    """List, add or remove pairs whose answer is known; [people] in study.toml says how often they are asked.

    They warm people up (with feedback) or check them (hidden); answers to them teach nothing and are counted nowhere.
    """
    from steelyard.study.checks import add_known, checked, remove_known
    from steelyard.study.checks import from_grades as widest

    given = what or []
    with opened_study(study) as opened:
        if action is Action.list:
            _refuse(given or from_grades, "list takes nothing more")
            _show_known(opened, checked(opened), as_json)
            return
        if action is Action.remove:
            _refuse(from_grades, "--from-grades adds pairs")
            numbers = _numbers(given)
            remove_known(opened, numbers, by=by or None)
            said = {"removed": numbers}
        else:
            if from_grades:
                _refuse(given, "--from-grades chooses the pairs by itself")
                new = widest(opened, from_grades, kind.value)
            else:
                new = _named(opened, given, kind.value)
            said = {"added": add_known(opened, new, by=by or None)}
    if as_json:
        print_json(said)
        return
    done, numbers = next(iter(said.items()))
    out.print(f"{len(numbers)} pairs {done}: {', '.join(map(str, numbers))}", soft_wrap=True)


def _named(study: Study, given: list[str], kind: str) -> list[Any]:
    from steelyard.exchange.gold import known_pair, read_known
    from steelyard.exchange.importing import ImageFinder

    if len(given) == 1:
        return read_known(study, Path(given[0]))
    if len(given) != 3:
        raise StudyError(
            "name a CSV, or two images and the answer: steelyard gold STUDY add a.png b.png left; or let grades say with --from-grades N"
        )
    row = dict(zip(("left", "right", "answer"), given, strict=True)) | {"kind": kind}
    return [known_pair(ImageFinder(study), row)]


def _numbers(given: list[str]) -> list[int]:
    if not given or not all(one.isdecimal() for one in given):
        raise StudyError(f"remove takes the numbers that list shows, not {' '.join(given)[:80]!r}")
    return [int(one) for one in given]


def _refuse(given: object, why: str) -> None:
    if given:
        raise StudyError(f"{why}; leave the rest out")


def _show_known(study: Study, people: list[Checked], as_json: bool) -> None:
    from steelyard.exchange.gold import known_rows

    rows, config = known_rows(study), study.config.people
    if as_json:
        results = [
            {
                "annotator": one.annotator, "right": one.right, "judged": one.judged, "clearly below": one.below,
                "low": one.share.low if one.share else None, "high": one.share.high if one.share else None,
            }
            for one in people
        ]  # fmt: skip
        print_json({"pairs": rows, "people": results})
        return
    counts = {kind.value: sum(row["kind"] == kind.value for row in rows) for kind in Kind}
    out.print(
        f"{counts['gold']} gold pairs (asked at a rate of {config.gold_rate:g}), {counts['warm-up']} for warming up "
        f"({config.warmup} are asked)",
        soft_wrap=True,
    )
    for row in rows:
        out.print(
            f"{row['number']:>6}  {row['kind']:<8} {row['left']}  {row['right']}  {row['answer']}",
            markup=False, soft_wrap=True,
        )  # fmt: skip
    for one in people:
        share = f" ({one.share.low:.0%} to {one.share.high:.0%})" if one.share else " (too few to say more)"
        flag = f"; clearly below {config.gold_wanted:.0%}" if one.below else ""
        out.print(f"{one.annotator}: {one.right} of {one.judged} right{share}{flag}", markup=False)
    if not rows:
        out.print(f"add some: {command('gold', study.folder, 'add', '--from-grades', '20')}", soft_wrap=True)


@app.command()
def consent(
    study: StudyFolder,
    withdraw: Annotated[
        str, typer.Option(metavar="NAME", help="Note that somebody took the agreement back.")
    ] = "",
    note: Annotated[str, typer.Option(help="Why, or how that was said; with --withdraw.")] = "",
    by: By = "",
    as_json: AsJson = False,
) -> None:
    """List who has read or agreed to the instructions, or note that somebody withdrew.

    Whoever withdrew is asked again before the next pair. Their answers stay in the log; whether they may be used is yours to decide.
    """
    from steelyard.privacy import user_name
    from steelyard.study.instructions import WITHDRAWN, agreements, read_instructions

    with opened_study(study) as opened:
        if withdraw:
            opened.store.people.get(withdraw)  # somebody who is not there is said
            opened.store.audit.add(by or user_name(), WITHDRAWN, {"name": withdraw, "note": note})
        elif note:
            raise StudyError("--note goes with --withdraw NAME; leave it out")
        now = read_instructions(opened.config, opened.catalog)
        found = agreements(opened.store)
    version = now.version if now else ""
    if as_json:
        print_json(
            {
                "version": version,
                "people": [
                    {"name": a.name, "version": a.version, "at": a.at, "agreed": a.agreed, "current": a.version == version}
                    for a in found
                ],
            }
        )  # fmt: skip
        return
    out.print(f"the instructions have version {version}" if version else "this study has no instructions")
    for one in found:
        when = datetime.fromtimestamp(one.at, timezone.utc).strftime("%Y-%m-%d %H:%M:%S UTC")
        did = "agreed to" if one.agreed else "read"
        earlier = "" if one.version == version else ", an earlier text"
        out.print(f"{when}  {one.name} {did} version {one.version}{earlier}", markup=False, soft_wrap=True)
