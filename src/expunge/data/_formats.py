"""The dataset formats by name, and one call that loads any of them."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from expunge._errors import DataError, InvalidInput
from expunge._factory import has_module, is_factory
from expunge._files import is_there
from expunge._kinds import Count, Range, check_arguments
from expunge._lazy import deferred
from expunge._options import Option
from expunge._registry import Registry
from expunge._specs import join_spec, split_spec, suggestion

if TYPE_CHECKING:
    from expunge.data._examples import Examples
    from expunge.data._splits import Splits


@dataclass(frozen=True)
class Format:
    """One dataset format.

    ``description`` says what it is; further paragraphs of it begin with "Use it" and "Reference:".
    ``load`` takes a path (or None), and the ``options`` that were given by name. It gives
    (train, test) or (train, test, val), with None for a test or validation part that the files do
    not define. ``flip``: a mirror image keeps its label.
    ``suffixes`` are the endings of files that need not be introduced by the format's name.
    """

    name: str
    description: str
    load: Callable[..., tuple[Examples | None, ...]]
    flip: bool
    needs_path: bool = False
    options: tuple[Option, ...] = ()
    suffixes: tuple[str, ...] = ()
    takes_names: bool = False
    """Whether a name that is not a path may stand in place of the path."""
    names_test: str = "its function should return it"
    """What to do so that the files define a test part."""
    texts: bool = False
    """Whether it holds texts for language models, which ``load`` refuses."""


MAX_TOKENS = 1 << 20
"""Token ids at most, four times those of the largest tokenizers: a model has a row for each."""
SCALING_OPTIONS = (
    Option(
        "mean",
        str,
        None,
        "Of each channel of images in [0, 1], joined by +, to subtract.",
        example="0.49+0.48+0.45",
    ),
    Option(
        "std",
        str,
        None,
        "Of each channel, joined by +, to divide by: for models of yours.",
        example="0.25+0.24+0.26",
    ),
)
TABLE_OPTIONS = (
    Option("label", str, None, "Column to predict (default: label, target, class or y)."),
    Option("id", str, None, "Column that names rows; rows may share a name (default: id)."),
    Option("split", str, None, "Column of train, val and test (default: split)."),
    Option("text", str, None, "Column of text, or several joined by +: the inputs."),
    Option("tokens", str, None, "Column of token ids: the inputs."),
    Option("image", str, None, "Column of image files: the inputs."),
    Option("ignore", str, None, "Columns to leave out, joined by +."),
    Option("categories", str, None, "Columns of numbers that are categories, joined by +."),
    Option("task", Literal["classification", "regression"], "classification", "What the label is."),
    Option("length", Count, 256, "Tokens kept of a text."),
    Option(
        "vocabulary",
        Annotated[int, Range(2, MAX_TOKENS, "[]")],
        None,
        "Number of token ids (default: 16384 for text).",
    ),
    *SCALING_OPTIONS,
)
ARRAY_OPTIONS = (
    Option("kind", Literal["images", "vectors", "tokens"], None, "What the inputs are."),
    *(each for each in TABLE_OPTIONS if each.name in ("task", "vocabulary", "mean", "std")),
)


_ADD_SPLIT = "add a column `split` that says train, val or test of each row"


def _adopt_format(name: str, part: Any) -> Format:
    """A plug-in's format, if it is one that calls itself by the name of its entry point."""
    if not isinstance(part, Format):
        raise TypeError(f"it should be a Format. (got {part!r})")
    if part.name != name:
        raise TypeError(f"the name of its Format should be {name!r}. (got {part.name!r})")
    return part


