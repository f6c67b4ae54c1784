"""`steelyard init` unpacks every picture once: features show that it can be read, and what cannot be read is named all the same."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from steelyard.errors import CatalogError, ImageError, RankerError
from steelyard.images import decode
from steelyard.images.catalog import Catalog
from steelyard.study import Study
from steelyard.study.inputs import InputReader
from tests.cli.test_cli import run

GOOD = 5


@pytest.fixture
def images(tmp_path: Path) -> Path:
    """Five good pictures, a copy of one, one that is cut short, and a text that is called a picture."""
    folder = tmp_path / "images"
    folder.mkdir()
    rng = np.random.default_rng(0)
    for k in range(GOOD):
        picture = Image.fromarray(rng.integers(0, 255, (48, 64, 3), np.uint8))
        picture.save(folder / f"{k}.{'png' if k % 2 else 'jpg'}")
    whole = (folder / "0.jpg").read_bytes()
    (folder / "copy.jpg").write_bytes(whole)
    (folder / "short.jpg").write_bytes(whole[: len(whole) // 2])
    (folder / "text.png").write_text("no picture")
    return folder


@pytest.fixture
def unpacked(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often the file of each name was unpacked."""
    counts: Counter[str] = Counter()
    lock, original = threading.Lock(), decode._decode

    def count(file: Any, name: str, *rest: Any) -> Any:
        with lock:
            counts[Path(name).name] += 1
        return original(file, name, *rest)

    monkeypatch.setattr(decode, "_decode", count)
    return counts


def instead_of_features(error: BaseException) -> Callable[..., Any]:
    def read(*_: object, **__: object) -> None:
        raise error

    return read


def test_every_picture_is_unpacked_once_and_bad_ones_are_named_as_by_a_check(
    tmp_path: Path, images: Path, unpacked: Counter[str]
) -> None:
    told = json.loads(run("init", tmp_path / "study", "--images", images, "--json").stdout)
    # What cannot be read is looked at once more, for the reason. A text is none: that shows at its first bytes.
    assert unpacked == {"0.jpg": 1, "1.png": 1, "2.jpg": 1, "3.png": 1, "4.jpg": 1, "short.jpg": 2}
    checked = Catalog.from_folder(images, check=True)
    assert told["report"] == json.loads(checked.report.to_json())
    assert [bad["path"] for bad in told["report"]["bad"]] == ["short.jpg", "text.png"]
    unpacked.clear()
    with Study.open(tmp_path / "study") as study:
        assert study.catalog.ids.tolist() == checked.ids.tolist()
        assert study.described
        assert not len(study.seen().absent)
    assert not unpacked


def test_a_study_without_a_bad_file_is_read_through_once(
    tmp_path: Path, images: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from steelyard.images import reading

    for name in ("short.jpg", "text.png"):
        (images / name).unlink()
    times: list[bool] = []
    original = reading.read_catalog

    def count(*given: Any, **options: Any) -> Catalog:
        times.append(options.get("check", True))
        return original(*given, **options)

    monkeypatch.setattr(reading, "read_catalog", count)
    run("init", tmp_path / "study", "--images", images)
    assert times == [False]


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (KeyboardInterrupt(), "Features are not complete"),
        (RankerError("no weights here"), "Features could not be computed: no weights here"),
    ],
)
def test_without_features_the_study_is_made_and_checked(
    error: BaseException, said: str, tmp_path: Path, images: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(InputReader, "read", instead_of_features(error))
    told = run("init", tmp_path / "study", "--images", images)
    assert told.output.count(said) == 1
    assert "short.jpg" in told.output
    with Study.open(tmp_path / "study") as study:
        assert len(study.catalog) == GOOD


def test_who_wants_the_first_bad_file_to_end_it_does_not_wait_for_features(
    tmp_path: Path, images: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(InputReader, "read", lambda *_: pytest.fail("features were computed"))
    told = run("init", tmp_path / "study", "--images", images, "--on-error", "fail", ok=False)
    assert isinstance(told.exception, ImageError)
    assert "short.jpg" in str(told.exception)
    assert not (tmp_path / "study").exists()


def test_a_store_that_cannot_be_used_is_refused_before_features(
    tmp_path: Path, images: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(InputReader, "read", lambda *_: pytest.fail("features were computed"))
    store = f"sqlite:///{tmp_path}/nowhere/study.db"
    told = run("init", tmp_path / "study", "--images", images, "--store", store, ok=False)
    assert "the folder of the database does not exist" in str(told.exception)
    assert not (tmp_path / "study").exists()


def test_nothing_is_left_where_no_file_can_be_read(tmp_path: Path, images: Path) -> None:
    for path in images.iterdir():
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    told = run("init", tmp_path / "study", "--images", images, ok=False)
    assert isinstance(told.exception, CatalogError)
    assert "files are not readable images, the first: 0.jpg" in str(told.exception)
    assert not (tmp_path / "study").exists()
