"""Whatever somebody types, the answer is one line that helps, and exit code 2: no traceback, ever."""

from __future__ import annotations

import errno
import logging
import os
import shlex
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from steelyard import cli
from steelyard.errors import command, why_not
from steelyard.images.catalog import Catalog
from steelyard.study import Study
from steelyard.study.following import ConfigFollower


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a study, images, an empty folder, one of texts, one image, a file, and files that are no good."""
    folder = tmp_path_factory.mktemp("desk")
    rng = np.random.default_rng(0)
    for name in ("images", "empty", "texts", "one", "nested/inner"):
        (folder / name).mkdir(parents=True)
    for k in range(6):
        Image.fromarray(rng.integers(0, 255, (32, 32, 3), np.uint8)).save(folder / "images" / f"i{k}.png")
    (folder / "one" / "a.png").write_bytes((folder / "images" / "i0.png").read_bytes())
    (folder / "nested" / "a.png").write_bytes((folder / "images" / "i0.png").read_bytes())
    for name in ("a.txt", "b.txt", "c.csv"):
        (folder / "texts" / name).write_text("text")
    (folder / "file").write_text("no folder")
    (folder / "noise.json").write_bytes(b"\xff\x00\xfe")
    np.save(folder / "x.npy", rng.normal(size=(30, 4)))
    rows = [f"i{k},{k % 3}" for k in range(30)]
    (folder / "labels.csv").write_text("\n".join(["image,grade", *rows]))
    catalog = Catalog.from_features(folder / "x.npy", folder / "labels.csv")
    with Study.create(folder / "my study", catalog, preset="features") as study:
        for pair in study.ask(20):
            study.tell(pair, "left", annotator="kt")
        study.fit()
    return folder


def run(
    desk: Path, line: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> tuple[int, str]:
    """The exit code and what was said on standard error."""
    monkeypatch.chdir(desk)
    monkeypatch.setattr(sys, "argv", ["steelyard", *shlex.split(line)])
    before = os.umask(0)
    os.umask(before)
    try:
        with pytest.raises(SystemExit) as left:
            cli.main()
    finally:
        os.umask(before)
    said = capfd.readouterr()
    assert "Traceback" not in said.out + said.err
    code = left.value.code
    return code if isinstance(code, int) else 0, said.err


MISTAKES = [
    ("init new --images nowhere", "there is no folder"),
    ("init new --images file", "it is a file"),
    ("init new --images empty", "it is empty"),
    ("init new --images one", "it needs 2 or more"),
    ("init new --images texts", "but other files (2 .txt, 1 .csv); images are JPEG"),
    ("init file --images images", "cannot make a study in file: file is a file, not a folder"),
    ("init file/below --images images", "is a file, not a folder; choose another path"),
    ("init /dev/null/x --images images", "is a file, not a folder"),
    ("init 'my study' --images images", "is a study already"),
    ("init new --images images --layout grades", "every grade is a subfolder with its images, as in images/mild/1.png"),
    ("init new --images images --layout grades", "6 images lie directly in it (the first: i0.png)"),
    ("init new --images nested --layout grades", "no images are in its subfolders (inner)"),
    ("init new --images images --layout limuc", "does not look like LIMUC"),
    ("init new --images images --layout medmnist", "Is a directory"),
    ("init new --images images --labels images", "cannot read the labels"),
    ("init new --images images --labels nowhere.csv", "there is no labels file"),
    ("init new --features noise.json", "is not a NumPy file"),
    ("init new --images images --seed -1", "'seed' is 0 or more, not -1"),
    ("init new --images images --store nonsense", "the store's URL cannot be read"),
    ("init new --images images --store sqlite:////nowhere/x.db", "the folder of the database does not exist"),
    ("serve nowhere", "make one with: steelyard init nowhere --images DIR"),
    ("serve file", "is not a study"),
    ("serve 'no study'", "make one with: steelyard init 'no study' --images DIR"),
    ("serve 'my study' --port 99999", "--port is between 1 and 65535, or 0 for a free one; not 99999"),
    ("serve 'my study' --port -1", "not -1"),
    ("serve 'my study' --host 192.0.2.77 --port 0", "is no address of this machine"),
    ("serve 'my study' --tls-cert nowhere", "the certificate nowhere cannot be used"),
    ("worker file --once", "is not a study"),
    ("next 'my study' --strategy nope", "unknown strategy 'nope'"),
    ("simulate 'my study' --annotator nope", "unknown annotator 'nope'"),
    ("simulate 'my study' --annotator noisy:scale=x", "'scale' is above 0, not 'x'"),
    ("simulate 'my study' --annotator noisy:lapse=x", "'lapse' is a share between 0 and 1, not 'x'"),
    ("train empty", "is not a study"),
    ("score 'my study' nowhere", "there is no folder nowhere"),
    ("score 'my study' texts", "but other files"),
    ("score 'my study' -o missing/x.csv", "missing does not exist; create it first"),
    ("score 'my study' -o file/x.csv", "file is a file, not a folder"),
    ("score 'my study' -o images", "ends in .csv or .parquet"),
    ("score 'my study' --engine local", "an engine scores new images into a folder; name both"),
    ("score 'my study' x.npy --engine slurm -o new", "--engine is local or ray, not 'slurm'"),
    ("score 'my study' x.npy --engine local -o file", "file is a file; with --engine scores go into a folder"),
    ("score 'my study' images --engine local -o new", "takes feature rows, and images is not a matrix"),
    ("score 'my study' images --jobs 2", "are for an engine; add --engine local"),
    ("score 'my study' list.csv", "list.csv is no folder; lists and matrices are scored in parts"),
    ("score 'my study' https://me:secret@x.org/images", "was given with a name or password in it"),
    ("features 'my study' --engine slurm", "--engine is local or ray, not 'slurm'"),
    ("import 'my study' nowhere", "nowhere cannot be read"),
    ("import 'my study' noise.json", "not a valid JSON file"),
    ("export 'my study' -o missing/a.csv", "missing does not exist; create it first"),
    ("export 'my study' -o a.xyz", "is not a format"),
    ("status nowhere", "is not a study"),
    ("backup 'my study' -o missing/b.zip", "create it first"),
    ("restore noise.json r", "is not a backup"),
    ("restore images r", "is not a backup"),
    ("relocate 'my study' nowhere", "there is no folder nowhere; name the folder that holds the images now: steelyard relocate 'my study' DIR"),
    ("relocate 'my study' file", "file is a file, not a folder; name the folder"),
    ("relocate 'my study' empty", "empty holds not one of the 30 images (i0 for example is not there), so nothing was changed"),
    ("check 'my study' --expect nonsense", "no head of a log"),
    ("log 'my study' -o images", "could not be written"),
    ("verify noise.json", "is no text in UTF-8"),
    ("sign 'my study' --by a --meaning b --key images", "the key cannot be read"),
    ("report 'my study' -o images", "images is a folder; name a file in it"),
    ("report 'my study' -o file/r.html", "file is a file, not a folder"),
    ("report file -o r.html", "is neither an experiment"),
    ("experiment --out e --images images", "every grade is a subfolder"),
    ("experiment --out file/x --features x.npy --labels labels.csv --methods all --folds 3 --seeds 1", "is a file, not a folder"),
    ("demo --folder file --no-serve", "file is a file, not a folder"),
    ("demo --folder file/x --no-serve", "file is a file, not a folder"),
]  # fmt: skip


@pytest.mark.parametrize(("line", "said"), MISTAKES, ids=[line for line, _ in MISTAKES])
def test_a_mistake_is_one_line_that_helps(
    desk: Path, line: str, said: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    code, told = run(desk, line, monkeypatch, capfd)
    assert code == 2
    assert said in " ".join(told.split())
    assert not (desk / "new").exists(), "nothing is left behind"
    assert told.rstrip().splitlines()[-1].startswith("error: ")


@pytest.mark.parametrize("number", [errno.EROFS, errno.EACCES])
def test_a_folder_that_may_not_be_written(
    desk: Path, number: int, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Found out before a single image is read where the system says so, and in one line where it does not."""

    def refuse(self: Path, *_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number), str(self))

    monkeypatch.setattr(Path, "mkdir", refuse)
    code, told = run(desk, "init new --images images", monkeypatch, capfd)
    assert code == 2
    assert (
        f"cannot make a study in new: new may not be read or written by you ({os.strerror(number)})" in told
    )
    monkeypatch.undo()
    monkeypatch.setattr(os, "access", lambda _, mode: not mode & os.W_OK)
    monkeypatch.setattr(
        "steelyard.images.reading.read_catalog", lambda *_, **__: pytest.fail("images were read")
    )
    code, told = run(desk, "init new --images images", monkeypatch, capfd)
    assert code == 2
    assert "may not be written by you; choose another folder" in told


