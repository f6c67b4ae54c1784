"""The whole loop, run by test_offline.py with the network taken away.

    python offline.py FOLDER

Everything a user does, from images to a report, a page and an experiment on Ray, in one process and its children.
"""

from __future__ import annotations

import fcntl
import json
import socket
import struct
import sys
from pathlib import Path

from typer.testing import CliRunner

from steelyard.cli import app
from steelyard.images.synthetic import draw, write


def raise_loopback() -> None:
    """Bring up 127.0.0.1, which a new network namespace has but does not switch on."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        fcntl.ioctl(
            probe, 0x8914, struct.pack("16sH14s", b"lo", 0x1 | 0x40, b"")
        )  # SIOCSIFFLAGS: up, running


def run(*arguments: object) -> str:
    result = CliRunner().invoke(app, [str(a) for a in arguments])
    if result.exit_code != 0:
        raise SystemExit(f"{arguments}: {result.output}\n{result.exception!r}")
    return result.output


def loop(folder: Path) -> None:
    """Images → study → answers → model → scores, report and files."""
    write(folder / "images", draw(14, size=64, seed=1, workers=1))
    study, labels = folder / "study", folder / "images" / "labels.csv"
    run("init", study, "--images", folder / "images", "--labels", labels)
    run("next", study, "-n", 10, "--strategy", "spread")
    run("simulate", study)
    run("train", study)
    run("score", study, "-o", folder / "scores.csv")
    run("score", study, folder / "images")
    run("report", study, "-o", folder / "report.html")
    run("export", study, "-o", folder / "answers.csv")
    run("import", study, folder / "answers.csv")
    run("status", study)
    run("doctor")
    # Weights that are not here are not fetched: the paper's network says where to put them.
    run("init", folder / "paper", "--images", folder / "images", "--labels", labels, "--preset", "paper")
    run("next", folder / "paper", "-n", 4, "--strategy", "random")
    run("simulate", folder / "paper")
    refused = CliRunner().invoke(app, ["train", str(folder / "paper")])
    assert refused.exit_code != 0
    assert "--download" in str(refused.exception), refused.exception


def page(folder: Path) -> None:
    """A page and a request to the API, by a browser's hands."""
    from fastapi.testclient import TestClient

    from steelyard.study import Study
    from steelyard.web.app import create_app

    with Study.open(folder / "study") as study, TestClient(create_app(study)) as client:
        assert client.get("/").status_code < 500
        assert client.get("/api/v1/openapi.json").status_code < 500


def experiment(folder: Path) -> None:
    """A tiny one, on this machine and on Ray."""
    import numpy as np

    rng = np.random.default_rng(0)
    severity = rng.normal(size=60)
    np.save(folder / "x.npy", severity[:, None] + rng.normal(0, 1, (60, 5)))
    rows = [f"i{k},{int(value > 0)}" for k, value in enumerate(severity)]
    (folder / "labels.csv").write_text("\n".join(["image,grade", *rows]))
    given = ["--features", folder / "x.npy", "--labels", folder / "labels.csv", "--preset", "quick"]
    short = ["--methods", "all,ubs", "--only-folds", "0", "--seeds", 1, "--test-pairs", 20]
    for engine in ("local", "ray"):
        run("experiment", *given, *short, "--engine", engine, "--jobs", 2, "--out", folder / engine)


def main() -> None:
    """All of it."""
    folder = Path(sys.argv[1])
    raise_loopback() if "alone" in sys.argv else None
    loop(folder)
    page(folder)
    experiment(folder)
    print(json.dumps("done"))


if __name__ == "__main__":
    main()
