"""Compares what was acknowledged with what is in the database. It reads plain rows and uses none of the product's code.

0 lost: everything acknowledged is in the log, once, with the same content. 0 doubled: no answer is there under two ids.
History: undo and correction chains are whole, counts and states of pairs follow from the log, numbers grow in the
order in which each person sent. Exclusions are as they were last acknowledged. Imports are there whole.
"""

from __future__ import annotations

import sqlite3
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

__all__ = ["Database", "check"]

Row = dict[str, Any]
Journals = dict[str, list[Row]]

_TABLES = {
    "comparisons": "SELECT seq, id, pair, annotator, answer, left_row, right_row, shown_at, answered_at, received_at,"
    " supersedes, note, source FROM comparisons ORDER BY seq",
    "pairs": "SELECT id, first_row, second_row, repeat, strategy, raters, answers, open FROM pairs",
    "images": "SELECT row, id, path, excluded_at FROM images",
}


class Database:
    """Rows of a study's database: a SQLite file, or an address of PostgreSQL."""

    def __init__(self, where: Path | str) -> None:
        self._where = where

    def rows(self, query: str, *values: Any) -> list[Row]:
        """The result of a query; `?` stands for a value."""
        if isinstance(self._where, Path):
            connection = sqlite3.connect(f"file:{self._where}?mode=ro", uri=True, timeout=30)
            try:
                connection.row_factory = sqlite3.Row
                return [dict(row) for row in connection.execute(query, values)]
            finally:
                connection.close()
        import psycopg
        from psycopg.rows import dict_row

        with psycopg.connect(self._where, row_factory=dict_row) as connected:
            return connected.execute(query.replace("?", "%s"), values).fetchall()  # type: ignore[call-overload, no-any-return]

    def sound(self) -> list[str]:
        """What the database itself says about its file."""
        if not isinstance(self._where, Path):
            return []
        found = [str(next(iter(row.values()))) for row in self.rows("PRAGMA integrity_check")]
        return [] if found == ["ok"] else found


def check(database: Database, journals: Journals, before: int = 0) -> tuple[list[str], Counter[str]]:
    """Problems in sentences, and what was counted on the way; rows up to `before` were there before anybody began."""
    log, pairs, images = (database.rows(query) for query in _TABLES.values())
    counted: Counter[str] = Counter()
    problems = [f"the file is damaged: {line}" for line in database.sound()]
    problems += _acknowledged([row for row in log if row["seq"] > before], journals, counted)
    problems += _chains(log)
    problems += _pairs(log, pairs, images)
    problems += _imports(log, pairs, journals, counted)
    problems += _exclusions(log, images, journals, counted)
    counted["rows in the log"] = len(log)
    return problems, counted


def _events(journals: Journals, event: str, *kinds: str) -> Iterator[tuple[str, Row]]:
    for name, lines in journals.items():
        for line in lines:
            if line["event"] == event and line.get("kind") in kinds:
                yield name, line


def _acknowledged(log: list[Row], journals: Journals, counted: Counter[str]) -> Iterator[str]:
    """Every acknowledged answer and undo is there, as it was sent; nothing is there that nobody sent."""
    known = {row["id"]: row for row in log}
    if len(known) != len(log):
        yield f"{len(log) - len(known)} ids are in the log twice"
    rows_of: dict[str, int] = {}  # which row an image of the API is; learnt from the first answer about it
    last: dict[str, int] = {}
    for name, ack in _events(journals, "ack", "answer", "undo"):
        counted[f"acknowledged {ack['kind']}"] += 1
        row = known.get(ack["id"].lower())
        if row is None:
            counted["lost"] += 1
            yield f"lost: {ack['kind']} {ack['id']} of {name} was acknowledged and is not in the log"
            continue
        if ack["kind"] == "undo":
            expected = {"annotator": name, "answer": "withdrawn", "supersedes": ack["of"]}
        else:
            expected = {
                "annotator": name,
                "pair": ack["pair"],
                "answer": ack["answer"],
                "shown_at": ack.get("shown_at"),
                "answered_at": ack.get("answered_at"),
                "supersedes": ack.get("supersedes"),
                "note": ack.get("note", ""),
                "left_row": rows_of.setdefault(ack["left"], row["left_row"]),
                "right_row": rows_of.setdefault(ack["right"], row["right_row"]),
            }
        wrong = {key: (value, row[key]) for key, value in expected.items() if row[key] != value}
        if ack.get("seq") is not None and row["seq"] != ack["seq"]:
            wrong["seq"] = ack["seq"], row["seq"]
        if wrong:
            counted["changed"] += 1
            yield f"changed: {ack['id']} of {name}: (acknowledged, in the log) = {wrong}"
        if ack.get("seq") is not None:
            if row["seq"] <= last.get(name, 0):
                yield f"order: {ack['id']} of {name} has number {row['seq']} after {last[name]}"
            last[name] = row["seq"]
    if len(set(rows_of.values())) != len(rows_of):
        yield "two images of the API are one row of the database"

    sent = {line["id"] for _, line in _events(journals, "send", "answer", "undo", "import")}
    acked = {line["id"] for _, line in _events(journals, "ack", "answer", "undo")}
    for row in log:
        if row["id"] not in sent and row["id"] not in acked:
            counted["in the log, acknowledged to nobody"] += 1
            if row["source"] != "page":  # a browser was killed before it heard
                yield f"from nowhere: {row['id']} of {row['annotator']} was never sent"
    same = Counter((r["annotator"], r["pair"], r["answer"], r["answered_at"], r["supersedes"]) for r in log)
    for key, times in same.items():
        if times > 1:
            counted["doubled"] += times - 1
            yield f"doubled: {key} is in the log {times} times"
    for name, line in _events(journals, "refused", "answer", "undo", "exclude"):
        counted["refused"] += 1
        yield f"refused: {line['kind']} of {name}: {line.get('status')} {line.get('detail', '')}"
    for name, line in _events(journals, "given up", "answer", "undo", "exclude"):
        counted["never acknowledged"] += 1
        yield f"never acknowledged: {line['kind']} {line['id']} of {name}"


