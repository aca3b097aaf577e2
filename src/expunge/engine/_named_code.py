"""What a file would have imported: the model and the data that a card or a job names.

Such a file may be somebody else's, so it never causes an import, a call or a download. Built-in
models and data that are read as files need none of these; everything else has to be named by the
user, on the command line or in a call.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from expunge._factory import is_factory
from expunge._specs import split_spec
from expunge.data import DATASETS

LIBRARIES = {"hf": "transformers", "causal": "transformers"}
"""Libraries that build a model, by what the model's name begins with."""
OTHER_COMPUTERS = ("//", "\\\\")
"""How paths to files of another computer begin on some systems."""
IMPORTING = "hf"
"""The built-in format that another library reads, which may download the data."""


def code_of_model(spec: str, options: Mapping[str, Any] | None = None) -> str:
    """What building a model would import and call, in words; empty for a built-in model.

    >>> code_of_model("vgg16,width=0.25")
    ''
    >>> code_of_model("os:system", {"command": "ls"})
    "the model os:system(command='ls')"
    """
    name, given = split_spec(spec)
    if ":" not in name:  # built in, or refused: models have no plug-ins
        return ""
    if library := LIBRARIES.get(name.partition(":")[0]):
        return f"the library {library} for the model {spec}"
    arguments = (f"{key}={value!r}" for key, value in (given | dict(options or {})).items())
    return f"the model {name}({', '.join(arguments)})"


def code_of_data(spec: str) -> str:
    """What loading data would import, call or reach over the network; empty for data in files.

    >>> code_of_data("npz:/data/photos.npz")
    ''
    >>> code_of_data("shop.data:load")
    'the data shop.data:load()'
    """
    kind, _, place = spec.partition(":")
    if not spec:
        return ""
    if kind not in DATASETS.built_in:
        if kind in DATASETS:
            return f"the plug-in of {DATASETS.origin(kind)} for the data {spec}"
        if is_factory(spec):
            return f"the data {spec}()"
        return f"whatever reads the data {spec}, whose format is not named"
    if kind == IMPORTING:
        return f"the library datasets for the data {spec}"
    if place.startswith(OTHER_COMPUTERS):
        return f"a file of another computer for the data {spec}"
    return ""