def test_hints_quote_paths_with_spaces(
    desk: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    assert command("train", "a b", "--json") == "steelyard train 'a b' --json"
    monkeypatch.chdir(desk)
    with Study.open(Path("my study")) as study:
        study.config = study.config.with_changes(ask={"budget": 500})
        assert "steelyard serve 'my study'" in study.status()["next"]
    # Whatever hint names a folder goes through `command`, which quotes it.
    package = Path(cli.__file__).parents[1]
    commands = "|".join(
        info.name or info.callback.__name__ for info in cli.app.registered_commands if info.callback
    )
    import re

    bare = re.compile(rf'f"[^"\n]*steelyard (?:{commands})\b[^"\n]*\{{')
    found = [
        f"{path.relative_to(package)}: {line.strip()}"
        for path in package.rglob("*.py")
        for line in path.read_text(encoding="utf-8").splitlines()
        if bare.search(line) and "steelyard log 1" not in line
    ]
    assert found == []


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (FileNotFoundError(errno.ENOENT, "No such file", "/nowhere/at/all"), "/nowhere/at does not exist; create it first"),
        (PermissionError(errno.EACCES, "Permission denied", "/x"), "/x may not be read or written by you"),
        (OSError(errno.ENOSPC, "No space left on device", "/x/y"), "/x/y does not fit on the disk"),
        (OSError(errno.EIO, "Input/output error", "/x"), "/x: Input/output error"),
        (OSError("odd"), "odd"),
    ],
)  # fmt: skip
def test_what_the_system_refused_is_a_sentence(error: OSError, said: str) -> None:
    assert why_not(error).startswith(said)


