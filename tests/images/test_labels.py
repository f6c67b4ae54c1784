"""Columns of a labels table: what is understood is said, what is not used is named."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from steelyard.errors import CatalogError
from steelyard.images.catalog import Catalog
from steelyard.images.labels import parse_labels


@pytest.mark.parametrize(
    "heading",
    ["patient", "Patient", "patient_id", "Patient ID", "subject", "subject-id", "case", "participant"],
)
def test_what_else_the_group_is_called(heading: str) -> None:
    labels = parse_labels(f"image,{heading}\na.png,p1\nb.png,p2\n")
    assert labels.groups == ["p1", "p2"]
    assert labels.notes == (f"the column '{heading.lower()}' is taken for the group",)


def test_a_column_named_group_goes_first_and_the_rest_is_named() -> None:
    labels = parse_labels("image;age;group;patient;grade\na.png;61;g;p;1\n")
    assert labels.groups == ["g"]
    assert labels.notes == ("columns that are not used: age, patient (used are image, grade and group)",)
    assert parse_labels("image,grade,group\na.png,1,g\n").notes == ()


def test_two_that_could_be_the_group() -> None:
    with pytest.raises(CatalogError, match="'patient' and 'case' could each be the group; rename one"):
        parse_labels("image,patient,case\na.png,p,c\n")


def test_comments_before_the_heading_keep_line_numbers() -> None:
    text = '# how, to fill; it in\n"# in quotes",,\n\nimage,grade\n#1.png,1\nb.png,2\n'
    labels = parse_labels(text)
    assert labels.images == ["#1.png", "b.png"]  # a name, not a comment
    assert labels.lines == [5, 6]
    with pytest.raises(CatalogError, match="line 7: 3 cells, but 2 columns"):
        parse_labels(f"{text}c.png,1,2\n")
    with pytest.raises(CatalogError, match="is empty"):
        parse_labels("# nothing else\n")


def test_the_notes_reach_the_report(tmp_path: Path) -> None:
    (tmp_path / "labels.csv").write_text("image,patient,age\na,p,50\nb,p,51\n")
    catalog = Catalog.from_features(np.eye(2, dtype=np.float32), tmp_path / "labels.csv")
    assert catalog.groups is not None
    assert catalog.groups.tolist() == ["p", "p"]
    assert "taken for the group" in str(catalog.report)
    assert "not used: age" in str(catalog.report)
