"""A trained model and its data, loaded and checked against each other."""

from __future__ import annotations

import copy
import functools
import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from expunge import _tensors as tensors
from expunge._errors import DataError, InvalidInput
from expunge._files import check_weights_file
from expunge._kinds import check_arguments
from expunge._specs import join_spec
from expunge.data import Examples, Splits, TextSet
from expunge.engine import (
    Card,
    PredictionCache,
    build_from_config,
    check_model_fits,
    check_named_model,
    copy_model,
    device_of,
    load_checked_weights,
    pick_device,
    read_weights,
    without_prefix,
)
from expunge.methods import apply
from expunge.models import (
    MODELS,
    Normalise,
    build_external,
    build_model,
    channel_statistics,
    is_external,
    read_model_spec,
)
from expunge.request._job import InputForm, Job, is_text_job
from expunge.request.loading._splits import gather_data, load_data

IN_WORDS: dict[InputForm, str] = {
    "bytes": "as floats from 0 to 255",
    "fractions": "as fractions in [0, 1]",
    "standardised": "standardised, every channel to mean 0 and deviation 1",
}


@dataclass(frozen=True, eq=False)
class ModelAndData:
    """A trained model in eval mode, its data in memory, and where both came from.

    ``classes`` names every output of the model. ``weights_digest`` is the SHA-256 of the
    model's weights and buffers, ``data_digest`` that of the fingerprints of train, val and test.
    ``build`` makes a fresh model of the same architecture. ``inputs`` says how the model gets
    images, None if it gets them as they are. ``notes`` are for the reader of the preflight.
    ``cache`` has what models predicted on these data, once for all stages of a request.
    """

    model: nn.Module
    train: Examples
    val: Examples
    test: Examples
    classes: tuple[str, ...]
    weights_digest: str
    data_digest: str
    build: Callable[[], nn.Module]
    card: Card | None = None
    flip: bool = False
    input_form: InputForm | None = None
    notes: tuple[str, ...] = ()
    cache: PredictionCache = field(default_factory=PredictionCache, repr=False)

    @classmethod
    def of(
        cls,
        model: nn.Module,
        train: Examples,
        val: Examples,
        test: Examples,
        build: Callable[[], nn.Module],
        notes: tuple[str, ...],
    ) -> ModelAndData:
        """A model and its data as they were loaded, with their digests."""
        prints = "/".join(part.fingerprint() for part in (train, val, test))
        weights_digest = tensors.state_digest(model.state_dict())
        data_digest = hashlib.sha256(prints.encode()).hexdigest()
        digests = weights_digest, data_digest
        return cls(model, train, val, test, train.classes, *digests, build, notes=notes)

    @property
    def sizes(self) -> dict[str, int]:
        """The number of training records, and of those in val and test."""
        return {"records": len(self.train), "val": len(self.val), "test": len(self.test)}

    def leaving_out(self, records: Mapping[str, Sequence[int]]) -> ModelAndData:
        """The same without these records of val and test: nothing is compared with them.

        ``data_digest`` remains that of the whole data.
        """
        parts: dict[str, Any] = {}
        for split, indices in records.items():
            data: Examples = getattr(self, split)
            left = sorted({*range(len(data))} - {*indices})
            if not left:
                raise DataError(
                    f"All records of {split} belong to these ids or to those of earlier requests, "
                    "so there are none to compare with. Give another val or test split."
                )
            if indices:
                parts[split] = data.subset(left)
        return replace(self, **parts) if parts else self

    def with_weights(self, path: Path) -> ModelAndData:
        """The same model and data with the weights in another file."""
        state, _ = read_weights(path)
        model = self.build()
        load_checked_weights(model, without_prefix(state, model), str(path))
        model = model.to(device_of(self.model)).eval()
        return replace(self, model=model, weights_digest=tensors.state_digest(model.state_dict()))

    def with_inputs(self, form: InputForm) -> ModelAndData:
        """The same model and data, whose model gets images in another form."""
        if self.input_form in (None, form):
            return self
        hook = InputHook(form, self.train.inputs)
        build = functools.partial(build_hooked, self.build, hook)
        model = add_hook(copy.deepcopy(self.model), hook)
        notes = (f"The model gets the images {IN_WORDS[form]}.",)
        return replace(self, model=model, build=build, input_form=form, notes=notes)


