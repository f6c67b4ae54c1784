"""The folder of originals: never over its limit, oldest first out, whole or nothing, also with killed and many processes."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from steelyard.images import originals as module
from steelyard.images.hashing import content_id
from steelyard.images.originals import Originals, read_original
from tests.waiting import until

FILL = """
import sys
from pathlib import Path
from steelyard.images.originals import Originals
kept = Originals(Path(sys.argv[1]), int(sys.argv[2]))
k = 0
while k < int(sys.argv[4]):
    kept.keep(f"x://{sys.argv[3]}/{k}", bytes([k % 256]) * 1000)
    k += 1
    if k == 5:
        print("going", flush=True)
"""


def files(kept: Originals) -> list[Path]:
    return [path for path in kept.folder.glob("??/*") if path.is_file()]


def size(kept: Originals) -> int:
    return sum(path.stat().st_size for path in files(kept))


def test_those_used_longest_ago_go_first(tmp_path: Path) -> None:
    kept = Originals(tmp_path / "kept", 1000)
    for k in range(10):
        kept.keep(f"x://{k}", b"a" * 100)
        os.utime(kept.path(f"x://{k}"), (k, k))
    assert size(kept) == 1000
    assert kept.get("x://0") == b"a" * 100  # used now, so 1, 2 and 3 go before it
    kept.keep("x://new", b"b" * 100)
    assert [k for k in range(10) if not kept.has(f"x://{k}")] == [1, 2, 3]
    assert size(kept) <= 1000
    assert kept.get("x://new") == b"b" * 100


def test_too_large_for_it_or_none_wanted(tmp_path: Path) -> None:
    kept, none = Originals(tmp_path / "kept", 1000), Originals(tmp_path / "none", 0)
    kept.keep("x://large", b"a" * 900)
    none.keep("x://any", b"a")
    assert (kept.get("x://large"), none.get("x://any")) == (None, None)
    assert not (tmp_path / "none").exists()


def test_others_cannot_read_what_is_kept(tmp_path: Path) -> None:
    kept = Originals(tmp_path / "kept", 1000)
    before = os.umask(0)
    try:
        kept.keep("x://patient.dcm", b"a")
    finally:
        os.umask(before)
    for path in [kept.folder, *kept.folder.rglob("*")]:
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path
        assert "patient" not in path.name


def test_a_torn_or_foreign_file_is_fetched_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept, fetched = Originals(tmp_path / "kept", 10_000), list[str]()
    monkeypatch.setattr(module, "read_url", lambda url: (fetched.append(url), b"whole")[1])
    id = content_id(b"whole")
    for torn in (b"", b"who", b"other"):
        assert read_original("x://a", kept, id=id) == b"whole"
        kept.path("x://a").write_bytes(torn)
    assert read_original("x://a", kept, id=id) == b"whole"
    assert read_original("x://a", kept, id=id) == b"whole"
    assert len(fetched) == 4


def test_a_lost_count_and_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    kept = Originals(tmp_path / "kept", 1000)
    for k in range(5):
        kept.keep(f"x://{k}", b"a" * 100)
    for count in ("", "nonsense", "999999"):
        (kept.folder / "total").write_text(count)
        kept.keep(f"x://more{count}", b"a" * 100)
        assert kept.has(f"x://more{count}")
    assert len(files(kept)) == 8  # nothing had to go
    (tmp_path / "file").write_text("in the way")
    Originals(tmp_path / "file" / "kept", 1000).keep("x://a", b"a")


def test_many_processes_and_one_killed_stay_within_the_limit(tmp_path: Path) -> None:
    kept = Originals(tmp_path / "kept", 20_000)
    start = [sys.executable, "-c", FILL, str(kept.folder), str(kept.limit)]
    killed = subprocess.Popen([*start, "killed", "100000"], stdout=subprocess.PIPE, text=True)
    others = [subprocess.Popen([*start, str(k), "150"], stdout=subprocess.DEVNULL) for k in range(2)]
    assert killed.stdout is not None
    assert killed.stdout.readline() == "going\n"
    assert size(kept) <= kept.limit
    killed.kill()
    killed.communicate()
    assert [process.wait(timeout=60) for process in others] == [0, 0]
    assert 0 < size(kept) <= kept.limit
    for path in files(kept):
        if not path.name.startswith("."):
            assert len(set(path.read_bytes())) == 1
            assert path.stat().st_size == 1000
    until(lambda: kept.keep("x://after", b"z" * 1000) or kept.has("x://after"), "the lock is free")
