"""Pixels from image files that may be damaged, or made to do damage."""

from __future__ import annotations

import io
import warnings
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image

from expunge._errors import DataError
from expunge.data._archive import Read

# Only these decoders: some of Pillow's others start programs or parse documents.
FORMATS = ("PNG", "JPEG", "BMP", "WEBP", "GIF", "PPM")
SUFFIXES = {".png", ".jpg", ".jpeg", ".bmp", ".webp", ".gif", ".ppm", ".pgm"}
GREY = {"1", "L", "LA", "I", "I;16", "I;16L", "I;16B", "I;16N"}


def read_header(source: str, read: Read) -> tuple[str, tuple[int, int]]:
    """Mode and (height, width) from the file's header."""
    image = _open(source, read)
    return image.mode, (image.height, image.width)


def _open(source: str, read: Read) -> Image.Image:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            return Image.open(io.BytesIO(read()), formats=FORMATS)
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise DataError(
            f"{source} would unpack to more pixels than is safe: {error} "
            "Scale it down or remove it."
        ) from error
    except Exception as error:
        raise _broken(source, error) from error


def decode(source: str, read: Read, size: tuple[int, int], mode: str) -> npt.NDArray[np.uint8]:
    """Pixels [C, H, W] of one image in ``mode`` L or RGB, resized to ``size`` (height, width)."""
    image = _open(source, read)
    try:
        if image.mode.startswith("I"):  # 16 bits a pixel; Pillow would clip rather than scale
            image = Image.fromarray((np.asarray(image).astype(np.int64) >> 8).astype(np.uint8))
        if "transparency" in image.info:
            image = image.convert("RGBA")
        image = image.convert(mode)
        if (image.height, image.width) != size:
            image = image.resize((size[1], size[0]), Image.Resampling.BILINEAR)
        pixels: npt.NDArray[Any] = np.asarray(image)
    except Exception as error:  # Pillow's decoders fail in many ways on damaged data
        raise _broken(source, error) from error
    return pixels[None] if mode == "L" else pixels.transpose(2, 0, 1)


def _broken(source: str, error: Exception) -> DataError:
    return DataError(f"{source} is not a readable image: {error}. Repair or remove it.")
