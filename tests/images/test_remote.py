"""Images at URLs: listed by the rules for folders, read and compared with their id, without secrets, away for a while."""

from __future__ import annotations

import re
import sys
import uuid
from pathlib import Path

import fsspec
import pytest
from fsspec.registry import _registry

from steelyard.errors import CatalogError, ImageError, MissingExtraError
from steelyard.images import remote
from steelyard.images.catalog import Catalog
from steelyard.images.originals import Originals
from steelyard.images.presence import has_file, look_for_files
from steelyard.images.unreachable import UnreachableError
from tests.images.elsewhere import WebFolder, png


@pytest.fixture
def bucket() -> str:
    """A place in fsspec's own memory, as a bucket is: keys with slashes, and no folders."""
    url = f"memory://{uuid.uuid4().hex}"
    for k in range(4):
        put(f"{url}/{k % 2}/i{k}.png", png(k))
    return url


def put(url: str, content: bytes) -> None:
    fsspec.filesystem("memory").pipe_file(url.removeprefix("memory:/"), content)


def test_a_bucket_is_listed_as_a_folder_with_the_same_files_is(bucket: str, tmp_path: Path) -> None:
    extra = {
        ".hidden/x.png": png(50), "__MACOSX/x.png": png(51), "a/.x.png": png(52), "notes.txt": b"hello",
        "scan": png(53), "README": b"hello", "Z.JPG": png(54), "DICOMDIR": b"x",
    }  # fmt: skip
    for path, content in extra.items():
        put(f"{bucket}/{path}", content)
    for path in [*extra, *(f"{k % 2}/i{k}.png" for k in range(4))]:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes(extra.get(path) or png(int(path[3])))
    there, here = Catalog.from_folder(bucket + "/", check=True), Catalog.from_folder(tmp_path, check=True)
    assert there.paths.tolist() == [f"{bucket}/{path}" for path in here.paths]
    assert there.ids.tolist() == here.ids.tolist()
    assert there.report.passed_over == here.report.passed_over
    assert there.report.mislabelled == here.report.mislabelled
    assert (there.read(1) == here.read(1)).all()
    assert there.root is None


def test_grades_tables_and_saved_catalogs(bucket: str, tmp_path: Path) -> None:
    graded = Catalog.from_grades(bucket)
    assert (graded.grade_names, graded.grades.tolist()) == (("0", "1"), [0, 0, 1, 1])
    table = tmp_path / "labels.csv"
    (tmp_path / "near.png").write_bytes(png(20))
    table.write_text(f"image,grade,group\n{bucket}/0/i0.png,2,p1\nnear.png,1,p2\n", encoding="utf-8")
    mixed = Catalog.from_csv(table)
    assert mixed.paths.tolist() == [f"{bucket}/0/i0.png", "near.png"]
    mixed.save(tmp_path / "catalog.arrow")
    opened = Catalog.open(tmp_path / "catalog.arrow")
    assert [opened.read(row).shape for row in range(2)] == [(24, 24, 3)] * 2
    assert (opened.raw_path(0), opened.raw_path(1)) == (None, tmp_path / "near.png")
    assert opened.verify() == ()
    below = Catalog.from_csv(write(tmp_path / "b.csv", "image\n0/i2.png\n"), bucket)
    assert below.paths.tolist() == [f"{bucket}/0/i2.png"]


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def test_a_host_may_be_a_number() -> None:
    assert remote.check_url("https://[::1]:8443/images/") == "https://[::1]:8443/images"


def test_a_file_url_is_a_folder(tmp_path: Path) -> None:
    (tmp_path / "a b.png").write_bytes(png(1))
    catalog = Catalog.from_folder((tmp_path).as_uri())
    assert (catalog.root, catalog.paths.tolist()) == (tmp_path, ["a b.png"])


@pytest.mark.parametrize("name", ["x#b", "50% ?", "a b"])
def test_a_file_url_may_have_any_name(tmp_path: Path, name: str) -> None:
    assert remote.as_place(f"file://{tmp_path}/{name.replace('%', '%25')}") == tmp_path / name
    assert remote.as_place((tmp_path / name).as_uri()) == tmp_path / name


