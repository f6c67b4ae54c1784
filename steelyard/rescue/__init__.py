"""Backing up a study, restoring it, and finding out what is wrong with one."""

from steelyard.rescue.backup import backup_study
from steelyard.rescue.check import Finding, check_study, noted_heads
from steelyard.rescue.restore import restore_study

__all__ = ["Finding", "backup_study", "check_study", "noted_heads", "restore_study"]
