"""Workers that have nothing but the URLs of a store and of a shelf."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
import sqlalchemy as sa
from typer.testing import CliRunner

from steelyard.cli import app
from steelyard.errors import ConfigError, SteelyardError, StoreError, StudyError
from steelyard.rescue import backup_study, check_study, restore_study
from steelyard.store.store import Store
from steelyard.study import Study, remote, sharing
from steelyard.study.remote import RemoteStudy
from steelyard.study.sharing import NewerVersionError
from steelyard.study.shelf import Kept, Shelf, ShelfError
from steelyard.web.trainer import run_worker
from tests.chaos.postgres import Postgres
from tests.study.conftest import answer
from tests.study.sharing_studies import share, store_of
from tests.waiting import until

PROGRAM = Path(__file__).with_name("remote_worker.py")


@pytest.fixture
def shared(make_study: Callable[..., Study], tmp_path: Path) -> Study:
    """A study with twelve answers that others may learn from, by URLs alone."""
    return share(make_study, tmp_path)


def test_a_worker_with_only_urls_trains_and_the_folder_gets_the_model(shared: Study, tmp_path: Path) -> None:
    rows = np.load(tmp_path / "x.npy")
    (tmp_path / "x.npy").rename(tmp_path / "not for the worker.npy")
    assert run_worker(RemoteStudy(store_of(shared), "", tmp_path / "cache"), once=True, nice=False) == 1
    (tmp_path / "not for the worker.npy").rename(tmp_path / "x.npy")
    [model] = shared.store.models.all()
    assert shared.store.models.newest() is None, "announced, but its files are not here yet"
    with Study.open(shared.folder) as again:
        assert again.store.models.newest() == model
        scores = again.score().set_index("image")["score"][again.catalog.ids.tolist()]
        assert np.corrcoef(scores, rows[:, 0])[0, 1] > 0.5
    assert [one.sentence for one in check_study(shared.folder) if one.level == "problem"] == []
    written = "".join(path.read_text() for path in (tmp_path / "cache").rglob("study.toml"))
    assert written
    assert "sqlite:" not in written, "an address of a store may hold a password"


def test_the_worker_follows_settings_and_starts_again_where_it_was(shared: Study, tmp_path: Path) -> None:
    remote = RemoteStudy(store_of(shared), "", tmp_path / "cache")
    with remote.open() as study:
        shared.config = shared.config.with_changes(refit_after=500, page={"question": "Which is redder?"})
        shared.sharing.refresh()
        remote.refresh(study)
        with Study.open(remote.folder, store=store_of(shared)) as again:
            assert (again.config.refit_after, again.config.page.question) == (500, "Which is redder?")
    before = sorted(path.name for path in remote.folder.iterdir())
    assert RemoteStudy(store_of(shared), "", tmp_path / "cache").folder == remote.folder
    assert sorted(path.name for path in remote.folder.iterdir()) == before


def test_two_workers_may_start_with_one_cache(
    shared: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    both, get = threading.Barrier(2), Shelf.get

    def at_once(shelf: Shelf, name: str, file: Path, kept: Kept) -> None:
        get(shelf, name, file, kept)
        with suppress(threading.BrokenBarrierError):
            both.wait(5)

    def start() -> Path:
        return RemoteStudy(store_of(shared), "", tmp_path / "cache").folder

    monkeypatch.setattr(Shelf, "get", at_once)
    with ThreadPoolExecutor(2) as pool:
        first, second = pool.submit(start), pool.submit(start)
        assert first.result() == second.result()
    assert not list(first.result().rglob("*.unfinished"))


def test_a_file_that_a_power_cut_left_empty_is_fetched_again(
    shared: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[bytes] = []
    monkeypatch.setattr(remote, "sync_file", lambda file: synced.append(file.read_bytes()))
    folder = RemoteStudy(store_of(shared), "", tmp_path / "cache").folder
    [rows] = folder.glob("catalog.features.*.npy")
    whole = rows.read_bytes()
    assert whole in synced, "it is on disk before it has its name"
    rows.write_bytes(b"")
    left, coming = (folder / f".x.npy.{name}.unfinished" for name in ("left", "coming"))
    left.touch()
    coming.touch()
    os.utime(left, (0, 0))
    RemoteStudy(store_of(shared), "", tmp_path / "cache")
    assert rows.read_bytes() == whole
    assert (left.exists(), coming.exists()) == (False, True), "only what nobody is fetching any more"


def test_a_damaged_or_missing_model_is_never_used(shared: Study, tmp_path: Path) -> None:
    run_worker(RemoteStudy(store_of(shared), "", tmp_path / "cache"), once=True, nice=False)
    [model] = shared.store.models.all()
    [file] = (tmp_path / "shelf").glob(f"*/{model.path}/posterior.safetensors")
    whole = file.read_bytes()
    for broken in (whole[:-100], whole[:-1] + bytes([whole[-1] ^ 1])):
        file.write_bytes(broken)
        with pytest.raises(ShelfError, match="not what was put there"):
            shared.sharing.fetch()
        assert shared.store.models.newest() is None
    file.unlink()
    with pytest.raises(ShelfError, match="could not be fetched"):
        shared.sharing.fetch()
    assert [path.name for path in (shared.folder / "models").iterdir()] == [], "no half of it is left"
    file.write_bytes(whole)
    shared.sharing.fetch()
    assert shared.store.models.newest() == model


def test_what_a_newer_version_made_is_refused(
    shared: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as newer:
        newer.setattr(sharing, "__version__", "7.3.1")
        model = shared.fit()
    with RemoteStudy(store_of(shared), "", tmp_path / "cache").open() as study:
        assert study.store.models.newest() is None, "told in a warning; nothing is loaded"
        with pytest.raises(NewerVersionError, match=r"model 1 was made by Steelyard 7\.3\.1, .*pip install"):
            study.sharing.refresh()
    assert shared.store.models.newest().id == model.id, "where it was made it is in use"  # type: ignore[union-attr]
    shared.store.settings.put(
        "shared study", {**shared.store.settings.get("shared study"), "steelyard": "0.99.0"}
    )
    with pytest.raises(NewerVersionError, match="what the study shares was made by"):
        RemoteStudy(store_of(shared), "", tmp_path / "other")


def test_a_worker_never_migrates_and_notices_when_somebody_does(shared: Study, tmp_path: Path) -> None:
    remote = RemoteStudy(store_of(shared), "", tmp_path / "cache")
    for revision, message in (
        ("0009", "upgrade the machine that serves it first"),
        ("0999", "upgrade Steelyard"),
    ):
        with shared.store.database.writing() as connection:
            connection.execute(sa.text(f"UPDATE alembic_version SET version_num = '{revision}'"))
        with pytest.raises(StoreError, match=message):
            RemoteStudy(store_of(shared), "", tmp_path / "cache")
    with (
        Store(shared.store.database) as open_here,
        pytest.raises(StoreError, match="migrated to revision 0999 while"),
    ):
        open_here.check_revision()
    with shared.store.database.writing() as connection:
        connection.execute(sa.text(f"UPDATE alembic_version SET version_num = '{shared.store.revision}'"))
    assert remote.open().sharing.catch_up() is not None


def test_images_that_the_worker_cannot_see(
    make_growing: Callable[..., Study], first: Path, tmp_path: Path
) -> None:
    study = make_growing(models=f"file://{tmp_path}/shelf")
    for pair in study.ask(6):
        study.tell(pair, "left")
    study.sharing.refresh()
    first.rename(tmp_path / "moved")
    with pytest.raises(StudyError, match=r"not one of the study's images .*--images DIR"):
        run_worker(RemoteStudy(store_of(study), "", tmp_path / "cache"), once=True, nice=False)
    assert study.store.models.trainer.state().owner is None
    assert study.store.models.all() == []
    found = RemoteStudy(store_of(study), "", tmp_path / "there", images=tmp_path / "moved")
    with found.open() as seen:
        found.check_inputs(seen)
        assert seen.catalog.root == tmp_path / "moved"


def test_features_that_the_server_computed_spare_the_worker_the_images(
    make_growing: Callable[..., Study], first: Path, later: Path, tmp_path: Path
) -> None:
    ranker = {"kind": "convex", "backbone": "lite0", "image_size": 32}
    study = make_growing(models=f"file://{tmp_path}/shelf", preset="quick", ranker=ranker)
    for pair in study.ask(6):
        study.tell(pair, "left")
    rows = study.inputs()
    study.sharing.refresh()
    remote = RemoteStudy(store_of(study), "", tmp_path / "cache")
    first.rename(tmp_path / "moved")
    with remote.open() as seen:
        assert seen.described
        assert np.array_equal(seen.inputs(), rows)
        (tmp_path / "moved").rename(first)
        study.add(later)
        study.sharing.refresh()
        remote.refresh(seen)
        assert seen.follow()
        assert len(seen.catalog) == len(study.catalog) == len(rows) + 3
        assert not seen.described, "the new ones have not been computed"


def test_the_command_says_what_it_needs(
    shared: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def said(*words: str) -> str:
        done = CliRunner().invoke(app, ["worker", *words])
        assert isinstance(done.exception, SteelyardError)
        return str(done.exception)

    monkeypatch.delenv("STEELYARD_STORE", raising=False)
    assert "needs the folder of a study, or --store URL" in said()
    assert "name one of the two" in said(str(shared.folder), "--store", "sqlite:///x")
    assert "go with --store" in said(str(shared.folder), "--models", "file:///x")
    assert "no folder of this machine" in said("--store", store_of(shared), "--images", str(tmp_path / "no"))
    shared.store.settings.put("shared study", {})
    with shared.store.database.writing() as connection:
        connection.execute(sa.text("DELETE FROM settings WHERE key = 'shared study'"))
    assert 'set models = "URL" in its study.toml' in said("--store", store_of(shared))
    with pytest.raises(ConfigError, match=r"models = 'nowhere://x' cannot be used"):
        Shelf("nowhere://x", "a")


def test_a_shelf_keeps_studies_apart(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"one")
    one, two = Shelf("memory://apart", "one"), Shelf("memory://apart", "two")
    kept = one.put("models/round-000-aa/a", tmp_path / "a")
    assert (one.folders("models"), two.folders("models")) == (["round-000-aa"], [])
    two.remove("models/round-000-aa")
    one.get("models/round-000-aa/a", tmp_path / "b", kept)
    assert (tmp_path / "b").read_bytes() == b"one"
    with pytest.raises(ShelfError):
        two.get("models/round-000-aa/a", tmp_path / "c", Kept(3, ""))


def test_a_study_that_had_models_before_shares_its_newest(answered: Study, tmp_path: Path) -> None:
    answered.fit()
    answered.config.with_changes(models=f"file://{tmp_path}/shelf").save(answered.folder / "study.toml")
    with Study.open(answered.folder) as study:
        study.sharing.refresh()
        with RemoteStudy(store_of(study), "", tmp_path / "cache").open() as copy:
            assert copy.store.models.newest() == study.store.models.newest()
            assert copy.score().equals(study.score())
        (tmp_path / "x.npy").rename(tmp_path / "away.npy")
        study.sharing._last = None
        with pytest.raises(ShelfError, match="cannot be shared"):
            study.sharing.refresh()


def test_a_restored_copy_leaves_the_models_of_the_original_alone(shared: Study, tmp_path: Path) -> None:
    shared.fit()
    backup = backup_study(shared.folder, tmp_path / "copy.zip")
    with Study.open(restore_study(backup.path, tmp_path / "copy").folder) as copy:
        assert copy.config.models == ""
        copy.config.with_changes(models=shared.config.models).save(copy.folder / "study.toml")
    with Study.open(tmp_path / "copy") as copy:
        answer(copy, 10)
        copy.fit()
    there = sorted(path.parent.parent.name for path in (tmp_path / "shelf").glob("*/models/*"))
    assert len(there) == len(set(there)) == 2
    with Study.open(shared.folder) as original:
        assert len(original.store.models.all()) == 1


@pytest.mark.postgres
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGQUIT], ids=["stopped", "killed"])
def test_a_worker_outlives_a_database_that_goes_while_it_publishes(
    make_study: Callable[..., Study], own_postgres: Postgres, tmp_path: Path, how: signal.Signals
) -> None:
    """Its model is on the shelf and announced to nobody when the database goes: it waits, and announces one, not two."""
    shelf = f"file://{tmp_path}/shelf"
    study = make_study(
        ask={"start": "random", "random_share": 0.0}, refit_after=10, models=shelf, store=own_postgres.url
    )
    answer(study, 12)
    study.sharing.refresh()
    worker = subprocess.Popen(
        [sys.executable, str(PROGRAM), own_postgres.url, shelf, str(tmp_path / "cache"), "held"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    try:
        assert worker.stdout is not None
        assert worker.stdin is not None
        assert "stuck at models/round-000-" in worker.stdout.readline()
        own_postgres.stop(how)
        worker.stdin.write("\n" * 20)  # on, and never held again
        worker.stdin.flush()
        # What it has put up is written down in the database first, so it cannot but notice.
        with pytest.raises(subprocess.TimeoutExpired):
            worker.wait(timeout=4)
        own_postgres.start()
        until(lambda: len(study.store.models.all()) == 1, seconds=120)
        study.sharing.fetch()
        [model] = study.store.models.all()
        assert model.metrics["answers"] == 12
        answer(study, 10)
        until(lambda: len(study.store.models.all()) == 2, seconds=120)
        assert study.store.check() == []
        there = {path.name for path in (tmp_path / "shelf").glob("*/models/*")}
        assert there == {Path(one.path).name for one in study.store.models.all()}, (
            "nothing is left of the try"
        )
    finally:
        worker.kill()
        worker.communicate()


@pytest.mark.postgres
def test_a_killed_worker_is_taken_over_and_nothing_is_lost_or_doubled(
    make_study: Callable[..., Study], postgres_url: str, tmp_path: Path
) -> None:
    """One of two workers is killed with half a model on the shelf: the other trains, nobody ever sees the half."""
    shelf = f"file://{tmp_path}/shelf"
    store = f"{postgres_url}{'&' if '?' in postgres_url else '?'}schema=colon"
    study = make_study(
        ask={"start": "random", "random_share": 0.0}, refit_after=10, models=shelf, store=store
    )
    answer(study, 12)
    study.sharing.refresh()
    workers: list[subprocess.Popen[str]] = []

    def start(name: str, *how: str) -> subprocess.Popen[str]:
        command = [sys.executable, str(PROGRAM), store, shelf, str(tmp_path / name), *how]
        workers.append(
            subprocess.Popen(
                command, stdout=subprocess.PIPE, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"}
            )
        )
        return workers[-1]

    try:
        first = start("first", "slow")
        assert first.stdout is not None
        assert "stuck at models/round-000-" in first.stdout.readline()
        trainer = study.store.models.trainer
        assert f":{first.pid}:" in str(trainer.state().owner)
        start("second")
        [half] = (tmp_path / "shelf").glob("*/models/*")
        assert study.store.models.all() == [], "half a model is announced to nobody"
        first.kill()
        first.wait()
        until(lambda: len(study.store.models.all()) == 1, seconds=180)  # the lease has to run out first
        assert study.sharing.fetch()
        [model] = study.store.models.all()
        assert study.store.models.newest() == model
        assert model.metrics["answers"] == 12, "it learnt from all of them"
        assert not half.exists(), "what was left of the other is swept away"
        answer(study, 10)
        until(lambda: len(study.store.models.all()) == 2, seconds=180)
        until(lambda: trainer.state().owner is None)
        study.sharing.fetch()
        assert [one.round for one in study.store.models.all()] == [0, 1]
        assert study.store.models.all()[-1].metrics["answers"] == 22
        assert study.store.check() == []
        assert len(study.score()) == len(study.catalog)
    finally:
        for one in workers:
            one.kill()
            one.wait()
            assert one.stdout is not None
            one.stdout.close()