def test_a_typing_mistake_in_the_settings_stops_nobody(
    desk: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Said once, gone on with what was there before, taken up when it is mended."""
    catalog = Catalog.from_features(desk / "x.npy", desk / "labels.csv")
    with Study.create(tmp_path / "s", catalog, preset="features", refit_after=7) as study:
        file, whole = study.folder / "study.toml", (study.folder / "study.toml").read_text(encoding="utf-8")
        follower = ConfigFollower()
        with caplog.at_level(logging.WARNING):
            follower.follow(study)
            assert caplog.messages == []
            file.write_text(whole.replace("refit_after = 7", "refit_after = 7x"), encoding="utf-8")
            for _ in range(3):
                follower.follow(study)
            assert study.config.refit_after == 7
            [once] = caplog.messages
            assert "is not valid TOML" in once
            assert "going on with the settings as they were" in once
            file.write_text(whole.replace("refit_after = 7", "refit_afer = 9"), encoding="utf-8")
            follower.follow(study)
            assert "did you mean 'refit_after'" in caplog.messages[1], "another mistake is another line"
            file.write_text(whole.replace("refit_after = 7", "refit_after = 9"), encoding="utf-8")
            follower.follow(study)
            follower.follow(study)
            assert study.config.refit_after == 9
            assert [text.partition("study.toml ")[2] for text in caplog.messages[2:]] == [
                "can be read again; its settings count from now on"
            ]


def test_ctrl_c_is_one_line(
    desk: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Study, "open", interrupted)
    code, told = run(desk, "status 'my study'", monkeypatch, capfd)
    assert code == 130
    assert told == "stopped; what was answered or finished is saved\n"