DATASETS: Registry[Format] = Registry("dataset", plugins="expunge.data", adopt=_adopt_format)
for _format in (
    Format(
        "digits",
        "1,797 handwritten digits of 8 x 8, built in\n\n"
        "Use it for a first look: nothing is downloaded.\n\n"
        "Reference: E. Alpaydin, C. Kaynak, *Optical Recognition of Handwritten Digits*, UCI 1998, "
        "as scikit-learn has them.",
        deferred("expunge.data._image_datasets:load_digits"),
        flip=False,
    ),
    Format(
        "cifar10",
        "CIFAR-10 from its official binary files\n\n"
        "Use it to compare with publications: 60,000 images of 32 x 32, ten classes.\n\n"
        "Reference: A. Krizhevsky, *Learning Multiple Layers of Features from Tiny Images*, 2009.",
        deferred("expunge.data._image_datasets:load_cifar10"),
        flip=True,
    ),
    Format(
        "cifar100",
        "CIFAR-100 from its official binary files, 100 fine labels\n\n"
        "Use it where classes should be small: 500 training images each.\n\n"
        "Reference: A. Krizhevsky, *Learning Multiple Layers of Features from Tiny Images*, 2009.",
        deferred("expunge.data._image_datasets:load_cifar100"),
        flip=True,
    ),
    Format(
        "svhn",
        "SVHN, cropped digits, from its official .mat files\n\n"
        "Use it to compare with publications: 73,257 training images, classes of unequal size.\n\n"
        "Reference: Y. Netzer et al., *Reading Digits in Natural Images with Unsupervised Feature "
        "Learning*, 2011.",
        deferred("expunge.data._image_datasets:load_svhn"),
        flip=False,
    ),
    Format(
        "folder",
        "images in one folder per class\n\nUse it for image files of your own.",
        deferred("expunge.data._folder:load_folder"),
        flip=True,
        needs_path=True,
        names_test="put the images into train/CLASS and test/CLASS",
        options=SCALING_OPTIONS,
    ),
    Format(
        "npz",
        "arrays x_train, y_train, x_test, y_test (or x, y) in an .npz file\n\n"
        "Use it for anything that is in memory as arrays; `numpy.savez` writes it.",
        deferred("expunge.data._npz:load_npz"),
        flip=True,
        needs_path=True,
        names_test="save arrays x_train, y_train, x_test and y_test",
        options=ARRAY_OPTIONS,
        suffixes=(".npz",),
    ),
    Format(
        "csv",
        "a table in a CSV or TSV file: numbers, categories, text, token ids or image files\n\n"
        "Use it for tables, and for lists of image files with their labels and splits.",
        deferred("expunge.data._table_files:load_csv"),
        flip=True,
        needs_path=True,
        names_test=_ADD_SPLIT,
        options=TABLE_OPTIONS,
        suffixes=(".csv", ".tsv"),
    ),
    Format(
        "parquet",
        "a table in a Parquet file, as csv (extra: parquet)\n\n"
        "Use it for large tables, and for lists of token ids.",
        deferred("expunge.data._table_files:load_parquet"),
        flip=True,
        needs_path=True,
        names_test=_ADD_SPLIT,
        options=TABLE_OPTIONS,
        suffixes=(".parquet",),
    ),
    Format(
        "hf",
        "a dataset of the Hugging Face library, saved to disk or by name, as csv (extra: hf)\n\n"
        "Use it for data that the `datasets` library has prepared.",
        deferred("expunge.data._table_files:load_hf"),
        flip=True,
        needs_path=True,
        names_test="save a DatasetDict with train and test, or " + _ADD_SPLIT,
        options=TABLE_OPTIONS,
        takes_names=True,
    ),
    Format(
        "qa",
        "questions and answers in the format of TOFU, for `forget` from language models\n\n"
        "Use it for a deletion request of a language model.\n\n"
        "Reference: P. Maini et al., *TOFU: A Task of Fictitious Unlearning for LLMs*, COLM 2024.",
        deferred("expunge.data.text._records:refuse_as_images"),
        flip=False,
        needs_path=True,
        texts=True,
    ),
    *(
        Format(
            name,
            f"the files of {name.upper()}, as they are downloaded, for language models\n\n"
            "Use it to compare with publications: `expunge evaluate`, and `forget`.\n\n"
            f"Reference: {reference}.",
            deferred("expunge.data.text._records:refuse_as_images"),
            flip=False,
            needs_path=True,
            options=(
                Option("split", Literal[parts], None, f"What to take (default: {parts[0]})."),
            ),
            texts=True,
        )
        for name, parts, reference in (
            ("tofu", ("forget10", "forget05", "forget01"), "P. Maini et al., *TOFU*, COLM 2024"),
            ("muse", ("knowmem", "verbmem", "privleak"), "W. Shi et al., *MUSE*, ICLR 2025"),
            ("wmdp", ("bio", "cyber", "chem"), "N. Li et al., *The WMDP Benchmark*, ICML 2024"),
        )
    ),
):
    DATASETS.add(_format.name, _format)


