"""Conflicts out: who said what about each pair on which people disagree, and what was decided."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from steelyard.errors import StudyError
from steelyard.exchange.cells import utc
from steelyard.exchange.exporting import write_file, write_table
from steelyard.pairs import Answer
from steelyard.study.conflicts import Conflict

if TYPE_CHECKING:
    import pandas as pd

    from steelyard.study import Study

__all__ = ["COLUMNS", "conflicts_table", "write_conflicts"]

COLUMNS = (
    "pair", "left", "right", "left_path", "right_path", "disagreement", "people", "model", "answers", "said_left",
    "said_right", "said_equal", "said_cannot_judge", "said", "model_left", "decision", "decided_by", "decided_at",
    "decided_at_utc", "note",
)  # fmt: skip


def conflicts_table(study: Study, found: list[Conflict]) -> pd.DataFrame:
    """One row a conflict, the worst first, with the columns `COLUMNS`; `said` names everybody."""
    import pandas as pd

    return pd.DataFrame([_row(one, study) for one in found], columns=list(COLUMNS))


def write_conflicts(study: Study, found: list[Conflict], path: Path) -> None:
    """Write conflicts to a file: a table as CSV or Parquet, or JSON with a list of who said what in each.

    Raises:
        StudyError: another ending, or it cannot be written.
    """
    if path.suffix == ".json":
        records = [one.to_dict(study) for one in found]
        write_file(path, json.dumps(records, indent=1, ensure_ascii=False, allow_nan=False).encode())
    elif path.suffix in (".csv", ".parquet"):
        write_table(conflicts_table(study, found), path)
    else:
        raise StudyError(f"{path.name}: write to a file that ends in .csv, .json or .parquet")


def _row(one: Conflict, study: Study) -> dict[str, Any]:
    plain, counts = one.to_dict(study), one.counts()
    decision = plain["decision"] or {}
    at = decision.get("answered_at")
    return {
        **{name: plain[name] for name in COLUMNS[:8]},
        "answers": len(one.said),
        **{f"said_{answer.value.replace(' ', '_')}": counts[answer] for answer in Answer},
        "said": "; ".join(f"{said['annotator']}: {said['answer']}" for said in plain["said"]),
        "model_left": plain["model_left"],
        "decision": decision.get("answer", ""),
        "decided_by": decision.get("annotator", ""),
        "decided_at": at,
        "decided_at_utc": "" if at is None else utc(at),
        "note": decision.get("note", ""),
    }
