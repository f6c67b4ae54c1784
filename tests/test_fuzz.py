"""Whatever a file holds, what comes out is an answer or a SteelyardError – never a traceback."""

from __future__ import annotations

import contextlib
import io
import itertools
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

import steelyard as sy
from steelyard.config import StudyConfig
from steelyard.errors import CatalogError, SteelyardError
from steelyard.exchange import export_file, import_file
from steelyard.images.decode import decode
from steelyard.study import Study

quick = settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@st.composite
def mutated(draw: st.DrawFn, original: bytes) -> bytes:
    """Real content with a few things done to it: bytes changed, cut, doubled, put in."""
    content = bytearray(original)
    for _ in range(draw(st.integers(1, 6))):
        at = draw(st.integers(0, max(0, len(content) - 1)))
        what = draw(st.sampled_from(["change", "cut", "drop", "double", "insert"]))
        if what == "change" and content:
            content[at] = draw(st.integers(0, 255))
        elif what == "cut":
            del content[at:]
        elif what == "drop":
            del content[at : at + draw(st.integers(1, 40))]
        elif what == "double":
            content[at:at] = content[at : at + draw(st.integers(1, 40))]
        else:
            content[at:at] = draw(st.binary(min_size=1, max_size=12))
    return bytes(content)


def make_catalog(folder: Path) -> sy.Catalog:
    folder.mkdir(parents=True, exist_ok=True)
    np.save(folder / "x.npy", np.random.default_rng(0).normal(size=(8, 3)).astype(np.float32))
    (folder / "labels.csv").write_text(
        "image,grade,group\n" + "\n".join(f"i{k}.png,{k % 3},p{k}" for k in range(8))
    )
    return sy.Catalog.from_features(folder / "x.npy", folder / "labels.csv")


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """Real files of every kind."""
    folder = tmp_path_factory.mktemp("exported")
    with Study.create(folder / "study", make_catalog(folder), preset="features") as study:
        for k, pair in enumerate(study.ask(5, annotator="ann")):
            study.tell(pair, list(sy.Answer)[k % 4], annotator="ann", shown_at=100.0 + k, note=f"=note {k}")
        for name, form in (
            ("a.csv", "csv"), ("a.json", "json"), ("a.parquet", "parquet"), ("ls.json", "labelstudio"), ("c.json", "choix"),
        ):  # fmt: skip
            export_file(study, folder / name, form=form)
    files = {
        path.name: path.read_bytes()
        for path in folder.iterdir()
        if path.suffix in (".csv", ".json", ".parquet")
    }
    files["study.toml"] = (folder / "study" / "study.toml").read_bytes()
    files["catalog.arrow"] = (folder / "study" / "catalog.arrow").read_bytes()
    return files


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("study")
    with Study.create(folder / "study", make_catalog(folder), preset="features") as made:
        yield made
        assert made.store.check() == []


def only_ours(function: Any, *arguments: Any, **named: Any) -> None:
    with contextlib.suppress(SteelyardError):
        function(*arguments, **named)


# ---------------------------------------------------------------------- imports


@pytest.mark.parametrize("name", ["a.csv", "a.json", "a.parquet", "ls.json", "c.json"])
@quick
@given(st.data())
def test_mutated_exports(
    study: Study, exported: dict[str, bytes], tmp_path: Path, name: str, data: Any
) -> None:
    file = tmp_path / name
    file.write_bytes(data.draw(mutated(exported[name])))
    only_ours(import_file, study, file)


@pytest.mark.parametrize("ending", [".csv", ".json", ".parquet"])
@quick
@given(st.binary(max_size=300))
def test_random_bytes_as_answers(study: Study, tmp_path: Path, ending: str, content: bytes) -> None:
    (tmp_path / f"a{ending}").write_bytes(content)
    only_ours(import_file, study, tmp_path / f"a{ending}")


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=10) | st.sampled_from(["i1.png", "left"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
        st.sampled_from(
            ["id", "left", "right", "answer", "annotator", "round", "reserved", "note", "comparisons", "items", "data",
             "meta", "annotations", "result", "value", "type", "selected", "completed_by", "answered_at", "source"]
        ), inner, max_size=5,
    ),
    max_leaves=20,
)  # fmt: skip


@quick
@given(json_values)
def test_random_json_as_answers(study: Study, tmp_path: Path, value: Any) -> None:
    import json

    (tmp_path / "a.json").write_text(json.dumps(value))
    only_ours(import_file, study, tmp_path / "a.json")


cells = (
    st.none()
    | st.text(max_size=8)
    | st.sampled_from(["i1.png", "i2.png", "left", "right", "1", "TRUE", "2026-01-01"])
)


