"""Image folders: one subfolder per class, with or without ``train`` and ``test``."""

from __future__ import annotations

import io
import os
import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path, PurePosixPath

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
GREY = {"1", "L", "LA", "I", "I;16", "I;16L", "I;16B", "I;16N"}
ImageFile = tuple[str, Path | bytes]
"""What messages call an image, and its path or its content."""


def load_folder(root: Path) -> tuple[ImageSet, ImageSet | None, ImageSet | None]:
    """(train, test, val) from ``root/train/<class>/*``, and the same in ``test`` and ``val``.

    Without the train/test level (``root/<class>/*``), all are train.
    Images get the size of the first training image. They are RGB unless all are grey.
    """
    found, parted = _find_images(root)
    train = [place for place in found if not parted or place.parts[0] == "train"]
    classes = tuple(sorted({place.parts[parted] for place in train}))
    label_of = {name: label for label, name in enumerate(classes)}
    files: dict[PurePosixPath, ImageFile] = {p: (f"{root}: {p}", root / p) for p in found}
    size, mode = common_format([files[place] for place in (train[0], *found)])

    def read(part: str) -> ImageSet:
        """The images of "train", "test" or "val"; all of them for ""."""
        places = [place for place in found if not part or place.parts[0] == part]
        names = [place.parts[parted] for place in places]
        if unknown := sorted({*names} - label_of.keys()):
            raise DataError(
                f"{root}: {part} has the class {unknown[0]!r} that train lacks. "
                f"(train has {', '.join(classes)})"
            )
        pixels = decode_images([files[place] for place in places], size, mode)
        labels = np.array([label_of[name] for name in names])
        return made_from(root, ImageSet, pixels, labels, classes, [str(place) for place in places])

    if not parted:
        return read(""), None, None
    has_val = any(place.parts[0] == "val" for place in found)
    return read("train"), read("test"), read("val") if has_val else None


def _find_images(root: Path) -> tuple[list[PurePosixPath], bool]:
    """All images below ``root``, and whether they are in train, test and val."""
    found = _list_images(root)
    if not found:
        raise DataError(
            f"There are no images in {root}. (known: {', '.join(sorted(SUFFIXES))}) Put "
            "them into one folder per class."
        )
    tops = {place.parts[0] for place in found}
    parted = "train" in tops
    if parted and ("test" not in tops or tops - set(PARTS)):
        raise DataError(
            f"{root} should hold train, test and possibly val. (got {', '.join(sorted(tops))})"
        )
    for place in found:
        if len(place.parts) < 2 + parted:
            raise DataError(f"{root}: {place} should be in the folder of its class.")
    return found, parted


def _list_images(root: Path) -> list[PurePosixPath]:
    """The images of a folder, sorted; what is named like one and cannot be read is refused."""
    if not root.is_dir():
        raise DataError(f"{root} should be a folder of images; unpack archives. (got no folder)")
    names, lost = [], []
    with storage_errors(f"list {root}"):
        for folder, folders, inside in os.walk(root, onerror=_raise):
            lost += [path for name in folders if (path := Path(folder, name)).is_symlink()]
            for path in (Path(folder, name) for name in inside):
                place = path.relative_to(root)
                hidden = any(part.startswith((".", "__MACOSX")) for part in place.parts)
                if place.suffix.lower() in SUFFIXES and not hidden:
                    names.append(place.as_posix())
                    lost += [] if path.is_file() else [path]
    if lost:
        raise DataError(
            f"{root} should hold regular files, or links to them. (got {min(lost)}, "
            f"{kind_of(min(lost))}, and {len(lost) - 1} more such) Put the files there, or remove "
            "what stands for them."
        )
    return [PurePosixPath(name) for name in sorted(names)]


def _raise(error: OSError) -> None:
    raise error


# Image files may be damaged, or made to do damage.


def common_format(files: Iterable[ImageFile]) -> tuple[tuple[int, int], str]:
    """(Height, width) of the first image, and the mode for all: RGB unless they are grey."""
    heads = [((image.height, image.width), image.mode) for image in map(_open, files)]
    return heads[0][0], "L" if all(mode in GREY for _, mode in heads) else "RGB"


def _open(file: ImageFile) -> Image.Image:
    source, content = file
    try:
        data = content if isinstance(content, bytes) else content.read_bytes()
        with warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            return Image.open(io.BytesIO(data), formats=FORMATS)
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise DataError(
            f"{source} would unpack to more pixels than is safe: {error} "
            "Scale it down or remove it."
        ) from error
    except Exception as error:
        raise _broken(file, error) from error


def decode_images(
    files: Sequence[ImageFile], size: tuple[int, int], mode: str
) -> npt.NDArray[np.uint8]:
    """Pixels [N, C, H, W] in ``mode`` L or RGB, resized to ``size`` (height, width)."""
    pixels = np.empty((len(files), 1 if mode == "L" else 3, *size), np.uint8)
    for row, file in zip(pixels, files, strict=True):
        image = _open(file)
        try:
            if image.mode.startswith("I"):  # 16 bits per pixel; Pillow would clip, not scale
                image = Image.fromarray((np.asarray(image).astype(np.int64) >> 8).astype(np.uint8))
            if "transparency" in image.info:
                image = image.convert("RGBA")
            image = image.convert(mode)
            if (image.height, image.width) != size:
                image = image.resize((size[1], size[0]), Image.Resampling.BILINEAR)
            values = np.asarray(image)
            row[:] = values if mode == "L" else values.transpose(2, 0, 1)
        except Exception as error:  # Pillow's decoders fail in many ways on damaged data
            raise _broken(file, error) from error
    return pixels


def _broken(file: ImageFile, error: Exception) -> DataError:
    return DataError(f"{file[0]} is not a readable image: {error}. Repair or remove it.")
