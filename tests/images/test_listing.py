"""Images from anywhere: what is listed, in which order, and what their bytes are."""

from __future__ import annotations

import functools
import http.server
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import fsspec
import numpy as np
import pandas as pd
import pytest
from PIL import Image

from steelyard.errors import CatalogError, ImageError
from steelyard.images.files import find_images
from steelyard.images.listing import Listing, list_images, read_bytes
from steelyard.images.report import Noticed


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "images with spaces"
    for k, name in enumerate(["b.png", "a/2.jpg", "a/10.jpg", ".hidden/x.png", "a/.x.png"]):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.full((8, 8, 3), k, dtype=np.uint8)).save(path)
    Image.fromarray(np.full((8, 8, 3), 99, dtype=np.uint8)).save(root / "scan", format="PNG")
    (root / "notes.txt").write_text("not an image")
    (root / "README").write_text("nor is this")
    return root


@pytest.fixture
def web(folder: Path) -> Iterator[str]:
    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None: ...

    with http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), functools.partial(Quiet, directory=str(folder))
    ) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_a_folder_is_listed_as_a_catalog_lists_it(folder: Path) -> None:
    found = list_images(str(folder))
    assert list(found.paths) == find_images(folder).paths == ["a/10.jpg", "a/2.jpg", "b.png", "scan"]
    assert read_bytes(found.address("b.png")) == (folder / "b.png").read_bytes()


def test_an_address_lists_the_same(folder: Path, web: str) -> None:
    here = fsspec.filesystem("memory")
    for path in find_images(folder).paths:
        here.pipe_file(f"/listed/{path}", (folder / path).read_bytes())
    for source in (f"file://{folder}", "memory://listed/", f"{web}/"):
        found = list_images(source)
        assert list(found.paths) == find_images(folder).paths, source
        assert read_bytes(found.address("a/10.jpg")) == (folder / "a" / "10.jpg").read_bytes(), source
    here.rm("/listed", recursive=True)


def test_files_whose_names_cannot_be_used_are_listed_in_their_places() -> None:
    here = fsspec.filesystem("memory")
    for name in ("a.png", "b.png#3", "c.png"):
        here.pipe_file(f"/named/{name}", b"bytes")
    found = list(list_images("memory://named").rows())
    here.rm("/named", recursive=True)
    assert [path for path, _ in found] == ["a.png", "b.png#3", "c.png"]
    assert [bool(reason) for _, reason in found] == [False, True, False]
    assert "rename it" in found[1][1]


def test_a_name_that_is_no_text_can_be_written_down(tmp_path: Path) -> None:
    bad = Noticed("b\udcff.png", "has a name that is not valid UTF-8")
    assert list(Listing(str(tmp_path), ["a.png", "c.png"], [bad]).rows()) == [
        ("a.png", ""),
        ("b\\udcff.png", bad.reason),
        ("c.png", ""),
    ]


def test_lists_name_files_beside_them_anywhere_and_by_address(folder: Path, web: str) -> None:
    names = ["a/2.jpg", str(folder / "b.png"), f"{web}/scan", f"file://{folder}/a/10.jpg"]
    pd.DataFrame({"n": range(4), "path": names}).to_parquet(folder / "list.parquet")
    pd.DataFrame({"image": names, "path": "x"}).to_csv(folder / "list.csv", index=False, encoding="utf-8-sig")
    wanted = [folder / "a" / "2.jpg", folder / "b.png", folder / "scan", folder / "a" / "10.jpg"]
    for source in (folder / "list.parquet", folder / "list.csv", f"file://{folder}/list.csv", f"{web}/list.csv"):  # fmt: skip
        found = list_images(str(source))
        paths = list(found.paths)
        assert paths == names
        read = [read_bytes(found.address(path)) for path in paths]
        assert read == [path.read_bytes() for path in wanted], source


