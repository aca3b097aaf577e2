"""CIFAR-100 from its official archives, with its 100 fine labels."""

from __future__ import annotations

from pathlib import Path

from expunge.data._cifar import CifarLayout, load_cifar
from expunge.data._images import ImageSet

FINE_LABELS = """
apple aquarium_fish baby bear beaver bed bee beetle bicycle bottle bowl boy bridge bus butterfly
camel can castle caterpillar cattle chair chimpanzee clock cloud cockroach couch crab crocodile
cup dinosaur dolphin elephant flatfish forest fox girl hamster house kangaroo keyboard lamp
lawn_mower leopard lion lizard lobster man maple_tree motorcycle mountain mouse mushroom
oak_tree orange orchid otter palm_tree pear pickup_truck pine_tree plain plate poppy porcupine
possum rabbit raccoon ray road rocket rose sea seal shark shrew skunk skyscraper snail snake
spider squirrel streetcar sunflower sweet_pepper table tank telephone television tiger tractor
train trout tulip turtle wardrobe whale willow_tree wolf woman worm
"""
CLASSES = tuple(FINE_LABELS.split())
TRAIN_RECORDS, TEST_RECORDS = 50_000, 10_000


def load_cifar100(root: Path | None = None) -> tuple[ImageSet, ImageSet]:
    """(train, test): 50,000 and 10,000 images of 3 x 32 x 32, 500 and 100 of every class.

    ``root`` is as for CIFAR-10. A record of the binary version has two labels, coarse and fine; the
    20 coarse ones are left out.
    """
    layout = CifarLayout(
        title="CIFAR-100",
        classes=CLASSES,
        train={"train": TRAIN_RECORDS},
        test={"test": TEST_RECORDS},
        label_bytes=2,
        labels_key="fine_labels",
        folders=("cifar-100-binary", "cifar-100-python"),
        archives=("cifar-100-binary.tar.gz", "cifar-100-python.tar.gz"),
        md5="03b5dce01913d631647c71ecec9e9cb8",
    )
    return load_cifar(layout, root)