def load_model_and_data(job: Job) -> ModelAndData:
    """Load the model, weights and data of a job, and check them against each other."""
    check_weights_file(job.weights)
    if is_text_job(job):
        from expunge.request.loading._texts import load_model_and_texts

        return load_model_and_texts(job)
    state, card = read_weights(job.weights)
    if card is not None:
        _check_against_card(job, card)
    data = load_data(job, card)
    _check_has_classes(data.train)
    build = _model_builder(job, card, data)
    model = build()
    load_checked_weights(model, without_prefix(state, model), str(job.weights))
    return _assemble(model, data, build, card, job)


def model_and_data_of(model: nn.Module, data: Any, job: Job) -> ModelAndData:
    """A model and its data from Python: a model, and (train, test) or (train, val, test)."""
    check_arguments(model_and_data_of, locals())
    if are_texts(data):
        from expunge.request.loading._texts import model_and_texts_of

        return model_and_texts_of(model, data, job)
    model = copy_model(model)
    build = functools.partial(copy.deepcopy, copy.deepcopy(model))
    gathered = gather_data(data, job)
    _check_has_classes(gathered.train)
    return _assemble(model, gathered, build, None, job)


def _check_has_classes(train: Examples) -> None:
    if train.is_regression:
        raise InvalidInput(
            "Requests are for classifiers: their tests compare the outputs on classes, and a "
            "regression has none. Take `expunge unlearn` with a method that needs a loss alone, "
            "such as neg-grad-plus, and `expunge evaluate`."
        )


def are_texts(data: Any) -> bool:
    """Whether data in memory are texts: the first of their splits is."""
    first = next(iter(data.values()), None) if isinstance(data, Mapping) else data
    first = data[0] if isinstance(data, tuple | list) and data else first
    return isinstance(first, TextSet)


def _assemble(
    model: nn.Module,
    data: Splits,
    build: Callable[[], nn.Module],
    card: Card | None,
    job: Job,
) -> ModelAndData:
    model = model.to(pick_device(job.device, model)).eval()
    form = choose_form(model, data.train, job.inputs)
    if form is not None:
        hook = InputHook(form, data.train.inputs)
        add_hook(model, hook)
        build = functools.partial(build_hooked, build, hook)
    # Name every output, also those for which the data have no class.
    outputs = _count_outputs(model, data)
    classes = data.train.classes
    classes += tuple(str(number) for number in range(len(classes), outputs))
    notes = () if form is None else (f"The model gets the images {IN_WORDS[form]}.",)
    loaded = ModelAndData.of(model, data.train, data.val, data.test, build, notes)
    return replace(loaded, classes=classes, card=card, flip=data.flip, input_form=form)


def _model_builder(job: Job, card: Card | None, data: Splits) -> Callable[[], nn.Module]:
    """A function that makes a fresh model: as the card says, from a factory, or by name."""
    if card is not None:
        return functools.partial(build_from_config, card.model.model_dump())
    if not job.model:
        raise InvalidInput(
            f"`model` should be given: {job.weights} has no card that says how to build it. Name a "
            f"built-in model ({', '.join(MODELS)}), hf:PATH or package.module:factory."
        )
    name, options = read_model_spec(job.model)
    options = options | job.model_options
    if is_external(name):
        return functools.partial(build_external, name, options)
    check_model_fits(name, data.train)
    sizes = {"num_classes": data.train.num_classes, "in_channels": data.in_channels}
    return functools.partial(build_model, **({"name": name} | sizes | options))


def _check_against_card(job: Job, card: Card) -> None:
    """Check that a model named beside an artifact is the one in the artifact."""
    named = job.model and join_spec(job.model, job.model_options)
    check_named_model(job.weights, card, named)
    from_card = card.model.model_dump() | card.model.options
    for name, value in job.model_options.items():
        if from_card.get(name) != value:
            raise InvalidInput(
                f"{job.weights} holds a {from_card['name']} with {name} {from_card.get(name)}, as "
                f"its card says. (got {value!r}) Leave `model_options` out."
            )


