"""How many files are missing: all are looked for where time allows, a random part of them where it does not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from steelyard.images.catalog import Catalog
from steelyard.images.presence import has_file, look_for_files, say_where


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    """Two hundred tiny files."""
    folder = tmp_path / "images"
    folder.mkdir()
    for k in range(200):
        Image.fromarray(np.full((2, 2, 3), k, np.uint8)).save(folder / f"{k:03d}.png")
    return Catalog.from_folder(folder)


def test_nothing_is_missing(catalog: Catalog) -> None:
    found = look_for_files(catalog)
    assert (found.images, found.looked, found.missing, found.sentence) == (200, 200, 0, "")


def test_a_path_of_a_damaged_catalog_is_a_missing_file(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that was full leaves zeros where names were; looking for such a file is no reason to fail."""
    monkeypatch.setattr(Catalog, "raw_path", lambda self, row: Path("/images/\0\0\0"))
    assert not has_file(catalog, 0)
    assert look_for_files(catalog).missing == 200


def test_gone_and_empty_files_are_counted_and_excluded_ones_are_not(catalog: Catalog) -> None:
    for row, path in enumerate(map(catalog.raw_path, range(4))):
        assert path is not None
        path.unlink() if row else path.write_bytes(b"")
    found = look_for_files(catalog, without=[1])
    assert (found.images, found.looked, found.missing, found.example) == (199, 199, 3, "000.png")
    assert found.sentence == "3 of 199 image files are not where they were, 000.png among them"
    assert not has_file(catalog, 1)
    one = look_for_files(catalog, without=[0, 1, 2])
    assert one.sentence == "1 of 197 image files is not where it was: 003.png"


def test_a_moved_folder_is_seen_within_the_time_there_is(catalog: Catalog) -> None:
    """With no time at all a part is looked for, and it tells."""
    assert catalog.root is not None
    catalog.root.rename(catalog.root.with_name("pictures"))
    found = look_for_files(catalog, seconds=0.0)
    assert 0 < found.looked < 200
    assert found.missing == found.looked
    assert (
        f"{found.missing} of {found.looked} image files looked for (of 200) are not where" in found.sentence
    )


def test_images_that_are_no_files_are_not_missed() -> None:
    features = Catalog.from_features(np.zeros((4, 2), np.float32))
    assert look_for_files(features).missing == 0
    assert has_file(features, 0)


def test_the_remedy_quotes_a_path_with_spaces() -> None:
    assert say_where(Path("/my studies/colon")).endswith("steelyard relocate '/my studies/colon' DIR")
