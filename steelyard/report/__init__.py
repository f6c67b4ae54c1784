"""What was found, to put before a reviewer: tables, figures, one HTML."""

from steelyard.report.write import write_report

__all__ = ["write_report"]