def _count_outputs(model: nn.Module, data: Splits) -> int:
    """Number of classes that the model distinguishes, from a few examples; checks the labels."""
    inputs = data.train.inputs[:8]
    try:
        with torch.inference_mode():
            logits = apply(model, inputs.to(device_of(model)))
    except Exception as failure:  # the model is the user's: anything can happen
        remedy = ""
        if data.encoding is not None and data.train.kind == "vectors":
            numbers = sum(column["as"] == "number" for column in data.encoding.rule)
            remedy = (
                f" expunge makes {numbers} numbers, not standardised, and "
                f"{data.encoding.size - numbers} one-hot columns of this table, one per category "
                "for 'other'. If the model was trained on columns prepared in another way, prepare "
                'them so in a function: `data = "module:function"` (docs/data.md).'
            )
        raise InvalidInput(
            f"The model cannot take the data, {inputs.dtype} of shape {list(inputs.shape[1:])}: "
            f"{failure}{remedy}"
        ) from failure
    if not isinstance(logits, Tensor) or logits.ndim != 2 or len(logits) != len(inputs):
        got = list(logits.shape) if isinstance(logits, Tensor) else type(logits).__name__
        raise InvalidInput(
            f"The model should return logits [N, K] for N examples. (got {got} for {len(inputs)})"
        )
    if not torch.isfinite(logits).all():
        raise InvalidInput(
            "The model returns NaN or infinity on its training data. Its weights are damaged, or "
            "the inputs are scaled wrongly."
        )
    outputs = int(logits.shape[1])
    for name, split in data.by_name().items():
        largest = int(split.labels.max())
        if largest >= outputs:
            raise DataError(
                f"Labels should be in 0..{outputs - 1}: the model has {outputs} outputs. (got "
                f"{largest} in {name}) The model is for another number of classes."
            )
    return outputs


# How a model that is not built in gets images: as fractions, as bytes, or standardised.


class InputHook:
    """Converts images for a model, whether they come as bytes or in [0, 1].

    ``images`` are those that the model was trained on.
    """

    def __init__(self, form: InputForm, images: Tensor) -> None:
        self.form = form
        mean, std = channel_statistics(images) if form == "standardised" else ([0.0], [1.0])
        self.mean, self.std = (torch.tensor(each).view(1, -1, 1, 1) for each in (mean, std))

    def __call__(self, _: nn.Module, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(self._convert(x) if isinstance(x, Tensor) else x for x in inputs)

    def _convert(self, x: Tensor) -> Tensor:
        if self.form == "bytes":
            return x.float() if x.dtype == torch.uint8 else 255 * x
        values = x.float() / 255 if x.dtype == torch.uint8 else x
        if self.form == "fractions":
            return values
        return (values - self.mean.to(values)) / self.std.to(values)


def choose_form(model: nn.Module, data: Examples, form: InputForm | None) -> InputForm | None:
    """How ``model`` gets its images; None if they go to it as they are.

    Built-in models normalise images themselves. Any other one gets fractions, unless ``form`` (or a
    hook that it has from an earlier request) says otherwise.
    """
    built_in = isinstance(next(model.children(), None), Normalise)
    if data.kind == "images" and not built_in:
        carried = [hook.form for hook in _hooks_of(model).values()]
        return form or next(iter(carried), "fractions")
    if form is not None:
        reason = "built-in models normalise images themselves"
        if data.kind != "images":
            reason = f"these are {data.kind}, not images as bytes"
        raise InvalidInput(f"`inputs` should be left out: {reason}. (got {form!r})")
    return None


def build_hooked(build: Callable[[], nn.Module], hook: InputHook) -> nn.Module:
    """A fresh model that gets its inputs through ``hook``."""
    return add_hook(build(), hook)


def add_hook(model: nn.Module, hook: InputHook) -> nn.Module:
    """Let ``model`` get its inputs through ``hook``, and through no other one of these."""
    for key in _hooks_of(model):
        del model._forward_pre_hooks[key]
    model.register_forward_pre_hook(hook, prepend=True)
    return model


def _hooks_of(model: nn.Module) -> dict[int, InputHook]:
    hooks = model._forward_pre_hooks.items()
    return {key: hook for key, hook in hooks if isinstance(hook, InputHook)}
