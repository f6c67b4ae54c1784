"""Make the files that version 0.1 wrote: `study-0.1/`, `network-0.1/`, `run-0.1/`, `configs-0.1/`.

Must be run with 0.1 (commit 2c0ae2b), never with a newer one: the files stand for what people have on their disks.

    python tests/files/make_study_0_1.py

`study-0.1/` holds 24 pictures below its own folder, so that no path of any machine is in it. `expected-0.1.json` notes
what 0.1 itself said about it; tests/test_old_studies.py compares.
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import numpy as np
from PIL import Image
from steelyard.ranker.model import fit_ranker

import steelyard
from steelyard.experiment import ExperimentConfig, run_experiment
from steelyard.images.catalog import Catalog
from steelyard.pairs import Answer, Pair
from steelyard.store.records import NewGrade, new_id
from steelyard.study import Study, study_config

N, D = 24, 6
PASSWORD = "correct horse battery staple"  # of alma, in the study
HERE = Path(__file__).parent


def pictures(folder: Path, severity: np.ndarray) -> None:
    """Tiny squares, redder with severity."""
    folder.mkdir(parents=True)
    for row, value in enumerate(severity):
        pixels = np.full((16, 16, 3), (120 + int(100 * value), 90, 80), dtype=np.uint8)
        pixels[row % 16, :, 1] = 10 + row
        Image.fromarray(pixels).save(folder / f"image-{row:02d}.png", optimize=True)


def make_study(folder: Path) -> dict[str, object]:
    """The study, and what 0.1 said about it."""
    from argon2 import PasswordHasher

    from steelyard.web.auth import digest

    rng = np.random.default_rng(7)
    severity = rng.permutation(np.linspace(0, 1, N))
    pictures(folder / "images", severity)
    rows = np.column_stack([severity * 3, rng.normal(size=(N, D - 1))]).astype(np.float32)
    labels = folder / "labels.csv"
    labels.write_text(
        "image,grade,group\n"
        + "".join(f"image-{k:02d}.png,{int(3 * severity[k] // 1.01)},patient-{k % 5}\n" for k in range(N))
    )
    catalog = Catalog.from_features(rows, labels, root=folder / "images")
    labels.unlink()
    config = study_config("features", name="written by 0.1", seed=3, ask={"raters": 1, "budget": 3.0})
    study = Study.create(folder, catalog, config=config)
    store = study.store
    store.add_annotator("alma", role="admin", password_hash=PasswordHasher().hash(PASSWORD))
    store.add_annotator("lena", role="lead", link_hash=digest("personal link of lena"))
    store.add_annotator("kt", role="annotator")
    store.add_annotator("gone", role="annotator")
    store.set_annotator("gone", active=False)
    store.add_session(digest("session of alma"), "alma", "csrf of alma", expires=4e9)
    store.add_token(digest("token of alma"), "alma", "nightly export")
    store.set_setting("local csrf", "kept from one start to the next")
    store.audit("alma", "sign in", {"how": "password"})

    def answer(n: int, annotator: str) -> list[str]:
        given = []
        for number, pair in enumerate(study.ask(n, annotator=annotator)):
            left, right = severity[catalog.rows_of([pair.left, pair.right])]
            said = Answer.LEFT if left > right else Answer.RIGHT
            if number % 9 == 4:
                said = Answer.EQUAL
            if number % 9 == 7:
                said = Answer.CANNOT_JUDGE
            given.append(
                study.tell(pair, said, annotator=annotator, note="blurred" if number == 7 else "").id
            )
        return given

    first = answer(12, "kt")
    study.undo(first[3], annotator="kt")
    study.fit()
    second = answer(12, "lena")
    log = {c.id: c for c in store.comparisons()}
    changed = log[second[1]]
    pair = Pair(changed.left, changed.right, id=changed.pair)
    study.tell(pair, Answer.EQUAL, annotator="lena", supersedes=changed.id, note="looked again")
    ids = [str(i) for i in catalog.ids]
    for row in range(4):
        study.tell_grade(ids[row], row % 3, annotator="kt")
    taken_back = store.add_grade(NewGrade(ids[5], "lena", 2))
    store.undo_grade(taken_back.id, "lena", id=new_id())
    store.exclude_image(ids[9], "alma", "not a colon")
    study.fit()
    answer(5, "kt")
    study.ask(3, annotator="lena")  # handed out, not answered
    study.propose(4)
    store.audit("alma", "export", {"format": "csv"})
    table = study.score()
    expected: dict[str, object] = {
        "version": steelyard.__version__,
        "revision": store.revision,
        "images": ids,
        "comparisons": [
            [c.id, c.annotator, c.answer.value if c.answer else None, c.left, c.right, c.supersedes, c.note]
            for c in store.comparisons()
        ],
        "grades": [[g.id, g.image, g.annotator, g.grade, g.supersedes] for g in store.grades()],
        "annotators": {a.name: [a.role, a.active] for a in store.annotators()},
        "models": [[m.round, m.path, m.fingerprint] for m in store.models()],
        "audit": [[entry.actor, entry.action] for entry in store.audit_log()],
        "excluded": sorted(store.excluded_ids()),
        "open pairs": store.open_pair_count(),
        "pairs": len(store.pair_array()),
        "answers": store.answer_count(),
        "graded": study.status()["graded"],
        "scores": dict(zip(table["image"], table["score"], strict=True)),
        "posterior": study.posterior.mean.tolist(),  # type: ignore[union-attr]
        "files": {
            str(path.relative_to(folder)): path.stat().st_size
            for path in sorted(folder.rglob("*"))
            if path.is_file() and "study.db" not in path.name
        },
    }
    assert store.check() == []
    study.close()
    assert not (folder / "study.db-wal").exists()
    return expected


def make_network(folder: Path) -> dict[str, object]:
    """A network with dropout on a few features, as it was saved."""
    rng = np.random.default_rng(5)
    rows = rng.normal(size=(30, 4)).astype(np.float32)
    pairs = rng.permuted(np.tile(np.arange(30), (40, 1)), axis=1)[:, :2]
    answers = (rows[pairs[:, 0], 0] > rows[pairs[:, 1], 0]).astype(np.float64)
    config = study_config(
        "features", ranker={"head": "mlp", "hidden": 8, "epochs": 20, "posterior": "closed_form"}
    )
    ranker = fit_ranker(rows, pairs, answers, config=config.ranker, seed=1)
    ranker.save(folder)
    posterior = ranker.posterior(rows)
    return {"inputs": rows.tolist(), "mean": posterior.mean.tolist(), "variance": posterior.variance.tolist()}


def make_run(folder: Path, scratch: Path) -> dict[str, object]:
    """An experiment of two methods on one fold."""
    rng = np.random.default_rng(0)
    severity = rng.normal(size=60)
    grades = np.searchsorted(np.quantile(severity, [0.5, 0.8]), severity)
    np.save(scratch / "features.npy", (severity[:, None] + rng.normal(size=(60, 4))).astype(np.float32))
    (scratch / "labels.csv").write_text(
        "image,grade,group\n" + "".join(f"i{k},{g},p{k % 12}\n" for k, g in enumerate(grades))
    )
    os.chdir(scratch)  # the paths in the run are then relative
    config = ExperimentConfig(
        features="features.npy", labels="labels.csv", methods=("random", "ubs"), seeds=1, rounds=1,
        only_folds=(0, 1), jobs=1, test_pairs=50,
    )  # fmt: skip
    run = run_experiment(config, folder, command="steelyard experiment")
    table = run.table("results")
    return {"overall": table["overall"].tolist(), "method": table["method"].tolist()}


def make_configs(folder: Path) -> None:
    """`study.toml` of each preset, and of a few studies with settings that 0.1 ignored."""
    folder.mkdir()
    page = {"grades": ("calm", "angry"), "keys": {"left": "a"}}
    odd = {
        "posterior": "draws",
        "components": 64,
        "kernel": "rbf",
        "dropout": 0.5,
        "augment": True,
        "epochs": 5,
    }
    mlp = {
        "head": "mlp",
        "posterior": "laplace",
        "hidden": 64,
        "components": 64,
        "draws": 10,
        "screening": 0.5,
    }
    made: dict[str, tuple[str, dict[str, object]]] = {
        **{preset: (preset, {}) for preset in ("quick", "features", "small", "tuned", "paper")},
        "convex-on-a-trained-backbone": (
            "small",
            {"ranker": {"head": "convex", "posterior": "closed_form", "draws": 12}},
        ),
        "mlp": ("quick", {"ranker": mlp, "trainer": 7}),
        "convex-with-everything": ("quick", {"ranker": odd, "page": page}),
    }
    for name, (preset, changes) in made.items():
        study_config(preset, name=name, **changes).save(folder / f"{name}.toml")


def main() -> None:
    """All of it."""
    import tempfile

    assert steelyard.__version__ == "0.1.0", "these files are what 0.1 wrote; check out 2c0ae2b"
    for name in ("study-0.1", "network-0.1", "run-0.1", "configs-0.1"):
        shutil.rmtree(HERE / name, ignore_errors=True)
    make_configs(HERE / "configs-0.1")
    with tempfile.TemporaryDirectory() as scratch:
        expected = {
            "study": make_study(HERE / "study-0.1"),
            "network": make_network(HERE / "network-0.1"),
            "run": make_run(HERE / "run-0.1", Path(scratch)),
        }
    (HERE / "expected-0.1.json").write_text(json.dumps(expected, indent=1))


if __name__ == "__main__":
    main()
