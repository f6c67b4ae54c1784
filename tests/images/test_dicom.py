"""DICOM: window and level, both monochromes, colours, frames – and files that are not what they seem."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from pydicom.dataset import Dataset, FileDataset, FileMetaDataset
from pydicom.encaps import encapsulate
from pydicom.sequence import Sequence
from pydicom.uid import (
    ExplicitVRLittleEndian,
    JPEGBaseline8Bit,
    RLELossless,
    SecondaryCaptureImageStorage,
    generate_uid,
)

from steelyard.errors import ImageError, MissingExtraError
from steelyard.images.catalog import Catalog
from steelyard.images.decode import decode


def dicom(values: np.ndarray, *, syntax: str = ExplicitVRLittleEndian, **tags: Any) -> FileDataset:
    """A file with these stored values: (rows, columns[, 3]) or (frames, rows, columns)."""
    meta = FileMetaDataset()
    meta.MediaStorageSOPClassUID = SecondaryCaptureImageStorage
    meta.MediaStorageSOPInstanceUID = generate_uid(entropy_srcs=["test"])
    meta.TransferSyntaxUID = syntax
    data = FileDataset(None, {}, file_meta=meta, preamble=b"\0" * 128)
    data.SOPClassUID, data.SOPInstanceUID = meta.MediaStorageSOPClassUID, meta.MediaStorageSOPInstanceUID
    colour = values.ndim >= 3 and values.shape[-1] == 3
    data.Rows, data.Columns = values.shape[-3:-1] if colour else values.shape[-2:]
    data.SamplesPerPixel = 3 if colour else 1
    data.PhotometricInterpretation = "RGB" if colour else "MONOCHROME2"
    if colour:
        data.PlanarConfiguration = 0
    if values.ndim - colour == 3:
        data.NumberOfFrames = len(values)
    bits = 8 * values.dtype.itemsize
    data.BitsAllocated, data.BitsStored, data.HighBit = bits, bits, bits - 1
    data.PixelRepresentation = int(values.dtype.kind == "i")
    data.PixelData = values.tobytes()
    for name, value in tags.items():
        setattr(data, name, value)
    data.HighBit = data.BitsStored - 1
    return data


def stored(data: Dataset) -> bytes:
    buffer = io.BytesIO()
    data.save_as(buffer, enforce_file_format=True)
    return buffer.getvalue()


def grey(data: Dataset, **options: Any) -> list[int]:
    got = decode(stored(data), **options)
    assert got.dtype == np.uint8
    assert (got == got[:, :, :1]).all()
    return got[0, :, 0].tolist()


ROW = np.array([[0, 100, 200, 300, 400]], np.uint16)


class TestGrey:
    def test_window(self) -> None:
        # PS3.3 C.11.2.1.2: y = ((x − (c − ½)) / (w − 1) + ½)·255, here from 100 to 300.
        assert grey(dicom(ROW, WindowCenter=200.5, WindowWidth=201)) == [0, 0, 128, 255, 255]

    def test_exact_window(self) -> None:
        data = dicom(ROW, WindowCenter=200, WindowWidth=400, VOILUTFunction="LINEAR_EXACT")
        assert grey(data) == [0, 64, 128, 191, 255]

    def test_sigmoid_window(self) -> None:
        got = grey(dicom(ROW, WindowCenter=200, WindowWidth=200, VOILUTFunction="SIGMOID"))
        want = 255 / (1 + np.exp(-4 * (ROW[0].astype(float) - 200) / 200))
        assert got == np.rint(want).astype(int).tolist()

    def test_rescale_comes_before_the_window(self) -> None:
        data = dicom(ROW, RescaleSlope=2, RescaleIntercept=-1000, WindowCenter=-600, WindowWidth=400)
        data.VOILUTFunction = "LINEAR_EXACT"
        assert grey(data) == [0, 0, 128, 255, 255]

    def test_the_first_of_several_windows(self) -> None:
        assert grey(dicom(ROW, WindowCenter=[200.5, 0], WindowWidth=[201, 1])) == [0, 0, 128, 255, 255]

    def test_monochrome1_is_inverted(self) -> None:
        data = dicom(ROW, WindowCenter=200.5, WindowWidth=201, PhotometricInterpretation="MONOCHROME1")
        assert grey(data) == [255, 255, 128, 0, 0]

    def test_signed_values(self) -> None:
        data = dicom(np.array([[-1000, 0, 1000]], np.int16), WindowCenter=0.5, WindowWidth=2001)
        assert grey(data) == [0, 128, 255]

    def test_without_a_window_all_stored_bits(self) -> None:
        assert grey(dicom(np.array([[0, 2048, 4095]], np.uint16), BitsStored=12)) == [0, 128, 255]
        assert grey(dicom(np.array([[0, 128, 200]], np.uint8))) == [0, 128, 200]

    def test_without_a_window_the_declared_range(self) -> None:
        data = dicom(ROW, SmallestImagePixelValue=0, LargestImagePixelValue=800)
        assert grey(data) == [0, 32, 64, 96, 128]

    def test_without_anything_the_own_range(self) -> None:
        assert grey(dicom(np.array([[-50, 0, 50]], np.int16))) == [0, 128, 255]

    def test_a_flat_image(self) -> None:
        assert grey(dicom(np.full((1, 3), -7, np.int16))) == [0, 0, 0]

    def test_a_lookup_table_in_place_of_a_window(self) -> None:
        table = Dataset()
        table.LUTDescriptor = [4, 0, 8]
        table.LUTData = [0, 200, 100, 255]
        table["LUTData"].VR = "US"
        data = dicom(np.array([[0, 1, 2, 3]], np.uint8), VOILUTSequence=Sequence([table]))
        assert grey(data) == [0, 200, 100, 255]

    def test_run_length_compression(self) -> None:
        data = dicom(np.tile(ROW, (4, 1)), WindowCenter=200.5, WindowWidth=201)
        data.compress(RLELossless, generate_instance_uid=False)
        assert grey(data) == [0, 0, 128, 255, 255]


class TestColour:
    RGB = np.arange(2 * 3 * 3, dtype=np.uint8).reshape(2, 3, 3) * 14

    def test_rgb(self) -> None:
        assert (decode(stored(dicom(self.RGB))) == self.RGB).all()

    def test_planes(self) -> None:
        data = dicom(self.RGB, PlanarConfiguration=1)
        data.PixelData = self.RGB.transpose(2, 0, 1).tobytes()
        assert (decode(stored(data)) == self.RGB).all()

    def test_ybr(self) -> None:
        ycc = np.asarray(Image.fromarray(self.RGB).convert("YCbCr"))
        got = decode(stored(dicom(ycc, PhotometricInterpretation="YBR_FULL")))
        assert np.abs(got.astype(int) - self.RGB).max() <= 3

    def test_16_bit_rgb(self) -> None:
        deep = self.RGB.astype(np.uint16) * 257
        assert (decode(stored(dicom(deep))) == self.RGB).all()

    def test_jpeg_inside(self) -> None:
        red = Image.new("RGB", (16, 16), (220, 30, 30))
        buffer = io.BytesIO()
        red.save(buffer, "JPEG", quality=95)
        data = dicom(np.asarray(red), syntax=JPEGBaseline8Bit, PhotometricInterpretation="YBR_FULL_422")
        data.PixelData = encapsulate([buffer.getvalue()])
        data["PixelData"].is_undefined_length = True
        got = decode(stored(data))
        assert np.abs(got.astype(int) - (220, 30, 30)).max() < 8

    def test_palette(self) -> None:
        data = dicom(np.array([[0, 1, 2]], np.uint8), PhotometricInterpretation="PALETTE COLOR")
        for colour, values in {
            "Red": (0, 65535, 0),
            "Green": (0, 0, 65535),
            "Blue": (65535, 0, 32896),
        }.items():
            setattr(data, f"{colour}PaletteColorLookupTableDescriptor", [3, 0, 16])
            data[f"{colour}PaletteColorLookupTableDescriptor"].VR = "US"
            setattr(data, f"{colour}PaletteColorLookupTableData", np.array(values, "<u2").tobytes())
        assert decode(stored(data)).tolist() == [[[0, 0, 255], [255, 0, 0], [0, 255, 128]]]


class TestFrames:
    FRAMES = np.stack([np.full((4, 5), value, np.uint8) for value in (10, 20, 30)])

    def test_each_by_number(self) -> None:
        data = stored(dicom(self.FRAMES))
        assert [int(decode(data, frame=k)[0, 0, 0]) for k in (1, 2, 3)] == [10, 20, 30]
        assert decode(data).mean() == 10

    @pytest.mark.parametrize("frame", [0, 4])
    def test_a_frame_that_is_not_there(self, frame: int) -> None:
        with pytest.raises(ImageError, match=f"no frame {frame}: it has 3"):
            decode(stored(dicom(self.FRAMES)), frame=frame)

    def test_in_a_path(self, tmp_path: Path) -> None:
        (tmp_path / "scan.dcm").write_bytes(stored(dicom(self.FRAMES)))
        assert decode(f"{tmp_path}/scan.dcm#3").mean() == 30

    def test_a_window_for_each_frame(self) -> None:
        def group(center: float) -> Dataset:
            voi, item = Dataset(), Dataset()
            voi.WindowCenter, voi.WindowWidth, voi.VOILUTFunction = center, 10, "LINEAR_EXACT"
            item.FrameVOILUTSequence = Sequence([voi])
            return item

        data = dicom(self.FRAMES, PerFrameFunctionalGroupsSequence=Sequence([group(5), group(20), group(50)]))
        assert [int(decode(stored(data), frame=k)[0, 0, 0]) for k in (1, 2, 3)] == [255, 128, 0]

    def test_a_rescale_that_all_frames_share(self) -> None:
        transformation, shared = Dataset(), Dataset()
        transformation.RescaleSlope, transformation.RescaleIntercept = 2, 0
        shared.PixelValueTransformationSequence = Sequence([transformation])
        data = dicom(self.FRAMES, WindowCenter=40, WindowWidth=80, VOILUTFunction="LINEAR_EXACT")
        data.SharedFunctionalGroupsSequence = Sequence([shared])
        assert [int(decode(stored(data), frame=k)[0, 0, 0]) for k in (1, 2, 3)] == [64, 128, 191]

    def test_become_rows_of_a_catalog(self, tmp_path: Path) -> None:
        (tmp_path / "scan").write_bytes(stored(dicom(self.FRAMES)))  # DICOM often has no suffix
        (tmp_path / "single.dcm").write_bytes(stored(dicom(self.FRAMES[0])))
        catalog = Catalog.from_folder(tmp_path, check=True)
        assert catalog.paths.tolist() == ["scan#1", "scan#2", "scan#3", "single.dcm"]
        assert [int(catalog.read(row).mean()) for row in range(4)] == [10, 20, 30, 10]
        assert catalog.raw_path(2) == tmp_path / "scan"
        assert len(set(catalog.ids)) == 4
        catalog.save(tmp_path / "c.arrow")
        opened = Catalog.open(tmp_path / "c.arrow")
        assert opened.read(2).mean() == 30
        assert opened.verify() == ()

    def test_are_found_again_after_a_move(self, tmp_path: Path) -> None:
        (tmp_path / "scan.dcm").write_bytes(stored(dicom(self.FRAMES)))
        catalog = Catalog.from_folder(tmp_path)
        (tmp_path / "scan.dcm").rename(tmp_path / "renamed.dcm")
        found = catalog.relocate(tmp_path)
        assert found.moved == 3
        assert found.catalog.read(2).mean() == 30


class TestBadFiles:
    def test_without_a_picture(self) -> None:
        data = dicom(ROW, Modality="SR")
        del data.PixelData, data.Rows, data.Columns
        with pytest.raises(ImageError, match=r"without a picture \(modality SR\)"):
            decode(stored(data))

    def test_truncated(self, tmp_path: Path) -> None:
        (tmp_path / "a.dcm").write_bytes(stored(dicom(np.zeros((64, 64), np.uint16)))[:-4000])
        with pytest.raises(ImageError, match=r"a\.dcm: .*(truncated|cannot be decoded)"):
            decode(tmp_path / "a.dcm")

    def test_cut_in_the_header(self) -> None:
        with pytest.raises(ImageError):
            decode(stored(dicom(ROW))[:200])

    def test_too_large(self) -> None:
        with pytest.raises(ImageError, match="megapixels"):
            decode(stored(dicom(np.zeros((60, 60), np.uint8))), max_megapixels=0.001)

    def test_unknown_compression(self) -> None:
        data = dicom(ROW, syntax=JPEGBaseline8Bit)
        data.PixelData = encapsulate([b"\xff\xd8 no jpeg"])
        data["PixelData"].is_undefined_length = True
        with pytest.raises(ImageError, match="cannot be decoded"):
            decode(stored(data))

    def test_in_a_folder_they_are_reported(self, tmp_path: Path) -> None:
        (tmp_path / "good.dcm").write_bytes(stored(dicom(ROW)))
        data = dicom(ROW, Modality="SR")
        del data.PixelData, data.Rows, data.Columns
        (tmp_path / "report.dcm").write_bytes(stored(data))
        catalog = Catalog.from_folder(tmp_path)
        assert catalog.paths.tolist() == ["good.dcm"]
        assert [noticed.path for noticed in catalog.report.bad] == ["report.dcm"]

    def test_without_the_extra(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        data = stored(dicom(ROW))
        monkeypatch.setitem(sys.modules, "pydicom", None)
        with pytest.raises(MissingExtraError, match=r"DICOM images .*steelyard\[dicom\]"):
            decode(data)
        (tmp_path / "a.dcm").write_bytes(data)
        with pytest.raises(MissingExtraError):
            Catalog.from_folder(tmp_path)
