"""Answers in and out: CSV, JSON, Parquet, choix tuples, and Label Studio's pairwise JSON; and whole studies.

Every format goes through one table with a row per answer (`COLUMNS`). What is exported can be imported again and is the
same answers, not new ones.
"""

from steelyard.exchange.bundle import is_bundle
from steelyard.exchange.conflicts import conflicts_table, write_conflicts
from steelyard.exchange.exporting import csv_text, export_file, write_new, write_table
from steelyard.exchange.importing import import_file
from steelyard.exchange.table import COLUMNS, FORMATS, answers_table
from steelyard.exchange.templates import template
from steelyard.exchange.whole_study import StudyImported, export_study, import_study, study_tables
from steelyard.store.importing import Imported

__all__ = [
    "COLUMNS",
    "FORMATS",
    "Imported",
    "StudyImported",
    "answers_table",
    "conflicts_table",
    "csv_text",
    "export_file",
    "export_study",
    "import_file",
    "import_study",
    "is_bundle",
    "study_tables",
    "template",
    "write_conflicts",
    "write_new",
    "write_table",
]
