"""Any file → the same kind of array: uint8 RGB, H×W×3, upright.

What happens to what:

- *grey, palette, one bit, YCbCr, CMYK, LAB*: converted. CMYK without a colour profile (ink values as in most JPEGs).
- *alpha*: composited on black. Endoscopes and fundus cameras surround their picture with black; white corners
  would be the brightest thing in the image and move every feature.
- *EXIF*: the picture is turned upright. Damaged EXIF data are ignored, the pixels count.
- *16 bit*: linear. What a TIFF declares as its largest value is white; without a declaration,
  values that all fit in 12 bits are taken for 12 bits, everything else for the full 16. Nothing is stretched from an
  image's own darkest to its brightest value: the same tissue has to look the same in two images.
- *32 bit and float*: 0…1, 0…255, or as 16 bit, whichever is the first to hold every value; anything else (negative,
  larger, not finite) has no known scale and is an error.
- *several pages or frames*: the first, except DICOM, where a frame can be named (`file.dcm#3`, counted from 1).

Everything that can go wrong with a file is an `ImageError` that names the file and the reason; Pillow's own errors
and warnings do not get out.
"""

from __future__ import annotations

import io
import os
import re
import threading
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from steelyard.errors import ImageError, MissingExtraError
from steelyard.images import dicom
from steelyard.images.formats import HEAD_BYTES, describe, sniff
from steelyard.progress import Progress

__all__ = ["RGB", "OnError", "Progress", "Reading", "decode", "read_many", "resize", "workers_for"]

RGB: TypeAlias = NDArray[np.uint8]
OnError: TypeAlias = Literal["skip", "fail"]

_ORIENTATION = 0x0112
_MAX_SAMPLE_VALUE = 281
_STRIP_PIXELS = 1 << 20
_FRAME = re.compile(r"(.+)#([1-9]\d*)")


def decode(
    source: str | Path | bytes,
    *,
    max_megapixels: float = 100.0,
    frame: int = 1,
    least: int = 0,
    name: str = "<bytes>",
) -> RGB:
    """Read one image.

    Args:
        source: path of the file (`scan.dcm#3` is the third frame of a DICOM file), or its bytes.
        max_megapixels: a larger picture is taken for a decompression bomb and not unpacked.
        frame: which frame of a DICOM file, counted from 1.
        least: a JPEG may be unpacked at a half, a quarter or an eighth of its size as long as no side gets shorter than
            this; 0 unpacks everything whole. All of the file is read either way, so that damage is found.
        name: what errors call bytes.

    Returns:
        uint8 RGB, shape (H, W, 3), contiguous and writable.

    Raises:
        ImageError: the file is missing, empty, truncated, not an image, too large or unreadable; says which.
        MissingExtraError: a DICOM file without the `dicom` extra.
    """
    if isinstance(source, bytes):
        return _decode(io.BytesIO(source), name, max_megapixels, frame, least)
    path = Path(source)
    if (match := _FRAME.fullmatch(str(source))) and not path.exists():
        path, frame = Path(match[1]), int(match[2])
    try:
        if path.is_dir():
            raise ImageError(source, "is a folder, not an image")
        if not path.exists():
            raise ImageError(source, "is missing: there is no such file")
        with path.open("rb") as file:
            return _decode(file, str(source), max_megapixels, frame, least)
    except (OSError, ValueError) as error:  # ValueError: a NUL byte in the path
        raise ImageError(source, f"cannot be read: {_plain(error)}") from error


def resize(rgb: RGB, size: int) -> RGB:
    """Squeeze the whole picture into a square, antialiased.

    Squeezed, not cropped: as in the paper, and because severity may sit at the rim.

    Args:
        rgb: uint8, shape (H, W, 3).
        size: side in pixels.

    Returns:
        uint8, shape (size, size, 3).
    """
    if rgb.shape[:2] == (size, size):
        return rgb
    # Pillow's bilinear filter widens with the reduction, so nothing aliases.
    return np.array(Image.fromarray(rgb).resize((size, size), Image.Resampling.BILINEAR))