def test_paths_that_a_parquet_file_has_as_bytes_are_text(tmp_path: Path) -> None:
    names = ["a.png", "b – ü.png"]
    pd.DataFrame({"image": [name.encode() for name in names]}).to_parquet(tmp_path / "list.parquet")
    assert list(list_images(str(tmp_path / "list.parquet")).paths) == names
    pd.DataFrame({"image": [b"a.png", b"\xff.png"]}).to_parquet(tmp_path / "list.parquet")
    with pytest.raises(CatalogError, match=r"list\.parquet cannot be read"):
        list(list_images(str(tmp_path / "list.parquet")).paths)


@pytest.mark.parametrize(
    "secret",
    [
        "https://me:hush@x.org/1.png",
        "s3://hush@bucket/1.png",
        "https://x.org/1.png?X-Amz-Signature=hush",
        "https://me:hush@[oops/1.png",
        "zip://1.png::https://me:hush@x.org/1.zip",
    ],
)
def test_a_list_with_a_secret_in_it_is_refused_without_telling_it(tmp_path: Path, secret: str) -> None:
    (tmp_path / "list.csv").write_text(f"image\na.png\n{secret}\n")
    with pytest.raises(CatalogError, match=r"list\.csv, row 2: ") as raised:
        list(list_images(str(tmp_path / "list.csv")).paths)
    assert "hush" not in str(raised.value)


def test_an_address_that_only_looks_like_a_secret_is_listed(tmp_path: Path) -> None:
    names = [
        "https://x.org/a@b.png",
        "https://x.org/1.png?size=9",
        "sftp://me@x.org/1.png",
        "me@x.org/1.png",
        "foo://x/1.png",
    ]
    (tmp_path / "list.csv").write_text("\n".join(["image", *names]))
    assert list(list_images(str(tmp_path / "list.csv")).paths) == names


def test_what_cannot_be_listed_is_said(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "wrong.csv").write_text("file,grade\na.png,1\n")
    (tmp_path / "empty.csv").write_text("image\n")
    (tmp_path / "hole.csv").write_text("n,image\n1,a.png\n2,\n")
    (tmp_path / "no.parquet").write_bytes(b"PAR1")
    (tmp_path / "nothing").mkdir()
    for source, said in (
        ("wrong.csv", "has no column image or path, only file, grade"),
        ("empty.csv", "has no images"),
        ("hole.csv", "row 2: the path of an image is empty"),
        ("no.parquet", "is not a Parquet file"),
        ("gone.csv", "there is no list"),
        ("nothing", "has no images"),
        ("nowhere", "there is no folder"),
    ):
        with pytest.raises(CatalogError, match=said):
            list(list_images(str(tmp_path / source)).paths)
    with pytest.raises(CatalogError, match="there is no folder"):
        list_images(f"file://{tmp_path}/nowhere")
    with pytest.raises(CatalogError, match="not ipod://"):
        list_images("ipod://bucket/images")
    with pytest.raises(CatalogError, match="was given with a name or password"):
        list_images("https://me:secret@x.org/images")


def test_bytes_that_cannot_be_had(folder: Path, web: str) -> None:
    os.mkfifo(folder / "pipe.png")
    with pytest.raises(ImageError, match="is a pipe, socket or device"):
        read_bytes(str(folder / "pipe.png"))
    for place, said in (
        (str(folder / "gone.png"), "is missing"),
        (f"{web}/gone.png", "is missing"),
        (str(folder), "is a folder"),
        ("http://127.0.0.1:9/x.png", "cannot be reached now"),
        ("a\0b", "cannot be read"),
        ("https://[oops/1.png", "cannot be read"),
        ("foo://x/1.png", "cannot be read: .*not foo://"),
        ("zip://x.png", "cannot be read"),
        ("zip://x.png::/tmp/a.zip", "cannot be read: .*no '::'"),
    ):
        with pytest.raises(ImageError, match=said):
            read_bytes(place)
