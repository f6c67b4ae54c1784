"""Answers in and out: CSV, JSON, Parquet, choix tuples, and Label Studio's pairwise JSON.

Every format goes through one table with a row per answer (`COLUMNS`). What is exported can be imported again and is the
same answers, not new ones.
"""

from steelyard.exchange.exporting import csv_text, export_file, write_table
from steelyard.exchange.importing import import_file
from steelyard.exchange.table import COLUMNS, FORMATS, answers_table
from steelyard.store.importing import Imported

__all__ = [
    "COLUMNS",
    "FORMATS",
    "Imported",
    "answers_table",
    "csv_text",
    "export_file",
    "import_file",
    "write_table",
]
