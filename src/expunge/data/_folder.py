"""Image folders: one subfolder a class, under ``train`` and ``test`` or not, packed or not."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import numpy as np

from expunge._errors import DataError, InvalidInput
from expunge.data._archive import Read, list_files
from expunge.data._image_file import GREY, SUFFIXES, decode, read_header
from expunge.data._images import ImageSet, image_set_from
from expunge.data._splits import split_stratified

PARTS = ("train", "test", "val")

Size = int | tuple[int, int]


def load_folder(root: Path, size: Size | None = None) -> tuple[ImageSet, ImageSet]:
    """(train, test) from ``root/train/<class>/*`` and ``root/test/<class>/*``.

    ``root`` may also be a zip or tar (gz, bz2, xz) of such a folder. Without the train/test level
    (``root/<class>/*``), a fixed 20 % of every class becomes test. Classes are the subfolders of
    train in alphabetical order, names the relative paths.

    Images are resized to ``size``, one side or (height, width), by default the size of the first
    of train; they are RGB unless all of them are grey.
    """
    tree = _Tree.of(root, size)
    if not tree.parted:
        full = tree.read("")
        rest, held = split_stratified(full.labels, fraction=0.2)
        return full.subset(rest), full.subset(held)
    return tree.read("train"), tree.read("test")


def load_folder_val(root: Path, size: Size | None = None) -> ImageSet | None:
    """The images under ``root/val``, prepared as by :func:`load_folder`, or None without any."""
    if not list_files(root, lambda place: _is_image(place) and "val" in place.parts[:2]):
        return None  # known without opening an image
    tree = _Tree.of(root, size)
    return tree.read("val") if tree.parted else None


@dataclass(frozen=True)
class _Tree:
    """What an image folder holds, before a pixel is decoded."""

    root: Path
    files: dict[PurePosixPath, Read]
    parted: bool
    classes: tuple[str, ...]
    size: tuple[int, int]
    mode: str

    @classmethod
    def of(cls, root: Path, size: Size | None) -> _Tree:
        listed = list_files(root, _is_image)
        files = _unwrap({PurePosixPath(name): read for name, read in listed.items()})
        if not files:
            raise DataError(
                f"There are no images in {root}. (known: {', '.join(sorted(SUFFIXES))})"
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
        train = [place for place in files if not parted or place.parts[0] == "train"]
        classes = tuple(sorted({place.parts[parted] for place in train}))
        heads = {place: read_header(f"{root}: {place}", read) for place, read in files.items()}
        grey = all(mode in GREY for mode, _ in heads.values())
        shape = _as_size(size) or heads[train[0]][1]
        return cls(root, files, parted, classes, shape, "L" if grey else "RGB")

    def read(self, part: str) -> ImageSet:
        places = [p for p in self.files if not part or p.parts[0] == part]
        unknown = sorted({p.parts[self.parted] for p in places} - set(self.classes))
        if unknown:
            raise DataError(
                f"{self.root}: {part} has the class {unknown[0]!r} that train lacks. "
                f"(train has {', '.join(self.classes)})"
            )
        index = {name: label for label, name in enumerate(self.classes)}
        labels = [index[p.parts[self.parted]] for p in places]
        channels = 1 if self.mode == "L" else 3
        pixels = np.empty((len(places), channels, *self.size), np.uint8)
        for row, place in zip(pixels, places, strict=True):
            source = f"{self.root}: {place}"
            row[:] = decode(source, self.files[place], self.size, self.mode)
        names = [str(place) for place in places]
        return image_set_from(self.root, pixels, np.array(labels), self.classes, names)


def _is_image(place: PurePosixPath) -> bool:
    hidden = any(part.startswith((".", "__MACOSX")) for part in place.parts)
    return place.suffix.lower() in SUFFIXES and not hidden


def _unwrap(files: dict[PurePosixPath, Read]) -> dict[PurePosixPath, Read]:
    """Without the one folder that archives like to put around everything."""
    tops = {place.parts[0] for place in files}
    deep = all(len(place.parts) > 2 for place in files)
    if len(tops) != 1 or not deep or tops & set(PARTS):
        return files
    return {PurePosixPath(*place.parts[1:]): read for place, read in files.items()}


def _as_size(size: Size | None) -> tuple[int, int] | None:
    if size is None:
        return None
    height, width = (size, size) if isinstance(size, int) else size
    if height < 1 or width < 1:
        raise InvalidInput(f"`size` should be 1 pixel or more. (got {size})")
    return height, width