def _chains(log: list[Row]) -> Iterator[str]:
    """What supersedes comes later, is of the same person and pair, and alone; numbers only grow."""
    known = {row["id"]: row for row in log}
    superseded = Counter(row["supersedes"] for row in log if row["supersedes"])
    for row in log:
        earlier = known.get(row["supersedes"]) if row["supersedes"] else None
        if row["supersedes"] and earlier is None:
            yield f"chain: {row['id']} supersedes {row['supersedes']}, which is not there"
        if earlier is not None and not (
            earlier["seq"] < row["seq"]
            and earlier["pair"] == row["pair"]
            and earlier["annotator"] == row["annotator"]
            and earlier["answer"] != "withdrawn"
        ):
            yield f"chain: {row['id']} cannot supersede {earlier['id']}"
        if row["answer"] == "withdrawn" and earlier is None:
            yield f"chain: {row['id']} withdraws nothing"
    yield from (f"chain: {id} is superseded {n} times" for id, n in superseded.items() if n > 1)


def _pairs(log: list[Row], pairs: list[Row], images: list[Row]) -> Iterator[str]:
    """`answers` and `open` follow from the log and the exclusions; nobody counts twice; sides are those of the pair."""
    superseded = {row["supersedes"] for row in log}
    counts = [row for row in log if row["answer"] != "withdrawn" and row["id"] not in superseded]
    answers = Counter(row["pair"] for row in counts)
    twice = Counter((row["pair"], row["annotator"]) for row in counts)
    yield from (f"pair {key} counts {n} answers of one person" for key, n in twice.items() if n > 1)
    excluded = {image["row"] for image in images if image["excluded_at"] is not None}
    sides = {}
    for pair in pairs:
        sides[pair["id"]] = {pair["first_row"], pair["second_row"]}
        if pair["answers"] != answers[pair["id"]]:
            yield f"pair {pair['id']} says {pair['answers']} answers, the log {answers[pair['id']]}"
        open_ = not (sides[pair["id"]] & excluded) and answers[pair["id"]] < pair["raters"]
        if bool(pair["open"]) != open_:
            yield f"pair {pair['id']} is {'open' if pair['open'] else 'closed'} and should not be"
    yield from (
        f"answer {row['id']} shows other images than its pair"
        for row in log
        if {row["left_row"], row["right_row"]} != sides.get(row["pair"])
    )


def _imports(log: list[Row], pairs: list[Row], journals: Journals, counted: Counter[str]) -> Iterator[str]:
    """A file is there whole once its import has succeeded; and no pair of it is there without an answer."""
    known = {row["id"]: row for row in log}
    strategies = {pair["id"]: pair["strategy"] for pair in pairs}
    rows: defaultdict[int, list[Row]] = defaultdict(list)
    for _, line in _events(journals, "send", "import"):
        rows[line["file"]].append(line)
    succeeded = {line["file"] for _, line in _events(journals, "ack", "imported")}
    for number, lines in rows.items():
        there = [known[line["id"]] for line in lines if line["id"] in known]
        if number in succeeded:
            counted["acknowledged import"] += len(lines)
        if len(there) not in ((len(lines),) if number in succeeded else (0, len(lines))):
            counted["lost"] += len(lines) - len(there)
            yield f"lost: {len(there)} of {len(lines)} answers of import {number} are there"
        for line in lines:
            row = known.get(line["id"])
            if row and (
                row["answer"] != line["answer"] or abs(row["answered_at"] - line["answered_at"]) > 1e-3
            ):
                yield f"changed: imported answer {line['id']}"
    answered = {row["pair"] for row in log}
    empty = Counter(s for id, s in strategies.items() if s.startswith("import-") and id not in answered)
    yield from (f"{n} pairs of {name} have no answer" for name, n in empty.items())


def _exclusions(
    log: list[Row], images: list[Row], journals: Journals, counted: Counter[str]
) -> Iterator[str]:
    """What was taken out with an acknowledged answer that stands is out, and what the lead did last holds."""
    excluded = {image["row"] for image in images if image["excluded_at"] is not None}
    sides = {row["id"]: row for row in log}
    rows_of: dict[str, int] = {}
    for _, ack in _events(journals, "ack", "answer"):
        if row := sides.get(ack["id"].lower()):
            rows_of |= {ack["left"]: row["left_row"], ack["right"]: row["right_row"]}
    taken_back = {row["supersedes"] for row in log}
    for name, ack in _events(journals, "ack", "answer"):
        for image in ack.get("exclude", []):
            counted["acknowledged exclusion"] += 1
            if ack["id"].lower() not in taken_back and rows_of.get(image) not in excluded:
                counted["lost"] += 1
                yield f"lost: {name} excluded an image with answer {ack['id']}, and it is not excluded"
    final = {line["image"]: line["excluded"] for _, line in _events(journals, "ack", "exclude")}
    counted["acknowledged change of an image"] += sum(1 for _ in _events(journals, "ack", "exclude"))
    for image, wanted in final.items():
        if image in rows_of and (rows_of[image] in excluded) != wanted:
            counted["lost"] += 1
            yield f"lost: the lead left image {image} {'out' if wanted else 'in'}, and it is not"