def test_a_key_with_a_folder_without_a_name_is_told_and_keeps_nobody_out(bucket: str) -> None:
    put(f"{bucket}//x.png", png(8))
    put(f"{bucket}/a//y.png", png(9))
    catalog = Catalog.from_folder(bucket)
    assert f"{bucket}/a//y.png" in catalog.paths.tolist()
    assert [str(bad) for bad in catalog.report.bad] == [
        f"/x.png: has a folder without a name below {bucket} (//): rename it"
    ]


@pytest.mark.parametrize(
    "url", ["https://[oops/1.png", "s3://[oops", "https://host:port/1.png", "file://[oops/x"]
)
def test_what_is_no_address_is_named(url: str, tmp_path: Path) -> None:
    with pytest.raises(CatalogError, match=rf"{re.escape(url)} is no address .*: write it as in"):
        Catalog.from_folder(url)
    if remote.is_url(url):
        with pytest.raises(CatalogError, match=r"line 2, column image: .* is no address"):
            Catalog.from_csv(write(tmp_path / "labels.csv", f"image\n{url}\n"))
        with pytest.raises(ImageError, match="is no address"):
            remote.read_url(url)
        assert not remote.is_there(url)


def test_what_is_no_address_keeps_its_secret() -> None:
    with pytest.raises(CatalogError, match="is no address") as caught:
        remote.check_url("https://me:topsecret@[oops/1.png")
    assert "topsecret" not in str(caught.value)


def test_a_changed_object_is_noticed_and_never_shown(bucket: str, tmp_path: Path) -> None:
    catalog = Catalog.from_folder(bucket)
    put(f"{bucket}/0/i0.png", png(99))
    with pytest.raises(ImageError, match="other bytes than when it joined"):
        catalog.read(0)
    put(f"{bucket}/0/i0.png", png(0))
    catalog.originals = Originals(tmp_path / "kept", 10**6)
    before = catalog.read(0)
    put(f"{bucket}/0/i0.png", png(99))
    assert (catalog.read(0) == before).all()  # as it was when it joined
    (wrong,) = catalog.verify()  # looks at the object itself
    assert (wrong.path, wrong.reason) == (
        f"{bucket}/0/i0.png",
        "has other bytes than when the catalog was made",
    )
    assert catalog.originals.path(f"{bucket}/0/i0.png").write_bytes(
        png(99)
    )  # somebody meddled with what is kept
    with pytest.raises(ImageError, match="other bytes"):
        catalog.read(0)


@pytest.mark.parametrize(
    "url",
    [
        "s3://key:topsecret@bucket/x",
        "https://topsecret@host/x",
        "https://host/x?X-Amz-Signature=topsecret",
        "https://host/x?sv=1&sig=topsecret",
        "https://host/x?access_token=topsecret",
        "simplecache::s3://topsecret@bucket/x",
    ],
)
def test_secrets_in_a_url_are_refused_and_not_repeated(url: str, tmp_path: Path) -> None:
    table = write(tmp_path / "labels.csv", f"image\n{url}/a.png\n" if "?" not in url else f"image\n{url}\n")
    for attempt in (lambda: Catalog.from_folder(url), lambda: Catalog.from_csv(table)):
        with pytest.raises(CatalogError) as caught:
            attempt()
        assert "topsecret" not in str(caught.value).removeprefix(str(table))


def test_what_is_not_installed_or_unknown_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(CatalogError, match="not nonsense://"):
        remote.list_urls("nonsense://x")
    with pytest.raises(CatalogError, match="there is nothing at this address"):
        remote.list_urls(f"memory://{uuid.uuid4().hex}")
    monkeypatch.setitem(sys.modules, "s3fs", None)
    monkeypatch.setitem(sys.modules, "gcsfs", None)
    for scheme, extra in (("s3", "s3"), ("gs", "gcs")):
        monkeypatch.delitem(_registry, scheme, raising=False)  # another test may have used it
        with pytest.raises(MissingExtraError, match=rf"steelyard\[{extra}\]"):
            remote.list_urls(f"{scheme}://bucket/folder")