@dataclass(frozen=True)
class DataSource:
    """A dataset that was named: its format, its path and its options; ``str`` names it again."""

    format: Format
    path: Path | None = None
    options: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        base = self.format.name if self.path is None else f"{self.format.name}:{self.path}"
        return join_spec(base, self.options)

    def load(self) -> tuple[Examples, Examples | None, Examples | None]:
        """Train, and the test and validation parts that the files define, if any."""
        from expunge.data._examples import scaled

        others = dict(self.options)
        scaling = {k: others.pop(k) for k in ("mean", "std") if k in others}
        train, test, *rest = (
            part if part is None or not scaling else scaled(part, **scaling)
            for part in self.format.load(self.path, **others)
        )
        assert train is not None
        return train, test, rest[0] if rest else None


def load(
    spec: str,
    root: str | Path | None = None,
    *,
    seed: int = 0,
    val_fraction: float = 0.1,
    limit: int | None = None,
    val_from: Literal["train", "test"] = "train",
) -> Splits:
    """Load a dataset and hold out its validation part.

    Args:
        spec: A name of :data:`DATASETS`, a name with a path and options (``cifar10:/data``,
            ``csv:people.csv,label=income``), the path of an image folder, or of a
            file whose ending says what it is; or ``package.module:factory``, a function that
            returns (train, test) or (train, val, test).
        root: The path, if not in ``spec``. cifar10, cifar100 and svhn without one use the download
            cache.
        seed: Decides which examples are held out, and which ``limit`` keeps.
        val_fraction: The part of the training examples that becomes val, exactly
            ``round(val_fraction * N)``; ignored if the files define a validation part.
        val_from: Where val is taken from. ``test`` leaves the training examples, and so their
            indices, as they are: for models that were trained on all of them. The data then have
            to define a test part; for ``train``, a fixed 20 % of every class takes its place.
        limit: Keep only this many of the remaining training examples, evenly over the classes.

    >>> splits = load("digits", limit=100)
    >>> len(splits.train), len(splits.val), len(splits.test), splits.flip
    (100, 135, 450, False)
    """
    source = find_data(spec, root)
    check_arguments(load, locals())

    from expunge.data._encoding import encode_splits
    from expunge.data._splits import Splits, draw_val, hold_out, split_off, thin_out
    from expunge.data._table import Rows

    train, test, val = source.load()
    if test is None and val_from == "test":
        raise DataError(
            f"{spec} does not say which {train.noun}s the model never saw. Drawn at random, they "
            "would be some that it was trained on, and the results wrong. To say it, "
            f"{source.format.names_test}."
        )
    if test is None:
        rest, held = split_off(train)
        train, test = train.subset(rest), train.subset(held)
    for part, examples in (("train", train), ("test", test)):
        if not len(examples):
            raise DataError(f"The {part} part of {spec} should hold {examples.noun}s. (got none)")
    if val is None and val_from == "test" and val_fraction > 0:
        rest, held = draw_val(test, round(val_fraction * len(train)), seed)
        test, val = test.subset(rest), test.subset(held)
    elif val is None:
        train, val = hold_out(train, val_fraction, seed)
    if limit is not None:
        train = thin_out(train, limit, seed)
    # Only now is it settled which rows of a table are trained on, and may be learnt from.
    encoding = None
    if isinstance(train, Rows) and isinstance(val, Rows) and isinstance(test, Rows):
        train, val, test, encoding = encode_splits(train, val, test)
    for part, examples in (("test", test), ("val", val)):
        if examples.input_shape != train.input_shape:
            raise DataError(
                f"The {part} part of {spec} should hold inputs like those of train. (got "
                f"{examples!r}, and {train!r} in train)"
            )
    is_scaled = not {"mean", "std"}.isdisjoint(source.options)
    flip = source.format.flip and (train.kind == "images" or is_scaled)
    return Splits(source.format.name, train, val, test, flip, encoding)


