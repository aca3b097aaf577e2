"""CIFAR-10 from its official archives."""

from __future__ import annotations

from pathlib import Path

from expunge.data._cifar import CifarLayout, load_cifar
from expunge.data._images import ImageSet

CLASSES = (
    "airplane",
    "automobile",
    "bird",
    "cat",
    "deer",
    "dog",
    "frog",
    "horse",
    "ship",
    "truck",
)
RECORDS = 10_000  # in every official batch
TRAIN = tuple(f"data_batch_{number}" for number in range(1, 6))
TEST = ("test_batch",)


def load_cifar10(root: Path | None = None) -> tuple[ImageSet, ImageSet]:
    """(train, test): 50,000 and 10,000 images of 3 x 32 x 32.

    ``root`` is one of the official archives, the folder in it, or a folder holding any of those.
    Without a root the cache is searched, and the binary archive is downloaded into it if needed.
    Images of the python version have names, those of the binary version do not.
    """
    layout = CifarLayout(
        title="CIFAR-10",
        classes=CLASSES,
        train=dict.fromkeys(TRAIN, RECORDS),
        test=dict.fromkeys(TEST, RECORDS),
        label_bytes=1,
        labels_key="labels",
        folders=("cifar-10-batches-bin", "cifar-10-batches-py"),
        archives=("cifar-10-binary.tar.gz", "cifar-10-python.tar.gz"),
        md5="c32a1d4ab5d03f1284b67883e8d87530",
    )
    return load_cifar(layout, root)
