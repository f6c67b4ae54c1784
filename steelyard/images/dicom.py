"""DICOM files → RGB frames (the `dicom` extra).

Grey values go through the rescale slope and intercept, then through the window (the first one, where a file has
several), per frame where an enhanced file says so; MONOCHROME1 is inverted. A file without a window is shown from its
smallest to its largest declared value, or over all the bits it stores when those are fewer than 16 and unsigned; only
where neither is stated from the frame's own smallest to its largest value. RGB, YBR and palette colours are converted.
"""

from __future__ import annotations

from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from steelyard.errors import ImageError, MissingExtraError

__all__ = ["count_frames", "read"]


def count_frames(file: IO[bytes], name: str) -> int:
    """Number of frames in an open DICOM file, read from its header only.

    Raises:
        ImageError: the header is damaged or the file holds no picture.
        MissingExtraError: pydicom is not installed.
    """
    dcmread = _pydicom()
    try:
        data = dcmread(file, stop_before_pixels=True, force=False)
        if "Rows" not in data or "Columns" not in data:
            raise ImageError(name, _no_pixels(data))
        return max(1, int(data.get("NumberOfFrames") or 1))
    except ImageError:
        raise
    except Exception as error:  # hostile headers make the parser raise anything
        raise ImageError(name, f"is damaged: its DICOM header cannot be read ({error})") from error


def read(file: IO[bytes], name: str, *, frame: int = 1, max_megapixels: float = 100.0) -> NDArray[np.uint8]:
    """One frame as uint8 RGB.

    Args:
        file: open DICOM file.
        name: what errors call it.
        frame: which frame, counted from 1 as DICOM does.
        max_megapixels: a larger frame is not unpacked.

    Returns:
        uint8, shape (H, W, 3).

    Raises:
        ImageError: no pixels, no such frame, too large, damaged, or compressed in a way that cannot be read here.
        MissingExtraError: pydicom is not installed.
    """
    dcmread = _pydicom()
    from pydicom.pixels import pixel_array

    data = dcmread(file, force=False)
    rows, columns = int(data.get("Rows") or 0), int(data.get("Columns") or 0)
    if rows < 1 or columns < 1:
        raise ImageError(name, _no_pixels(data))
    if rows * columns > max_megapixels * 1e6:
        raise ImageError(
            name,
            f"has {columns}×{rows} = {rows * columns / 1e6:,.0f} megapixels, more than the {max_megapixels:g} allowed. "
            "Raise images.max_megapixels if it is real",
        )
    frames = max(1, int(data.get("NumberOfFrames") or 1))
    if not 1 <= frame <= frames:
        raise ImageError(name, f"has no frame {frame}: it has {frames}, counted from 1")
    try:
        values = pixel_array(data, index=frame - 1)
    except (RuntimeError, NotImplementedError, AttributeError, ValueError) as error:
        syntax = getattr(getattr(data, "file_meta", None), "TransferSyntaxUID", None)
        raise ImageError(
            name,
            f"has pixels that cannot be decoded ({getattr(syntax, 'name', 'no transfer syntax')}): {error}",
        ) from error

    photometric = str(data.get("PhotometricInterpretation", "MONOCHROME2"))
    if photometric == "PALETTE COLOR":
        from pydicom.pixels import apply_color_lut

        values = apply_color_lut(values, data)
        return _drop_bits(values[:, :, :3], 8 * values.dtype.itemsize)
    if int(data.get("SamplesPerPixel") or 1) == 3:  # YBR came out of pixel_array as RGB
        return _drop_bits(values, int(data.get("BitsStored") or 8))
    grey = _window(values.astype(np.float64), data, frame - 1)
    if photometric == "MONOCHROME1":
        grey = 255.0 - grey
    return np.repeat(np.rint(grey).astype(np.uint8)[:, :, None], 3, axis=2)


def _window(values: NDArray[np.float64], data: Any, index: int) -> NDArray[np.float64]:
    """Stored grey values → 0…255 (PS3.3 C.11.1.1.2 and C.11.2.1.2)."""
    low, high = _declared_range(values, data)
    if "ModalityLUTSequence" in data:
        from pydicom.pixels import apply_modality_lut

        values = np.asarray(apply_modality_lut(values.astype(np.int64), data), dtype=np.float64)
        low, high = float(values.min()), float(values.max())
    else:
        slope = _first(_attribute(data, index, "PixelValueTransformationSequence", "RescaleSlope"), 1.0)
        intercept = _first(
            _attribute(data, index, "PixelValueTransformationSequence", "RescaleIntercept"), 0.0
        )
        values = values * slope + intercept
        low, high = sorted((low * slope + intercept, high * slope + intercept))

    center = _first(_attribute(data, index, "FrameVOILUTSequence", "WindowCenter"), np.nan)
    width = _first(_attribute(data, index, "FrameVOILUTSequence", "WindowWidth"), np.nan)
    if np.isfinite(center) and np.isfinite(width) and width > 0:
        function = str(_attribute(data, index, "FrameVOILUTSequence", "VOILUTFunction") or "LINEAR").upper()
        if function == "SIGMOID":
            return np.asarray(255.0 / (1.0 + np.exp(np.clip(-4.0 * (values - center) / width, -700, 700))))
        if function != "LINEAR_EXACT" and width > 1:
            center, width = center - 0.5, width - 1.0
        low, high = center - width / 2, center + width / 2
    elif "VOILUTSequence" in data:
        from pydicom.pixels import apply_voi

        values = np.asarray(apply_voi(values.astype(np.int64), data), dtype=np.float64)
        low, high = 0.0, float(2 ** int(data.VOILUTSequence[0].LUTDescriptor[2]) - 1)
    if high <= low:
        return np.where(values > low, 255.0, 0.0)
    return np.asarray(np.clip((values - low) / (high - low), 0.0, 1.0) * 255.0)


def _declared_range(values: NDArray[np.float64], data: Any) -> tuple[float, float]:
    smallest, largest = data.get("SmallestImagePixelValue"), data.get("LargestImagePixelValue")
    if isinstance(smallest, int) and isinstance(largest, int) and largest > smallest:
        return float(smallest), float(largest)
    bits = int(data.get("BitsStored") or data.get("BitsAllocated") or 16)
    if bits < 16 and int(data.get("PixelRepresentation") or 0) == 0:
        return 0.0, float(2**bits - 1)
    return float(values.min()), float(values.max())


def _attribute(data: Any, index: int, sequence: str, keyword: str) -> Any:
    """An attribute of one frame: its own, else the one all frames share, else the file's."""
    per_frame = data.get("PerFrameFunctionalGroupsSequence") or []
    shared = data.get("SharedFunctionalGroupsSequence") or []
    for group in [*per_frame[index : index + 1], *shared[:1]]:
        for item in (group.get(sequence) or [])[:1]:
            if keyword in item:
                return item[keyword].value
    return data.get(keyword)


def _first(value: Any, default: float) -> float:
    if value is None or value == "":
        return default
    if hasattr(value, "__len__") and not isinstance(value, str):
        return float(value[0]) if len(value) else default
    return float(value)


def _drop_bits(values: NDArray[Any], bits: int) -> NDArray[np.uint8]:
    return np.ascontiguousarray(values >> max(0, bits - 8), dtype=np.uint8)


def _no_pixels(data: Any) -> str:
    return f"is a DICOM file without a picture (modality {data.get('Modality') or 'unknown'})"


def _pydicom() -> Any:
    try:
        from pydicom import dcmread
    except ImportError as error:
        raise MissingExtraError("DICOM images", "dicom") from error
    return dcmread