@quick
@given(
    st.lists(st.tuples(cells, cells, cells, cells), max_size=4),
    st.sampled_from(["round", "reserved", "shown_at", "answered_at", "id", "annotator", "source", "note"]),
    st.booleans(),
)
def test_random_tables_as_answers(
    study: Study, tmp_path: Path, rows: list[tuple[Any, ...]], column: str, parquet: bool
) -> None:
    table = pd.DataFrame(rows, columns=["left", "right", "answer", column])
    if parquet:
        table.astype("string").to_parquet(tmp_path / "a.parquet")
    else:
        (tmp_path / "a.csv").write_text(table.to_csv(index=False), encoding="utf-8", newline="")
    only_ours(import_file, study, tmp_path / ("a.parquet" if parquet else "a.csv"))


# ---------------------------------------------------------------------- configuration


@quick
@given(st.data())
def test_mutated_configuration(exported: dict[str, bytes], tmp_path: Path, data: Any) -> None:
    (tmp_path / "study.toml").write_bytes(data.draw(mutated(exported["study.toml"])))
    only_ours(StudyConfig.load, tmp_path / "study.toml")


toml_values = st.recursive(
    st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats()
    | st.text(max_size=8)
    | st.dates()
    | st.datetimes(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)


@quick
@given(
    st.dictionaries(
        st.sampled_from(["version", "name", "seed", "store", "trainer", "refit_after", "images", "ranker", "ask", "page", "users", "odd"]),
        toml_values | st.dictionaries(
            st.sampled_from(["kind", "head", "posterior", "trained_stages", "masks", "backbone", "dropout", "epochs", "strategy", "start", "keys", "raters", "grades", "root", "layout", "budget"]),
            toml_values, max_size=4,
        ), max_size=5,
    )
)  # fmt: skip
def test_random_configuration(tmp_path: Path, values: dict[str, Any]) -> None:
    import tomli_w

    (tmp_path / "study.toml").write_bytes(tomli_w.dumps(values).encode())
    only_ours(StudyConfig.load, tmp_path / "study.toml")


# ---------------------------------------------------------------------- labels, catalogs, images


@quick
@given(st.data())
def test_mutated_labels(exported: dict[str, bytes], tmp_path: Path, data: Any) -> None:
    make_catalog(tmp_path)
    (tmp_path / "labels.csv").write_bytes(
        data.draw(mutated(exported["labels.csv"]) | st.binary(max_size=200))
    )
    only_ours(sy.Catalog.from_features, tmp_path / "x.npy", tmp_path / "labels.csv")


@quick
@given(st.data())
def test_mutated_feature_matrices(tmp_path: Path, data: Any) -> None:
    make_catalog(tmp_path)
    original = (tmp_path / "x.npy").read_bytes()
    (tmp_path / "x.npy").write_bytes(data.draw(mutated(original) | st.binary(max_size=200)))
    only_ours(sy.Catalog.from_features, tmp_path / "x.npy", tmp_path / "labels.csv")


numbers = itertools.count()


def read_all(path: Path) -> None:
    catalog = sy.Catalog.open(path)
    assert len(catalog.ids) == len(catalog.paths) == len(catalog)
    for row in range(len(catalog)):
        str(catalog.ids[row]), str(catalog.paths[row])
    catalog.fingerprint()


@quick
@given(st.data())
def test_mutated_catalogs(exported: dict[str, bytes], tmp_path: Path, data: Any) -> None:
    path = tmp_path / f"{next(numbers)}.arrow"  # one that is mapped may not be overwritten
    path.write_bytes(data.draw(mutated(exported["catalog.arrow"])))
    only_ours(read_all, path)


@pytest.mark.parametrize("form", ["PNG", "JPEG", "GIF", "BMP", "TIFF", "WEBP"])
@quick
@given(st.data())
def test_mutated_images(tmp_path: Path, form: str, data: Any) -> None:
    rgb = np.random.default_rng(0).integers(0, 255, (12, 12, 3), dtype=np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(rgb).save(buffer, form)
    path = tmp_path / f"a.{form.lower()}"
    path.write_bytes(data.draw(mutated(buffer.getvalue())))
    only_ours(decode, path)


def test_a_matrix_whose_header_is_no_python(tmp_path: Path) -> None:
    """NumPy reads the header as Python and lets the tokenizer's errors through."""
    make_catalog(tmp_path)
    content = (tmp_path / "x.npy").read_bytes()
    (tmp_path / "x.npy").write_bytes(content.replace(b"{", b"\x00", 1))
    with pytest.raises(CatalogError):
        sy.Catalog.from_features(tmp_path / "x.npy", tmp_path / "labels.csv")


def test_a_study_with_damaged_files_says_so(tmp_path: Path, exported: dict[str, bytes]) -> None:
    folder = tmp_path / "study"
    with Study.create(folder, make_catalog(tmp_path), preset="features"):
        pass
    for name in ("study.toml", "catalog.arrow", "study.db"):
        copy = tmp_path / f"copy-{name}"
        shutil.copytree(folder, copy)
        (copy / name).write_bytes((copy / name).read_bytes()[:50])
        for rest in copy.glob("study.db-*"):
            rest.unlink()
        with pytest.raises(SteelyardError):
            Study.open(copy)