def test_a_web_server_is_followed_from_page_to_page(web: WebFolder) -> None:
    for path in ("a.png", "deep/er/b c.png", ".hidden/x.png"):
        web.write(path, png(len(path)))
    catalog = Catalog.from_folder(web.url)
    assert catalog.paths.tolist() == [f"{web.url}/a.png", f"{web.url}/deep/er/b%20c.png"]
    assert catalog.read(1).shape == (24, 24, 3)
    assert has_file(catalog, 1)
    (web.folder / "a.png").unlink()
    assert not has_file(catalog, 0)
    assert look_for_files(catalog).missing == 1
    with pytest.raises(ImageError, match="is missing"):
        catalog.read(0)


@pytest.mark.parametrize("status", [403, 404, 416])
def test_a_file_without_a_suffix_that_is_refused_is_no_image_and_ends_nothing(
    web: WebFolder, status: int
) -> None:
    web.write("a.png", png(1))
    web.write("README", b"hello")
    web.refuse["/README"] = status
    catalog = Catalog.from_folder(web.url)
    assert catalog.paths.tolist() == [f"{web.url}/a.png"]
    assert catalog.report.passed_over == (("", 1),)
    assert catalog.report.bad == ()


def test_a_file_without_a_suffix_that_cannot_be_had_now_is_not_taken_for_another(web: WebFolder) -> None:
    web.write("a.png", png(1))
    web.write("scan", png(2))
    web.refuse["/scan"] = 503
    with pytest.raises(UnreachableError, match="503"):
        Catalog.from_folder(web.url)


def test_a_server_that_is_away_is_an_error_for_now_and_nothing_is_taken_for_bad(
    web: WebFolder, tmp_path: Path
) -> None:
    web.write("a.png", png(1))
    web.write("b.png", png(2))
    catalog = Catalog.from_folder(web.url)
    catalog.originals = Originals(tmp_path / "kept", 10**6)
    catalog.read(0)
    web.stop()
    assert catalog.read(0).shape == (24, 24, 3)  # it is kept here
    with pytest.raises(UnreachableError, match="cannot be reached now"):
        catalog.read(1)
    with pytest.raises(UnreachableError):
        Catalog.from_folder(web.url)
    assert (has_file(catalog, 0), has_file(catalog, 1)) == (True, False)
    web.start()
    assert catalog.read(1).shape == (24, 24, 3)
    web.fail = 503
    with pytest.raises(UnreachableError, match="503"):
        Catalog.from_folder(web.url)
    web.fail = 403
    with pytest.raises(CatalogError, match="may not be read with the credentials"):
        Catalog.from_folder(web.url)


def test_one_hiccup_is_tried_again(web: WebFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    web.write("a.png", png(1))
    catalog = Catalog.from_folder(web.url)
    web.fail = 500
    monkeypatch.setattr(remote.time, "sleep", lambda _: setattr(web, "fail", 0))
    assert catalog.read(0).shape == (24, 24, 3)


def test_a_host_that_is_away_is_not_asked_for_every_image(
    web: WebFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    for k in range(20):
        web.write(f"{k}.png", png(k))
    catalog = Catalog.from_folder(web.url)
    monkeypatch.setattr(remote, "REST_SECONDS", 600.0)
    web.fail, web.asked = 500, []
    for row in range(20):
        with pytest.raises(UnreachableError):
            catalog.read(row)
    assert len(web.asked) == remote.TRIES
    remote._away.clear()


def test_images_move_to_a_server_and_back(web: WebFolder, tmp_path: Path) -> None:
    folder = tmp_path / "local"
    folder.mkdir()
    for k in range(3):
        (folder / f"{k}.png").write_bytes(png(k))
        web.write(f"renamed/{k}x.png", png(k))
    here = Catalog.from_folder(folder)
    there, moved, missing = here.relocate(web.url)
    assert (moved, missing) == (3, ())
    assert there.paths[0] == f"{web.url}/renamed/0x.png"
    assert there.read(2).shape == (24, 24, 3)
    back = there.relocate(folder).catalog
    assert (back.root, back.paths.tolist()) == (folder, ["0.png", "1.png", "2.png"])