class Reading(Iterator[tuple[int, RGB]]):
    """Images read ahead in threads, in order, with what could not be read on the side.

    Attributes:
        failures: the position and the error of every image left out so far.
    """

    def __init__(
        self,
        read: Callable[[int], RGB],
        count: int,
        on_error: OnError,
        workers: int,
        progress: Progress | None,
    ) -> None:
        self.failures: list[tuple[int, ImageError]] = []
        self._read, self._count, self._on_error, self._progress = read, count, on_error, progress
        self._ahead: deque[Future[RGB]] = deque()
        self._submitted = self._done = 0
        self._most_ahead = 4 * workers
        # Not in a `with` inside a generator: one that is dropped half-way would wait for its threads whenever the
        # garbage collector comes along, in whatever thread that is. A pool that is dropped lets its threads end.
        self._pool = ThreadPoolExecutor(workers, thread_name_prefix="decode")

    def __next__(self) -> tuple[int, RGB]:
        while self._done < self._count:
            # A few images ahead per thread keeps the cores busy and the memory bounded.
            while self._submitted < self._count and len(self._ahead) < self._most_ahead:
                self._ahead.append(self._pool.submit(self._read, self._submitted))
                self._submitted += 1
            position, self._done = self._done, self._done + 1
            try:
                rgb = self._ahead.popleft().result()
            except ImageError as error:
                if self._on_error == "fail":
                    self.close()
                    raise
                self.failures.append((position, error))
            except BaseException:
                self.close()
                raise
            else:
                self._tell()
                return position, rgb
            self._tell()
        self.close()
        raise StopIteration

    def close(self) -> None:
        """Read no further."""
        self._count = self._done
        self._ahead.clear()
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _tell(self) -> None:
        if self._progress is not None:
            self._progress(self._done, self._count, "images read")


def read_many(
    sources: Sequence[str | Path | bytes] | int,
    *,
    read: Callable[[int], RGB] | None = None,
    size: int | None = None,
    on_error: OnError = "skip",
    max_megapixels: float = 100.0,
    workers: int = 0,
    progress: Progress | None = None,
) -> Reading:
    """Read many images, in order, in threads; a bad one is noted by name and the rest go on.

        reading = read_many(paths, size=224)
        for position, rgb in reading: ...
        for position, error in reading.failures: print(error)

    Args:
        sources: paths or bytes – or a number, together with `read`.
        read: reads the image at a position, in place of `decode(sources[position])`.
        size: resize to a square of this side.
        on_error: `skip` goes on and lists the error in `failures`; `fail` raises the first.
        max_megapixels: as in `decode`.
        workers: threads; 0 takes one per core.
        progress: called after every image.

    Returns:
        An iterator of (position, RGB) with the list `failures`.
    """
    if isinstance(sources, int):
        if read is None:
            raise TypeError("read_many(number) needs read=, the function that reads the image at a position")
        count, one = sources, read
    else:
        given = sources
        count = len(given)
        one = read or (lambda position: decode(given[position], max_megapixels=max_megapixels))
    job = one if size is None else (lambda position: resize(one(position), size))
    return Reading(job, count, on_error, workers_for(workers), progress)


def workers_for(workers: int) -> int:
    """The number of threads meant by a setting: 0 is one per core, at most 16."""
    return workers if workers > 0 else min(16, os.cpu_count() or 1)


def _decode(file: IO[bytes], name: str, max_megapixels: float, frame: int, least: int) -> RGB:
    head = file.read(HEAD_BYTES)
    file.seek(0)
    if not head:
        raise ImageError(name, "is empty (0 bytes)")
    kind = sniff(head)
    if kind is None:
        raise ImageError(name, f"is not an image: it is {describe(head)}")
    try:
        if kind == "DICOM":
            with quiet():
                return dicom.read(file, name, frame=frame, max_megapixels=max_megapixels)
        return _pillow(file, name, kind, max_megapixels, least)
    except (ImageError, MissingExtraError):
        raise
    # Hostile bytes make decoders raise anything: struct.error, KeyError, RecursionError, MemoryError …
    except Exception as error:
        raise ImageError(name, _reason(error, kind)) from error


def _pillow(file: IO[bytes], name: str, kind: str, max_megapixels: float, least: int) -> RGB:
    with quiet():
        Image.init()
        # Not Image.open: it would also try formats that start other programs (EPS), and its own limit on the
        # size is a process-wide global that warns instead of raising.
        if kind == "PNG":
            # Pillow does not look at the checksums of pixels while it unpacks them: damage would go unseen.
            Image.OPEN[kind][0](file, name).verify()
            file.seek(0)
        image = Image.OPEN[kind][0](file, name)
        width, height = image.size
        if width < 1 or height < 1:
            raise ImageError(name, f"has no pixels ({width}×{height})")
        if width * height > max_megapixels * 1e6:
            raise ImageError(
                name,
                f"has {width}×{height} = {width * height / 1e6:,.0f} megapixels, more than the {max_megapixels:g} "
                "allowed: a decompression bomb? Raise images.max_megapixels if it is real",
            )
        turn = _turn(image)
        declared = _declared_white(image, kind)
        if least and kind == "JPEG":
            image.draft(
                None, (least, least)
            )  # its cosines give the smaller picture without making the larger one
        if kind == "TIFF":
            image.load()  # reads EXIF once more at the end, which may warn
    image.load()
    return _upright(_to_rgb(image, name, declared), turn)


