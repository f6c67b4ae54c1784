"""Images have a name of the study's own outside the server, and pictures carry nothing of their files."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image, PngImagePlugin

from steelyard.images.catalog import Catalog
from steelyard.study import Study
from steelyard.web.ids import ImageIds
from tests.web.actors import Enter, N, Serve, Server
from tests.web.blinded import SIZES, new, routes


def test_a_name_is_the_studys_own(clinic: Server, named: Study, tmp_path: Path) -> None:
    """Whoever holds the source folder cannot compute it; two servers agree; two studies do not."""
    ids, again = ImageIds(named), ImageIds(named)
    catalog = named.catalog
    assert [ids.at(row) for row in range(N)] == [again.at(row) for row in range(N)]
    assert [ids.row(ids.at(row)) for row in range(N)] == list(range(N))
    for wrong in (catalog.ids[0], "0" * 32, "", "zz" * 16, ids.at(0)[:-2], ids.at(0).upper()):
        assert ids.row(wrong) is None
    with Study.create(tmp_path / "twin", catalog, preset="features") as twin:
        assert not {ImageIds(twin).at(row) for row in range(N)} & {ids.at(row) for row in range(N)}
    secret = named.store.settings.get("image key")
    assert len(bytes.fromhex(secret)) == 32
    assert secret not in json.dumps([entry.detail for entry in named.store.audit.log()])


def test_names_survive_a_catalog_that_is_overwritten_while_it_is_served(named: Study) -> None:
    """It is mapped: whoever overwrites the file in place changes what is read; answers must still find their images."""
    with Study.open(named.folder) as served:
        ids, known = ImageIds(served), named.catalog.ids.tolist()
        names = [ids.public(id) for id in known]
        file = named.folder / "catalog.arrow"
        whole = file.read_bytes()
        with file.open("r+b") as place:
            place.write(bytes(len(whole)))
        assert served.catalog.ids[0] != known[0], "the attack works"
        assert [ids.content(row) for row in map(ids.row, names) if row is not None] == known


def test_the_secret_is_nowhere_to_be_read(clinic: Server, enter: Enter) -> None:
    secret = clinic.study.store.settings.get("image key")
    ada = enter(clinic, "ada")
    paths = [path for method, path in routes(clinic.app) if method == "GET" and "{" not in path]
    for path in [*paths, *(f"/api/v1/export?format={kind}" for kind in ("csv", "json", "labelstudio"))]:
        assert secret not in ada.get(path).text, path


@pytest.fixture
def earlier(tmp_path: Path) -> Iterator[Study]:
    """A study that 0.1 wrote; its store is migrated when it is opened."""
    import shutil

    files = Path(__file__).parents[1] / "files"
    shutil.copytree(files / "study-0.1", tmp_path / "earlier")
    with Study.open(tmp_path / "earlier") as study:
        yield study


def test_answers_that_wait_since_0_1_are_taken_for_two_weeks(
    earlier: Study,
    serve: Serve,
    enter: Enter,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server = serve(earlier, {"kt9": "annotator"})
    kt = enter(server, "kt9")

    def old(pair: dict[str, Any]) -> dict[str, Any]:
        return {**pair, "left": server.content(pair["left"]), "right": server.content(pair["right"])}

    first, second = map(old, kt.lease(2))
    assert kt.answer(first, "cannot judge", exclude=[first["left"]]).status_code == 201
    assert {image.id for image in earlier.store.images.all() if image.excluded} >= {first["left"]}
    name, body = new(), {"image": earlier.catalog.ids[0], "grade": 0}
    assert kt.post("/api/v1/grades", json={"id": name, **body}).status_code == 201
    assert kt.get(f"/api/v1/grades/{name}/neighbours").status_code == 403, "nothing that gives data"
    for path in (f"/images/{second['left']}/pixels", f"/images/{second['left']}"):
        assert kt.get(f"/api/v1{path}").status_code in (403, 404), "no picture by its content"
    server.app.state.web.ids._until = 1.0  # two weeks later
    assert kt.answer(second).status_code == 404
    assert kt.post("/api/v1/grades", json={"id": new(), **body}).status_code == 404


def test_a_new_study_never_takes_content_ids(clinic: Server, enter: Enter) -> None:
    kt, lea = enter(clinic, "kt"), enter(clinic, "lea")
    [pair] = kt.lease()
    content = {side: clinic.content(pair[side]) for side in ("left", "right")}
    assert kt.answer({**pair, **content}).status_code == 404
    for client in (kt, lea):
        assert client.get(f"/api/v1/images/{content['left']}/pixels").status_code == 404
        grade = {"id": new(), "image": content["left"], "grade": 0}
        assert client.post("/api/v1/grades", json=grade).status_code == 404
    assert kt.answer(pair).status_code == 201


def test_pictures_carry_nothing_of_their_files(
    tmp_path: Path, drawn: Any, serve: Serve, enter: Enter
) -> None:
    """EXIF, comments, colour profiles and bytes after the end stay behind, in every size."""
    source = tmp_path / "pictures"
    source.mkdir()
    secret = b"HANS MUELLER 1961"
    for k in range(6):
        image = Image.fromarray(drawn.images[k])
        out = io.BytesIO()
        if k % 2:
            exif = Image.Exif()
            exif[0x010E] = exif[0x013B] = secret.decode()
            image.save(out, "JPEG", quality=95, exif=exif, comment=secret, icc_profile=b"ICC " + secret)
        else:
            text = PngImagePlugin.PngInfo()
            text.add_text("Patient", secret.decode())
            text.add_itxt("Name", secret.decode())
            image.save(out, "PNG", pnginfo=text, icc_profile=b"ICC " + secret)
        out.write(secret)
        (source / f"{k}.{'jpg' if k % 2 else 'png'}").write_bytes(out.getvalue())
        assert out.getvalue().count(secret) >= 3
    with Study.create(tmp_path / "study", Catalog.from_folder(source), ask={"start": "random"}) as study:
        client = enter(serve(study))
        for row in range(6):
            for size in SIZES:
                reply = client.get(
                    f"/api/v1/images/{client.server.public(row)}/pixels", params={"size": size}
                )
                assert reply.status_code == 200
                assert secret not in reply.content
                shown = Image.open(io.BytesIO(reply.content))
                assert not shown.getexif()
                assert not {"comment", "icc_profile", "exif", "Patient", "Name"} & set(shown.info)


def test_an_annotator_sees_what_was_handed_out_and_no_more(
    clinic: Server, enter: Enter, named: Study
) -> None:
    kt = enter(clinic, "kt")
    pairs = kt.lease(3)
    images = kt.get("/api/v1/grading/next").json()["images"]
    mine = {pair[side] for pair in pairs for side in ("left", "right")}
    mine |= {image["id"] for image in images}
    mine |= {id for image in images for ids in image["examples"] for id in ids}
    mine |= {clinic.public(row) for row in clinic.app.state.web.examples.rows()}

    def seen() -> set[str]:
        everything = (clinic.public(row) for row in range(N))
        return {
            id for id in everything if kt.get(f"/api/v1/images/{id}/pixels?size=thumb").status_code == 200
        }

    assert seen() == mine
    clinic.app.state.web.sight._seen.clear()  # another server, or this one after a restart
    assert seen() == mine


@pytest.mark.browser
def test_a_browser_that_worked_with_0_1_goes_on(
    earlier: Study, serve: Serve, window: Callable[..., Any]
) -> None:
    """An answer that waits there arrives; what it kept for undoing has names of pictures that are gone, and is dropped."""
    user = window(serve(earlier))
    page = user.compare()
    left, right = map(user.server.content, user.pair())
    who = page.evaluate("() => JSON.parse(document.getElementById('page-data').textContent)")
    name, scope = new(), f"{who['study']}.{who['annotator']}"
    leased = next(
        pair for pair in earlier.store.pairs.lease(who["annotator"], 6, seconds=900, rng=np.random.default_rng())
        if (pair.left, pair.right) == (left, right)
    )  # fmt: skip
    body = {"id": name, "pair": leased.pair, "left": left, "right": right, "answer": "left"}
    old = [{"id": new(), "answer": "left", "record": {"id": 1, "left": left, "right": right}}]
    page.evaluate(
        "([scope, event, old]) => { localStorage.setItem(`steelyard.queue.${scope}.000000000000001.000000`, JSON.stringify(event));"
        " localStorage.setItem(`steelyard.undo.${scope}`, JSON.stringify(old)) }",
        [scope, {"kind": "comparison", "body": body}, old],
    )
    user.compare()
    user.saved()
    assert [c.left for c in earlier.store.answers.log() if c.id == name] == [left]
    page.keyboard.press("z")
    page.wait_for_function("() => document.querySelector('#live').textContent.startsWith('Nothing to undo')")
    assert page.evaluate(f"() => localStorage.getItem('steelyard.undo.{scope}')") is None
