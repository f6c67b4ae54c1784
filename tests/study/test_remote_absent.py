"""Images that could not be read, for workers that have only what was computed of the others."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from steelyard.images.cache import cached_rows, kept_rows
from steelyard.ranker.features import feature_settings
from steelyard.study import Study, sharing
from steelyard.study.models import load_absent
from steelyard.study.remote import RemoteStudy
from steelyard.study.sharing import INPUTS
from steelyard.study.shelf import digest_of
from steelyard.web.trainer import run_worker
from tests.study.growing import draw
from tests.study.sharing_studies import store_of

FEATURES = {"preset": "quick", "ranker": {"kind": "convex", "backbone": "lite0", "image_size": 32}}
BAD = 3


@pytest.fixture
def with_a_bad_file(make_growing: Callable[..., Study], first: Path, tmp_path: Path) -> Study:
    """Its images are only where it is made, and one of them is cut short."""
    cut = first / f"i{BAD:02d}.png"
    cut.write_bytes(cut.read_bytes()[:300])
    study = make_growing(models=f"file://{tmp_path}/shelf", **FEATURES)
    for pair in study.ask(6):
        study.tell(pair, "left")
    assert study.seen().absent.tolist() == [BAD]
    study.sharing.refresh()
    return study


def test_an_image_that_could_not_be_read_is_left_out_by_a_worker_too(
    with_a_bad_file: Study, first: Path, tmp_path: Path
) -> None:
    study, store = with_a_bad_file, store_of(with_a_bad_file)
    cut, rows, reasons = f"i{BAD:02d}.png", study.inputs(), study.seen().reasons
    first.rename(tmp_path / "not for the worker")
    with RemoteStudy(store, "", tmp_path / "cache").open() as copy:
        assert copy.described, "nothing is left to compute, with no image on this machine"
        assert copy.seen().absent.tolist() == [BAD]
        assert copy.seen().reasons == reasons
        assert np.array_equal(copy.inputs(), rows)
    assert run_worker(RemoteStudy(store, "", tmp_path / "cache"), once=True, nice=False) == 1
    (tmp_path / "not for the worker").rename(first)
    study.sharing.fetch()
    model = study.store.models.newest()
    assert model is not None
    assert load_absent(study.folder / model.path).tolist() == [BAD]
    theirs = study.score()
    assert cut not in set(theirs["path"])
    assert study.left_out() == [cut]
    study.fit()
    assert study.score()["path"].tolist() == theirs["path"].tolist(), "the same images as of a fit at home"


def test_a_file_that_is_put_back_is_shared_by_the_same_process(
    with_a_bad_file: Study, first: Path, tmp_path: Path
) -> None:
    study = with_a_bad_file
    remote = RemoteStudy(store_of(study), "", tmp_path / "cache")
    with remote.open() as copy:
        assert copy.seen().absent.tolist() == [BAD]
        draw(first / f"i{BAD:02d}.png", BAD)
        study.sharing.refresh()
        remote.refresh(copy)
        assert copy.seen().absent.tolist() == []
        assert np.array_equal(copy.inputs(), study.inputs())
    for name in ("cache", "another"):  # what the first one kept is no zero
        with RemoteStudy(store_of(study), "", tmp_path / name).open() as copy:
            assert np.array_equal(copy.inputs(), study.inputs())
            assert copy.inputs()[BAD].any()


def test_images_at_a_url_that_could_not_be_read_are_tried_again_once_for_each_model(
    with_a_bad_file: Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sharing looks every second, and a server that is away takes long to be so."""
    study, tries = with_a_bad_file, []
    monkeypatch.setattr(sharing, "_elsewhere", lambda *_: True)
    monkeypatch.setattr(study, "seen", lambda progress=None: tries.append(1) or Study.seen(study, progress))
    for _ in range(3):
        study.sharing.refresh()
    assert tries == []
    study.fit()
    tries.clear()
    for _ in range(3):
        study.sharing.refresh()
    assert tries == [1]


def test_zeros_that_an_earlier_version_shared_or_kept_are_not_believed(
    with_a_bad_file: Study, first: Path, tmp_path: Path
) -> None:
    """It shared a row for each image, and a worker kept them all as computed."""
    study, store = with_a_bad_file, store_of(with_a_bad_file)
    (tmp_path / "old").mkdir()
    np.save(tmp_path / "old" / INPUTS, study.inputs())
    record = study.store.settings.get("shared study")
    assert study.sharing.shelf is not None
    kept = digest_of(tmp_path / "old" / INPUTS)
    study.sharing.shelf.put(f"files/{kept.digest}", tmp_path / "old" / INPUTS)
    files = {"catalog.arrow": record["files"]["catalog.arrow"], INPUTS: kept}
    study.store.settings.put("shared study", {**record, "files": files})
    first.rename(tmp_path / "moved")
    remote = RemoteStudy(store, "", tmp_path / "cache")
    with remote.open() as copy:
        assert copy.described
        assert copy.seen().absent.tolist() == [BAD]
    cache, ranker, rows = remote.folder / "cache", study.config.ranker, study.inputs()
    settings = feature_settings(ranker.backbone, ranker.image_size, ranker.weights, recipe=ranker.recipe)
    there = np.delete(np.arange(len(rows)), BAD)
    for names, found in (((INPUTS, "catalog.arrow"), rows[there]), (("catalog.arrow",), None)):
        cached_rows(
            cache, study.catalog.ids, lambda at: rows[at], row_shape=rows.shape[1:], dtype=rows.dtype, settings=settings
        )  # fmt: skip
        shutil.copy(tmp_path / "old" / INPUTS, cache / f".inputs-{kept.digest[:16]}.npy")
        assert kept_rows(cache, study.catalog.ids, settings) is not None, "zeros are taken for computed"
        study.store.settings.put("shared study", {**record, "files": {name: files[name] for name in names}})
        RemoteStudy(store, "", tmp_path / "cache")
        assert kept_rows(cache, study.catalog.ids, settings) is None
        assert np.array_equal(kept_rows(cache, study.catalog.subset(there).ids, settings), found)
