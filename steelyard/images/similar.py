"""Near-duplicates: frames of one film, the same photograph saved twice.

Two numbers of an image find them. A 255-bit perceptual hash (signs of its low frequencies) is only used to
propose pairs without comparing everything with everything; a thumbnail confirms them. Thumbnails are compared after the
average image of the set is taken off, because every fundus is a bright disc and every endoscope has the same dark corners:
what two near-duplicates share is what sets them apart from the rest.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from steelyard.errors import CatalogError
from steelyard.progress import Progress

__all__ = ["Fingerprints", "fingerprint", "fingerprints", "near_duplicates"]

THUMBNAIL = 32  # side in pixels
FREQUENCIES = 16  # 16 × 16 low frequencies, less the constant one: 255 bits
TABLES = 64  # hash tables; more find more distant duplicates and cost proportionally
WINDOW = 32  # neighbours looked at inside a bucket that holds very many images


@dataclass(frozen=True)
class Fingerprints:
    """What is kept of N images to tell near-duplicates.

    Attributes:
        bits: perceptual hashes, shape (N, 255), boolean.
        thumbnails: grey 32 × 32 thumbnails, shape (N, 1024), uint8.
    """

    bits: NDArray[np.bool_]
    thumbnails: NDArray[np.uint8]

    def __len__(self) -> int:
        return len(self.bits)


def fingerprint(image: NDArray[np.uint8]) -> tuple[NDArray[np.bool_], NDArray[np.uint8]]:
    """The perceptual hash and the thumbnail of one image.

    Args:
        image: RGB, shape (H, W, 3), uint8.

    Returns:
        Hash of shape (255,) and thumbnail of shape (1024,).

    Raises:
        CatalogError: the array is no RGB image.
    """
    from PIL import Image
    from scipy.fft import dctn

    if image.ndim != 3 or image.shape[2] != 3 or image.dtype != np.uint8:
        raise CatalogError(f"an image is uint8 of shape (H, W, 3), not {image.dtype} of shape {image.shape}")
    small = Image.fromarray(image).convert("L").resize((THUMBNAIL, THUMBNAIL), Image.Resampling.BOX)
    grey = np.asarray(small, dtype=np.uint8)
    low = dctn(grey.astype(np.float64), norm="ortho")[:FREQUENCIES, :FREQUENCIES].reshape(-1)[1:]
    return low > np.median(low), grey.reshape(-1)


def fingerprints(
    read: Callable[[int], NDArray[np.uint8]],
    n: int,
    *,
    progress: Progress | None = None,
) -> Fingerprints:
    """Fingerprints of images 0 … n−1.

    Args:
        read: gives image i as RGB, for example `catalog.read`.
        n: number of images.
        progress: called as progress(done, total, text).
    """
    bits = np.zeros((n, FREQUENCIES**2 - 1), dtype=bool)
    thumbnails = np.zeros((n, THUMBNAIL**2), dtype=np.uint8)
    for i in range(n):
        bits[i], thumbnails[i] = fingerprint(read(i))
        if progress is not None and (i % 50 == 49 or i == n - 1):
            progress(i + 1, n, "perceptual hashes")
    return Fingerprints(bits, thumbnails)


def near_duplicates(
    prints: Fingerprints, *, distance: int = 50, correlation: float = 0.92, seed: int = 0
) -> NDArray[np.int64]:
    """Label images so that near-duplicates, and chains of them, share a label.

    Candidates come from hash tables over random subsets of bits, their number of bits growing with log N, so that the cost
    grows like N log N. Of a million images a pair at the very edge of `distance` may be missed; exact and re-saved
    copies (a few bits) are not. Two images are near-duplicates when their hashes differ in at most `distance` of 255 bits
    and their thumbnails, less the average thumbnail, correlate at least `correlation`.

    Args:
        prints: of N images.
        distance: largest number of differing bits.
        correlation: smallest correlation of thumbnails.
        seed: which bits the tables look at.

    Returns:
        Cluster label of each image, shape (N,): 0 … C−1 in order of first appearance.
    """
    n = len(prints)
    if n < 2:
        return np.zeros(n, dtype=np.int64)
    thumbnails = _distinctive(prints.thumbnails)
    links: list[NDArray[np.int64]] = []
    for pairs in _candidates(prints.bits, np.random.default_rng(seed)):
        i, j = pairs.T
        differing = (prints.bits[i] != prints.bits[j]).sum(axis=1)
        near = pairs[differing <= distance]
        alike = np.einsum("nd,nd->n", thumbnails[near[:, 0]], thumbnails[near[:, 1]])
        links.append(near[alike >= correlation])
    return _clusters(np.concatenate(links), n)


def _candidates(bits: NDArray[np.bool_], rng: np.random.Generator) -> list[NDArray[np.int64]]:
    """Pairs (i, j) that agree on all looked-at bits of some table, one array per table."""
    n, width = bits.shape
    looked = min(max(10, int(np.ceil(np.log2(n))) + 2), 60)
    weights = 1 << np.arange(looked, dtype=np.int64)
    found = []
    for _ in range(TABLES):
        keys = bits[:, rng.choice(width, size=looked, replace=False)] @ weights
        order = np.argsort(keys, kind="stable")
        ordered = keys[order]
        pairs = []
        for step in range(1, min(WINDOW, n - 1) + 1):
            same = ordered[step:] == ordered[:-step]
            if not same.any():
                break
            pairs.append(np.stack([order[:-step][same], order[step:][same]], axis=1))
        found.append(np.concatenate(pairs).astype(np.int64) if pairs else np.empty((0, 2), dtype=np.int64))
    return found


def _distinctive(thumbnails: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Thumbnails with brightness, contrast and what all images share taken off, of unit length."""
    rows = thumbnails.astype(np.float32)
    rows = _unit(rows - rows.mean(axis=1, keepdims=True))
    # With a handful of images the average *is* the images; taking it off would make everything look opposite.
    return _unit(rows - rows.mean(axis=0)) if len(rows) >= 30 else rows


def _unit(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    length = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(np.divide(rows, length, out=np.zeros_like(rows), where=length > 1e-6), dtype=np.float32)


def _clusters(links: NDArray[np.int64], n: int) -> NDArray[np.int64]:
    from scipy.sparse import coo_matrix
    from scipy.sparse.csgraph import connected_components

    graph = coo_matrix((np.ones(len(links), dtype=bool), (links[:, 0], links[:, 1])), shape=(n, n))
    _, labels = connected_components(graph, directed=False)
    _, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
    rank = np.argsort(np.argsort(first))
    return np.asarray(rank[inverse], dtype=np.int64)
