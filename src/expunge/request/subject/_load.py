"""The model and the data that a request is about."""

from __future__ import annotations

import copy
import functools
import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from torch import nn

from expunge._artifact import Card, fit_weights
from expunge._errors import InvalidInput
from expunge.engine._checkpoint import model_digest
from expunge.engine._device import device_of, pick_device
from expunge.models import MODELS, build_model
from expunge.request._job import Job
from expunge.request.subject._data_source import Parts, gather_parts, load_parts
from expunge.request.subject._examples import InMemory, inputs_of
from expunge.request.subject._factory import call_factory, is_factory
from expunge.request.subject._input_layout import (
    as_the_model_likes,
    count_outputs,
    laid_out,
    name_outputs,
)
from expunge.request.subject._weights import file_digest, read_weights, without_prefix


@dataclass(frozen=True, eq=False)
class Subject:
    """A trained model in eval mode, its data in memory, and where both came from.

    ``classes`` names every output of the model; ``weights_digest`` is the SHA-256 of the weights
    file, ``data_digest`` that of the fingerprints of train, val and test. ``build`` makes a fresh
    model of the same architecture. ``held_out`` says what val was taken out of, if not given.
    """

    model: nn.Module
    train: InMemory
    val: InMemory
    test: InMemory
    classes: tuple[str, ...]
    weights_digest: str
    data_digest: str
    build: Callable[[], nn.Module]
    card: Card | None = None
    flip: bool = False
    held_out: str = ""
    notes: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...] | None:
        """Names of the training records, if they have any."""
        return self.train.names

    def with_weights(self, path: Path) -> Subject:
        """The same subject with the weights in another file."""
        state, _ = read_weights(path)
        model = self.build()
        fit_weights(model, without_prefix(state, model), str(path))
        model = laid_out(model.to(device_of(self.model)).eval(), inputs_of(self.train)[:2])
        return replace(self, model=model, weights_digest=file_digest(path))


def load_subject(job: Job) -> Subject:
    """Model, weights and data of a job, checked against each other."""
    state, card = read_weights(job.weights)
    if card is not None:
        _check_card(job, card)
    parts = load_parts(job, card)
    build = _builder(job, card, parts)
    model = build()
    fit_weights(model, without_prefix(state, model), str(job.weights))
    return _assembled(model, parts, build, file_digest(job.weights), card, job.device)


def make_subject(model: nn.Module, data: Any, job: Job) -> Subject:
    """A subject from Python objects: a model, and (train, test) or (train, val, test).

    ``weights_digest`` is then the hash of the model's weights and buffers.
    """
    if not isinstance(model, nn.Module):
        raise InvalidInput(f"`model` should be a torch.nn.Module. (got {type(model).__name__})")
    model = copy.deepcopy(model)
    build = functools.partial(copy.deepcopy, copy.deepcopy(model))
    return _assembled(model, gather_parts(data, job), build, model_digest(model), None, job.device)


def _assembled(
    model: nn.Module,
    parts: Parts,
    build: Callable[[], nn.Module],
    weights_digest: str,
    card: Card | None,
    device: str,
) -> Subject:
    model = model.to(pick_device(device, model)).eval()
    parts, notes = as_the_model_likes(model, parts)
    model = laid_out(model, inputs_of(parts.train)[:2])
    prints = [part.fingerprint() for part in (parts.train, parts.val, parts.test)]
    return Subject(
        model=model,
        train=parts.train,
        val=parts.val,
        test=parts.test,
        classes=name_outputs(parts, count_outputs(model, parts)),
        weights_digest=weights_digest,
        data_digest=hashlib.sha256("/".join(prints).encode()).hexdigest(),
        build=build,
        card=card,
        flip=parts.flip,
        held_out=parts.held_out,
        notes=notes,
    )


def _builder(job: Job, card: Card | None, parts: Parts) -> Callable[[], nn.Module]:
    if card is not None:
        return functools.partial(build_model, **card.model.model_dump())
    if not job.model:
        raise InvalidInput(
            f"`model` should be given: {job.weights} has no card that says how to build it. Name a "
            f"built-in model ({', '.join(MODELS)}) or package.module:factory."
        )
    if is_factory(job.model):
        return functools.partial(_from_factory, job.model, job.model_options)
    if job.model not in MODELS and ":" in job.model:
        raise InvalidInput(
            f"The model factory should read package.module:factory. (got {job.model!r})"
        )
    name = MODELS.name(job.model)
    sizes: dict[str, Any] = {"num_classes": parts.train.num_classes}
    shape = inputs_of(parts.train).shape
    if len(shape) == 4:
        sizes["in_channels"] = shape[1]
    return functools.partial(build_model, **({"name": name} | sizes | job.model_options))


def _from_factory(spec: str, options: dict[str, Any]) -> nn.Module:
    model = call_factory(spec, "model", **options)
    if not isinstance(model, nn.Module):
        raise InvalidInput(
            f"The model factory {spec} should return a torch.nn.Module. "
            f"(got {type(model).__name__})"
        )
    return model


def _check_card(job: Job, card: Card) -> None:
    """A model named beside an artifact should be the artifact's own."""
    said = card.model.model_dump()
    if job.model and (is_factory(job.model) or MODELS.name(job.model) != said["name"]):
        raise InvalidInput(
            f"{job.weights} holds a {said['name']}, as its card says. "
            f"(got the model {job.model!r}) Leave `model` out."
        )
    for name, value in job.model_options.items():
        if said.get(name) != value:
            raise InvalidInput(
                f"{job.weights} holds a {said['name']} with {name} {said.get(name)}, as its card "
                f"says. (got {value!r}) Leave `model_options` out."
            )
