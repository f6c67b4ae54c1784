"""A study of images in a bucket, with a model store in it, over S3's own protocol: moto's server stands in for Amazon's."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import boto3
import pandas as pd
import pytest
from moto.server import ThreadedMotoServer
from typer.testing import CliRunner

from steelyard.cli import app
from steelyard.errors import CatalogError
from steelyard.images import remote
from steelyard.images.catalog import Catalog
from steelyard.images.unreachable import UnreachableError
from steelyard.rescue import check_study
from steelyard.study import Study
from steelyard.study.remote import RemoteStudy
from steelyard.web.trainer import run_worker
from tests.images.elsewhere import png
from tests.study.conftest import answer as answer_rows
from tests.study.growing import answer, sound

N = 8


class Bucket:
    """A server of S3 that can go away and come back with what it holds."""

    def __init__(self) -> None:
        self.server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
        self.start()
        self.port = self.server.get_host_and_port()[1]

    def start(self) -> None:
        """Be there, at the same address."""
        self.server.start()

    def stop(self) -> None:
        """Refuse connections."""
        self.server.stop()
        self.server = ThreadedMotoServer(ip_address="127.0.0.1", port=self.port, verbose=False)

    def put(self, key: str, content: bytes) -> None:
        """Store an object."""
        boto3.client("s3").put_object(Bucket="hospital", Key=key, Body=content)

    def keys(self, prefix: str) -> list[str]:
        """What is there."""
        told = boto3.client("s3").list_objects_v2(Bucket="hospital", Prefix=prefix)
        return [one["Key"] for one in told.get("Contents", [])]


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[Bucket]:
    """A bucket `hospital`; credentials are where Amazon's own tools look."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    there = Bucket()
    for name, value in {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{there.port}", "AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_DEFAULT_REGION": "us-east-1", "AWS_CONFIG_FILE": os.devnull, "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
    }.items():  # fmt: skip
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(remote, "REST_SECONDS", 0.0)
    boto3.client("s3").create_bucket(Bucket="hospital")
    yield there
    there.server.stop()
    _forget()


def _forget() -> None:
    """s3fs keeps its clients, with the address that they were made for."""
    import s3fs

    s3fs.S3FileSystem.clear_instance_cache()


def run(*words: object) -> str:
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert result.exit_code == 0, result.output + repr(result.exception)
    return result.stdout


def test_from_a_bucket_to_scores(bucket: Bucket, tmp_path: Path) -> None:
    for k in range(N):
        bucket.put(f"colon/p{k % 3}/i{k:02}.png", png(k, 40))
    run("init", tmp_path / "study", "--images", "s3://hospital/colon/", "--later")
    with Study.open(tmp_path / "study") as study:
        ranker = {"kind": "convex", "backbone": "lite0", "image_size": 32}
        study.config = study.config.with_changes(ranker=ranker, ask={"start": "random"})
        study.config.save(study.folder / "study.toml")
        assert study.catalog.paths[0] == "s3://hospital/colon/p0/i00.png"
        answer(study, 12)
        study.fit()
        for k in range(5):
            bucket.put(f"new/n{k}.png", png(50 + k, 40))
        bucket.put("new/n5.png", png(55, 40)[:300])
        bucket.put("new/list.csv", b"image\nn1.png\nn3.png\n")
        whole = study.score("s3://hospital/new").set_index("path")["score"]
        run("score", study.folder, "s3://hospital/new", "--engine", "local", "-o", tmp_path / "new")
        table = pd.read_parquet(tmp_path / "new")
        assert table["path"].tolist() == [f"n{k}.png" for k in range(6)]
        assert table.set_index("path")["error"].map(bool).tolist() == [False] * 5 + [True]
        for name in whole.index:
            assert table.set_index("path")["score"][Path(name).name] == pytest.approx(whole[name], abs=1e-12)
        run("score", study.folder, "s3://hospital/new/list.csv", "--engine", "local", "-o", tmp_path / "two")
        assert pd.read_parquet(tmp_path / "two")["path"].tolist() == ["n1.png", "n3.png"]
        told = json.loads(run("add", study.folder, "s3://hospital/new/", "--json"))
        assert told["added"] == 5
        assert study.follow()
        assert sound(study)


def test_markers_of_other_tools_keep_nobody_out(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "REST_SECONDS", 600.0)
    for key in ("marked/", "marked/_SUCCESS", "marked/deep/$folder$"):
        bucket.put(key, b"")
    bucket.put("marked/a.png", png(1))
    assert Catalog.from_folder("s3://hospital/marked").paths.tolist() == ["s3://hospital/marked/a.png"]
    # A server that does not tell sizes is asked, says that there are no such bytes, and is not away for it.
    assert not remote._starts_like_an_image("s3://hospital/marked/_SUCCESS", {})
    assert len(Catalog.from_folder("s3://hospital/marked")) == 1


def test_a_bucket_that_is_away_or_not_there(bucket: Bucket, caplog: pytest.LogCaptureFixture) -> None:
    bucket.put("colon/a.png", png(1))
    bucket.put("colon/b.png", png(2))
    catalog = Catalog.from_folder("s3://hospital/colon")
    with caplog.at_level("INFO", "werkzeug"):
        caplog.clear()
        catalog.read(0)
    assert [line.split('"')[1].split()[0] for line in caplog.messages] == ["GET"], "one request an image"
    with pytest.raises(CatalogError, match="there is nothing at this address"):
        Catalog.from_folder("s3://hospital/nowhere")
    with pytest.raises(CatalogError):
        Catalog.from_folder("s3://no-such-bucket/x")
    bucket.stop()
    with pytest.raises(UnreachableError, match="cannot be reached now"):
        catalog.read(0)
    bucket.start()
    assert catalog.read(1).shape == (24, 24, 3)


def test_a_worker_with_a_bucket_for_its_models(
    make_study: Callable[..., Study], bucket: Bucket, tmp_path: Path
) -> None:
    study = make_study(
        ask={"start": "random", "random_share": 0.0}, refit_after=10, models="s3://hospital/models"
    )
    answer_rows(study, 12)
    study.sharing.refresh()
    store = f"sqlite:///{study.folder}/study.db"
    assert run_worker(RemoteStudy(store, "", tmp_path / "cache"), once=True, nice=False) == 1
    assert any(key.endswith("posterior.safetensors") for key in bucket.keys("models/"))
    study.sharing.fetch()
    [model] = study.store.models.all()
    assert study.store.models.newest() == model
    assert len(study.score()) == len(study.catalog)
    assert [one.sentence for one in check_study(study.folder) if one.level == "problem"] == []
