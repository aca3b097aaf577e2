"""Image folders: one subfolder per class, with or without ``train`` and ``test``."""

from __future__ import annotations

import io
import os
import warnings
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image

from expunge._errors import DataError
from expunge._files import kind_of, storage_errors
from expunge.data._examples import ImageSet, made_from

PARTS = ("train", "test", "val")

# Only these decoders: some of Pillow's others start programs or parse documents.
FORMATS = ("PNG", "JPEG", "BMP", "WEBP", "GIF", "PPM")
SUFFIXES = {".png", ".jpg", ".jpeg", ".bmp", ".webp", ".gif", ".ppm", ".pgm"}
Read = Callable[[], bytes]
GREY = {"1", "L", "LA", "I", "I;16", "I;16L", "I;16B", "I;16N"}


def load_folder(root: Path) -> tuple[ImageSet, ImageSet | None, ImageSet | None]:
    """(train, test, val) from ``root/train/<class>/*``, and the same in ``test`` and ``val``.

    Without the train/test level (``root/<class>/*``), all are train.
    Images get the size of the first training image. They are RGB unless all are grey.
    """
    files, parted = _find_images(root)
    train = [place for place in files if not parted or place.parts[0] == "train"]
    classes = tuple(sorted({place.parts[parted] for place in train}))
    label_of = {name: label for label, name in enumerate(classes)}
    heads = {place: read_image_header(f"{root}: {place}", read) for place, read in files.items()}
    shape = heads[train[0]][1]
    mode = "L" if all(mode in GREY for mode, _ in heads.values()) else "RGB"

    def read(part: str) -> ImageSet:
        """The images of "train", "test" or "val"; all of them for ""."""
        places = [place for place in files if not part or place.parts[0] == part]
        names = [place.parts[parted] for place in places]
        if unknown := sorted({*names} - label_of.keys()):
            raise DataError(
                f"{root}: {part} has the class {unknown[0]!r} that train lacks. "
                f"(train has {', '.join(classes)})"
            )
        pixels = np.empty((len(places), 1 if mode == "L" else 3, *shape), np.uint8)
        for row, place in zip(pixels, places, strict=True):
            row[:] = decode_image(f"{root}: {place}", files[place], shape, mode)
        labels = np.array([label_of[name] for name in names])
        return made_from(root, ImageSet, pixels, labels, classes, [str(place) for place in places])

    if not parted:
        return read(""), None, None
    has_val = any(place.parts[0] == "val" for place in files)
    return read("train"), read("test"), read("val") if has_val else None


def _find_images(root: Path) -> tuple[dict[PurePosixPath, Read], bool]:
    """All images below ``root``, and whether they are in train, test and val."""
    files = _list_images(root)
    if not files:
        raise DataError(
            f"There are no images in {root}. (known: {', '.join(sorted(SUFFIXES))}) Put "
            "them into one folder per class."
        )
    tops = {place.parts[0] for place in files}
    parted = "train" in tops
    if parted and ("test" not in tops or tops - set(PARTS)):
        raise DataError(
            f"{root} should hold train, test and possibly val. (got {', '.join(sorted(tops))})"
        )
    for place in files:
        if len(place.parts) < 2 + parted:
            raise DataError(f"{root}: {place} should be in the folder of its class.")
    return files, parted


def _list_images(root: Path) -> dict[PurePosixPath, Read]:
    """The images of a folder, sorted; what is named like one and cannot be read is refused."""
    if not root.is_dir():
        raise DataError(f"{root} should be a folder of images; unpack archives. (got no folder)")
    files: dict[str, Read] = {}
    lost: list[Path] = []
    with storage_errors(f"list {root}"):
        for folder, folders, names in os.walk(root, onerror=_raise):
            lost += [path for name in folders if (path := Path(folder, name)).is_symlink()]
            for path in (Path(folder, name) for name in names):
                place = path.relative_to(root)
                if _is_image(place):
                    files[place.as_posix()] = path.read_bytes
                    lost += [] if path.is_file() else [path]
    if lost:
        raise DataError(
            f"{root} should hold regular files, or links to them. (got {min(lost)}, "
            f"{kind_of(min(lost))}, and {len(lost) - 1} more such) Put the files there, or remove "
            "what stands for them."
        )
    return {PurePosixPath(name): read for name, read in sorted(files.items())}


def _raise(error: OSError) -> None:
    raise error


def _is_image(place: Path) -> bool:
    hidden = any(part.startswith((".", "__MACOSX")) for part in place.parts)
    return place.suffix.lower() in SUFFIXES and not hidden


# Image files may be damaged, or made to do damage.


def read_image_header(source: str, read: Read) -> tuple[str, tuple[int, int]]:
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


def decode_image(
    source: str, read: Read, size: tuple[int, int], mode: str
) -> npt.NDArray[np.uint8]:
    """Pixels [C, H, W] of one image in ``mode`` L or RGB, resized to ``size`` (height, width)."""
    image = _open(source, read)
    try:
        if image.mode.startswith("I"):  # 16 bits per pixel; Pillow would clip rather than scale
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