def _turn(image: Image.Image) -> int:
    try:
        # TIFF is turned by Pillow itself while it loads.
        return 1 if image.format == "TIFF" else int(image.getexif().get(_ORIENTATION, 1))
    except Exception:  # damaged EXIF is no reason to lose the pixels
        return 1


def _upright(rgb: RGB, orientation: int) -> RGB:
    turned = {
        2: rgb[:, ::-1],
        3: rgb[::-1, ::-1],
        4: rgb[::-1],
        5: rgb.transpose(1, 0, 2),
        6: rgb.transpose(1, 0, 2)[:, ::-1],
        7: rgb[::-1, ::-1].transpose(1, 0, 2),
        8: rgb.transpose(1, 0, 2)[::-1],
    }.get(orientation, rgb)
    return np.ascontiguousarray(turned)


def _declared_white(image: Image.Image, kind: str) -> float:
    """The value that the file declares to be white, 0 where it declares none."""
    if kind == "TIFF":
        tags: Any = getattr(image, "tag_v2", {})
        depth = tags.get(258, (0,))
        if isinstance(depth, tuple) and depth[:1] == (12,):
            return 4095.0
        most = tags.get(_MAX_SAMPLE_VALUE, 0)
        most = most[0] if isinstance(most, tuple) and most else most
        if isinstance(most, int | float) and 255 < most < 65535:
            return float(most)
    return 0.0


def _to_rgb(image: Image.Image, name: str, declared: float) -> RGB:
    """RGB in strips: whole, each step of a conversion would be another copy of a picture that may have 100 megapixels."""
    width, height = image.size
    rgb: RGB = np.empty((height, width, 3), dtype=np.uint8)
    grey = image.mode.startswith("I") or image.mode == "F"
    values = np.asarray(image) if grey else None
    white = _white(values, name, declared) if values is not None else 0.0
    rows = max(1, _STRIP_PIXELS // width)
    for top in range(0, height, rows):
        end = min(height, top + rows)
        if values is not None:
            rgb[top:end] = np.rint(values[top:end, :, None] * (255.0 / white))
        else:
            rgb[top:end] = _converted(image if rows >= height else image.crop((0, top, width, end)))
    return rgb


def _converted(image: Image.Image) -> RGB:
    if image.mode in ("RGBA", "LA", "PA", "RGBa", "La") or "transparency" in image.info:
        over = image.convert("RGBA")
        black = Image.new("RGBA", over.size, (0, 0, 0, 255))
        image = Image.alpha_composite(black, over)
    return np.asarray(image if image.mode == "RGB" else image.convert("RGB"))


def _white(values: NDArray[Any], name: str, declared: float) -> float:
    """The value that becomes 255."""
    low, high = float(values.min()), float(values.max())
    if not (np.isfinite(low) and np.isfinite(high)):
        raise ImageError(name, "holds values that are not finite (NaN or infinity)")
    if values.dtype.kind == "f" and low >= 0 and high <= 1:
        return 1.0
    if values.dtype.itemsize > 2 and low >= 0 and high <= 255:
        return 255.0
    if low >= 0 and high <= 65535:
        return declared if declared >= high and declared > 0 else (4095.0 if high <= 4095 else 65535.0)
    raise ImageError(
        name,
        f"holds values from {low:g} to {high:g}, which have no known scale: convert it to 8 or 16 bit",
    )


def _reason(error: Exception, kind: str) -> str:
    text = _plain(error)
    if isinstance(error, Image.DecompressionBombError):
        return "unpacks to far more pixels than allowed: a decompression bomb?"
    if isinstance(error, MemoryError):
        return "does not fit in memory"
    if "requires a buffer" in text:  # a header cut short, in the words of the struct module
        return f"is truncated: the {kind} header ends too early"
    if "truncated" in text.lower() or isinstance(error, EOFError):
        return f"is truncated: the {kind} data end too early ({text})"
    if text == "not identified by this driver":
        text = "its header makes no sense"
    return f"is damaged: {kind} cannot be decoded ({text})"


def _plain(error: Exception) -> str:
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return " ".join(text.split()) or type(error).__name__


_warnings_lock = threading.RLock()


@contextmanager
def quiet() -> Iterator[None]:
    """No warnings from decoders about files that are decoded after all.

    `catch_warnings` swaps a global, so that only one thread at a time may be in here; pixels are unpacked outside.
    """
    with _warnings_lock, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
