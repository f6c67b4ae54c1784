"""Commands for those who must show that nothing was tampered with: log, sign, signatures."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from steelyard.cli.console import AsJson, StudyFolder, app, opened_study, out, print_json
from steelyard.errors import command

if TYPE_CHECKING:
    from steelyard.store.signature import Signature
    from steelyard.study import Study


@app.command()
def log(
    study: StudyFolder,
    output: Annotated[Path, typer.Option("-o", "--output", help="File of JSON Lines to write.")],
    as_json: AsJson = False,
) -> None:
    """Write the whole log with its hashes: every answer, grade and audit entry, undone ones included."""
    with opened_study(study) as opened:
        heads = opened.store.audit.export(output)
    if as_json:
        print_json({"file": str(output), "heads": [str(head) for head in heads]})
        return
    out.print(f"written to {output}; it ends at", markup=False, soft_wrap=True)
    for head in heads:
        out.print(f"  {head}", soft_wrap=True)
    out.print(
        f"verify it anywhere, without the study: {command('verify', output)}", markup=False, soft_wrap=True
    )


@app.command()
def verify(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="A log that `steelyard log` wrote.", show_default=False)
    ],
    expect: Annotated[
        list[str] | None, typer.Option(help="Where a log ended, noted elsewhere (comparisons:120:9f86d0…).")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Recompute every hash of a log; exit code 0: as it was written, 1: it is not."""
    from steelyard.store.chain import read_heads
    from steelyard.store.logfile import verify_log

    noted = [head for text in expect or [] for head in read_heads(text)]
    verified = verify_log(file, noted)
    if as_json:
        print_json(
            {
                "problems": verified.problems,
                "heads": [str(head) for head in verified.heads],
                "rows": verified.rows,
            }
        )
    else:
        for problem in verified.problems:
            out.print(f"problem: {problem}", markup=False, soft_wrap=True)
        for head in verified.heads:
            out.print(f"{verified.rows[head.log]} rows of {head}", soft_wrap=True)
        out.print("not as it was written" if verified.problems else "as it was written")
    if verified.problems:
        raise typer.Exit(1)


@app.command()
def sign(
    study: StudyFolder,
    by: Annotated[str, typer.Option(help="Who signs.")],
    meaning: Annotated[str, typer.Option(help='What the signature says ("reviewed and approved").')],
    key: Annotated[
        Path | None,
        typer.Option(help="A private Ed25519 key (PEM) that signs too; keep it off this machine."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Sign a study as it is: its logs, newest model, configuration and catalog."""
    from steelyard.study.signing import Key, sign_study

    with opened_study(study) as opened:
        made = sign_study(opened, by, meaning, via="command line", key=Key(key) if key else None)
        _show(opened, [made], as_json)


@app.command()
def signatures(study: StudyFolder, as_json: AsJson = False) -> None:
    """List who signed a study, and what has changed since; `steelyard check` compares each with the logs."""
    with opened_study(study) as opened:
        _show(opened, opened.store.audit.signatures(), as_json)


def _show(study: Study, found: list[Signature], as_json: bool) -> None:
    from steelyard.study.signing import changed_since, proof_holds

    shown: list[dict[str, Any]] = []
    for one in found:
        proof = None if one.proof is None else proof_holds(one)
        facts = {**asdict(one), "heads": [str(head) for head in one.heads]}
        shown.append({**facts, "changed_since": changed_since(study, one), "proof_holds": proof})
    if as_json:
        print_json(shown)
        return
    if not shown:
        out.print("nobody has signed this study")
    for one, facts in zip(found, shown, strict=True):
        when = datetime.fromtimestamp(one.at, timezone.utc).strftime("%Y-%m-%d %H:%M:%S UTC")
        out.print(f"{when}  {one.signer} ({one.via}): {one.meaning}", markup=False, soft_wrap=True)
        for head in facts["heads"]:
            out.print(f"  {head}", soft_wrap=True)
        if one.key is not None:
            holds = "holds" if facts["proof_holds"] else "DOES NOT HOLD"
            out.print(f"  key {one.key}: its signature {holds}", markup=False, soft_wrap=True)
        since = ", ".join(facts["changed_since"])
        out.print(f"  since then: {since or 'nothing has changed'}", markup=False, soft_wrap=True)
