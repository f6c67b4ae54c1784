"""What is shared moves – to another URL, or by a backup – and workers find it there."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from steelyard.errors import StudyError
from steelyard.rescue import backup_study, restore_study
from steelyard.study import Study
from steelyard.study.remote import RemoteStudy
from steelyard.web.trainer import run_worker
from tests.study.sharing_studies import share, store_of


@pytest.fixture
def shared(make_study: Callable[..., Study], tmp_path: Path) -> Study:
    """A study with twelve answers that others may learn from, by URLs alone."""
    return share(make_study, tmp_path)


def test_workers_of_a_restored_copy_can_start(shared: Study, tmp_path: Path) -> None:
    """What its store knew to be shared lies in the folder of the original."""
    model = shared.fit()
    backup = backup_study(shared.folder, tmp_path / "copy.zip")
    with Study.open(restore_study(backup.path, tmp_path / "copy").folder) as copy:
        with pytest.raises(StudyError, match="shares nothing yet"):
            RemoteStudy(store_of(copy), shared.config.models, tmp_path / "cache")
        copy.config.with_changes(models=shared.config.models).save(copy.folder / "study.toml")
    with Study.open(tmp_path / "copy") as copy:
        copy.sharing.refresh()
        with RemoteStudy(store_of(copy), "", tmp_path / "cache").open() as its:
            newest = its.store.models.newest()
            assert newest is not None
            assert newest.id == model.id
            assert its.score().equals(shared.score())


def test_models_at_another_url_are_shared_there_and_a_running_worker_follows(
    shared: Study, tmp_path: Path
) -> None:
    old, new = shared.config.models, f"file://{tmp_path}/shelf2"
    shared.fit()
    remote, told = (RemoteStudy(store_of(shared), url, tmp_path / f"cache{url[-1:]}") for url in ("", old))
    with remote.open() as running, told.open() as fixed:
        shared.config = shared.config.with_changes(models=new)  # as a process does that follows study.toml
        shared.sharing.refresh()
        remote.refresh(running)
        assert (running.sharing.shelf or shared.sharing.shelf).url == new
        with pytest.raises(StudyError, match=r"shares its models at .*shelf2 now, .*told --models .*shelf;"):
            told.refresh(fixed)
        assert fixed.store.models.newest() is not None, "what it has, it has"
        running.fit()
    assert shared.sharing.fetch()
    shutil.rmtree(tmp_path / "shelf")
    for cache in ("cache", "another"):
        with RemoteStudy(store_of(shared), "", tmp_path / cache).open() as copy:
            assert copy.store.models.newest() == shared.store.models.newest()
    shared.config.save(shared.folder / "study.toml")
    with Study.open(shared.folder) as again:
        shutil.rmtree(tmp_path / "shelf2")
        again.sharing.refresh()
        assert not (tmp_path / "shelf2").exists(), "what is there is not put up again"


def test_a_model_that_went_to_the_old_url_comes_from_there(shared: Study, tmp_path: Path) -> None:
    with RemoteStudy(store_of(shared), "", tmp_path / "cache").open() as late:
        shared.config = shared.config.with_changes(models=f"file://{tmp_path}/shelf2")
        shared.sharing.refresh()
        model = late.fit()
    assert not list((tmp_path / "shelf2").glob("*/models/*"))
    shared.sharing.refresh()
    assert shared.store.models.newest().id == model.id  # type: ignore[union-attr]
    shared.sharing.refresh()
    shutil.rmtree(tmp_path / "shelf")
    with RemoteStudy(store_of(shared), "", tmp_path / "another").open() as copy:
        assert copy.store.models.newest() == shared.store.models.newest()


def test_a_worker_may_reach_the_models_by_another_url(shared: Study, tmp_path: Path) -> None:
    (tmp_path / "mounted").symlink_to(tmp_path / "shelf")
    remote = RemoteStudy(store_of(shared), f"file://{tmp_path}/mounted", tmp_path / "cache")
    assert run_worker(remote, once=True, nice=False) == 1
    (tmp_path / "mounted").unlink()
    shared.sharing.refresh()
    model = shared.store.models.newest()
    assert model is not None
    there = shared.store.settings.get(f"shared {model.path}")["shelf"]
    assert there == shared.store.settings.get("shared study")["shelf"], "put up where the study says it is"


def test_what_earlier_versions_wrote_down_still_counts(shared: Study, tmp_path: Path) -> None:
    """They did not say where they had put it: workers look where `models` says, and it is put up once more."""
    model = shared.fit()
    settings, keys = (
        shared.store.settings,
        ("shared study", f"shared {model.folder.relative_to(shared.folder)}"),
    )

    def forget() -> None:
        for key in keys:
            settings.put(key, {name: value for name, value in settings.get(key).items() if name != "shelf"})

    forget()
    remote = RemoteStudy(store_of(shared), "", tmp_path / "cache")
    with remote.open() as copy, Study.open(shared.folder) as again:
        assert copy.store.models.newest().id == model.id  # type: ignore[union-attr]
        shutil.rmtree(tmp_path / "shelf")  # they took it for put up, wherever that was
        again.sharing.refresh()
        remote.refresh(copy)
        with RemoteStudy(store_of(shared), "", tmp_path / "another").open() as other:
            assert other.store.models.newest() == copy.store.models.newest()
        again.sharing.refresh()
        assert all(settings.get(key)["shelf"] == again.sharing.place for key in keys)