def find_data(spec: str, root: str | Path | None = None) -> DataSource:
    """What :func:`load` would load; its arguments are checked, nothing is read."""
    check_arguments(find_data, locals())
    if is_data_factory(spec):
        if not has_module(spec):
            raise _unknown_format(spec.partition(":")[0])
        return DataSource(_factory_format(spec))
    name, _, inline = spec.partition(":")
    if name not in DATASETS and (looks_like_path(spec) or is_there(Path(spec).expanduser())):
        name, inline = _format_of(spec), spec
    if name not in DATASETS:
        raise _unknown_format(name)
    kind = DATASETS[name]
    named = {option.name: option for option in kind.options}
    inline, given = split_spec(inline)
    if unknown := next((key for key in given if key not in named), None):
        raise InvalidInput(f"Unknown option {unknown!r}. {suggestion(unknown, named)}")
    options = {key: named[key].read(text) for key, text in given.items()}
    if inline and root is not None:
        raise InvalidInput(f"The path should be given once. (got {inline} and {root})")
    place = inline or root
    if kind.needs_path and not place:
        raise InvalidInput(
            f"The dataset {kind.name!r} should come with a path, like {kind.name}:/data/mine."
        )
    path = Path(place).expanduser() if place else None
    if path is not None and not kind.takes_names and not is_there(path):
        raise DataError(f"There is no file or folder {path}. Check the path.")
    return DataSource(kind, path, options)


def is_data_factory(spec: str) -> bool:
    """Whether ``spec`` has the form ``package.module:factory`` and is not a dataset with a path."""
    return is_factory(spec) and spec.partition(":")[0] not in DATASETS


def _factory_format(spec: str) -> Format:
    def load_from_factory(_: Path | None) -> tuple[Examples | None, ...]:
        from expunge._factory import call_factory, importable_from_here
        from expunge.data._read_dataset import read_splits

        with importable_from_here():  # a dataset may import more when it is read
            splits = read_splits(call_factory(spec, "data"), f"The data factory {spec}")
        return splits["train"], splits["test"], splits.get("val")

    return Format(spec, "a function of yours", load_from_factory, flip=False)


def _unknown_format(name: str) -> InvalidInput:
    """An error that names the formats there are, and other ways to say where data are."""
    near = difflib.get_close_matches(name.lower(), DATASETS, n=1, cutoff=0.5)
    hint = f"Did you mean {near[0]!r}? " if near else ""
    return InvalidInput(
        f"Unknown dataset {name!r}. {hint}Known: {', '.join(DATASETS)}; or the path of a folder or "
        f"file; or package.module:factory (no module {name!r} is installed or in {Path.cwd()})."
    )


def _format_of(spec: str) -> str:
    """The format of a path by itself, from its ending."""
    path = split_spec(spec)[0].lower()
    return next((name for name in DATASETS if path.endswith(DATASETS[name].suffixes)), "folder")


def looks_like_path(spec: str) -> bool:
    """Whether ``spec`` looks like a path by itself, whether or not there is anything."""
    return "/" in spec.partition(":")[0] or _format_of(spec) != "folder"
