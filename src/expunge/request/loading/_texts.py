"""A causal language model and its records of question and answer."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from expunge._errors import DataError, InvalidInput
from expunge._factory import is_factory
from expunge.data import (
    PretrainedTokenizer,
    TextSet,
    Tokenizer,
    WordTokenizer,
    find_data,
    parse_scenario,
)
from expunge.data.text import (
    TextExamples,
    is_given_by_retained,
    question_tokens,
    read_text_splits,
    stratify,
)
from expunge.engine import (
    StateDict,
    device_of,
    load_checked_weights,
    pick_device,
    read_weights,
    score_tokens,
    without_prefix,
)
from expunge.evaluation import Definitions, TextScores, evaluate_text
from expunge.integrations import harness_scores
from expunge.methods import METHODS
from expunge.models import (
    LANGUAGE_MODELS,
    build_language_model,
    check_is_causal,
    load_causal_model,
    make_module,
    with_frozen,
)
from expunge.request._job import Job, make_job
from expunge.request.loading._load import ModelAndData

PRETRAINED = "causal:"
"""What the name of a pretrained model's folder begins with."""
TOKENIZER = "tokenizer.json"
SPLITS = ("train", "val", "test", "unseen")


def load_model_and_texts(job: Job) -> ModelAndData:
    """The model and data of a job whose data are texts, such as ``qa:FOLDER``.

    That folder has ``train.jsonl`` with ``val.jsonl`` and ``test.jsonl``, or with ``unseen.jsonl``
    that both are taken out of, and for a model of ours the ``tokenizer.json`` of its words.
    """
    source = find_data(job.data)
    splits = read_text_splits(source)
    model, build, tokenizer = load_text_model(job)
    sets = {name: TextSet(part, tokenizer) for name, part in splits.items() if name in SPLITS}
    return _assemble(model, sets, build, job, str(source.path))


def load_text_model(job: Job) -> tuple[nn.Module, Callable[[], nn.Module], Tokenizer]:
    """The model of a job whose data are texts, a function that makes a fresh one, its tokenizer."""
    state, _ = read_weights(job.weights)
    pretrained = job.model.removeprefix(PRETRAINED) if job.model.startswith(PRETRAINED) else None
    if job.template is not None and pretrained is None:
        raise InvalidInput(
            f"`template` goes with a model {PRETRAINED}FOLDER; a tokenizer of words has no prompt "
            f"but the question. (got {job.template!r} with {job.model!r})"
        )
    # A model of another kind is refused before its tokenizer is: what ends it may be missing.
    words = None if pretrained else _read_words(find_data(job.data).path or Path())
    build = _builder(job, state, words)
    model = build()
    tokenizer = words or PretrainedTokenizer(pretrained, job.template)
    state = with_frozen(model, without_prefix(state, model))
    load_checked_weights(model, _with_tied(model, state), str(job.weights))
    return model, build, tokenizer


def evaluate_text_files(
    weights: Mapping[str, Path],
    *,
    model: str,
    data: str,
    template: str | None = None,
    forget: str | None = None,
    seed: int = 0,
    definitions: Definitions = "expunge",
) -> dict[str, TextScores]:
    """The scores of language models in files by name; "ideal" is the one others are compared with.

    ``forget`` is the scenario that picks from the training records what was to be forgotten, if
    the data do not say.
    """
    splits = read_text_splits(find_data(data))
    models: dict[str, nn.Module] = {}
    for name, path in weights.items():
        models[name], tokenizer = _load_scored(path, model, data=data, template=template)
    sets = {name: TextSet(records, tokenizer) for name, records in splits.items()}
    if forget is not None and "train" in sets:
        chosen = parse_scenario(forget).pick(sets["train"], seed)  # type: ignore[arg-type]
        sets |= {k: sets["train"].subset(getattr(chosen, k)) for k in ("forget", "retain")}
    if missing := {"forget", "retain"} - sets.keys():
        raise InvalidInput(
            f"{data} does not say what was to be forgotten. Give --forget, such as ids:FILE. (got "
            f"{', '.join(sets)}, without {' and '.join(sorted(missing))})"
        )
    scored = {name: sets.get(name) for name in ("forget", "retain", "general")}
    scored["test"] = sets.get("test", sets.get("unseen"))
    ideal = models.get("ideal")
    return {
        name: evaluate_text(
            each,
            **scored,  # type: ignore[arg-type]
            ideal=None if name == "ideal" else ideal,
            definitions=definitions,
        )
        for name, each in models.items()
    }


def evaluate_by_harness(
    weights: Mapping[str, Path], *, model: str, task: str
) -> dict[str, dict[str, float]]:
    """What a task of lm-evaluation-harness says of language models in files, by name."""
    if not model.startswith(PRETRAINED):
        raise InvalidInput(f"`lm_eval` goes with a model {PRETRAINED}FOLDER. (got {model!r})")
    found = {}
    for name, path in weights.items():
        loaded, tokenizer = _load_scored(path, model)
        assert isinstance(tokenizer, PretrainedTokenizer)
        found[name] = harness_scores(loaded, tokenizer.tokenizer, task)
    return found


def _load_scored(path: Path, model: str, **settings: Any) -> tuple[nn.Module, Tokenizer]:
    """The model of a file on its device, and its tokenizer."""
    job = make_job(weights=path, model=model, out=Path("scores"), **settings)
    loaded, _, tokenizer = load_text_model(job)
    return loaded.to(pick_device(job.device, loaded)).eval(), tokenizer


def model_and_texts_of(model: nn.Module, data: Any, job: Job) -> ModelAndData:
    """A model and its data from Python: a model, and text sets."""
    if len(data) not in (2, 3):
        raise InvalidInput(
            f"Texts should be train and test, or with val between. (got {len(data)})"
        )
    names = ("train", "val", "test") if len(data) == 3 else ("train", "test")
    sets = dict(data) if isinstance(data, Mapping) else dict(zip(names, data, strict=True))
    for name, part in sets.items():
        if not isinstance(part, TextSet):
            raise InvalidInput(
                f"All splits should be TextSets, as train is. (got {type(part).__name__} as {name})"
            )
    build = functools.partial(copy.deepcopy, copy.deepcopy(model))
    return _assemble(copy.deepcopy(model), sets, build, job, "The data")


def _assemble(
    model: nn.Module,
    sets: Mapping[str, TextSet],
    build: Callable[[], nn.Module],
    job: Job,
    source: str,
) -> ModelAndData:
    parts = _split(sets, job, source)
    if METHODS[job.method].reads_forget and not METHODS[job.method].token_losses:
        names = ", ".join(METHODS.label(name) for name in METHODS if METHODS[name].token_losses)
        raise InvalidInput(
            f"`method` should be one for language models: {names}. "
            f"(got {METHODS.label(job.method)})"
        )
    if job.inputs is not None:
        raise InvalidInput(f"`inputs` is about images, and these are texts. (got {job.inputs!r})")
    model = model.to(pick_device(job.device, model)).eval()
    score_tokens(model, parts[0].subset(range(min(2, len(parts[0])))))  # does it take them?
    check_is_causal(model, parts[0].tokens[:1].to(device_of(model)))
    train, val, test = stratify(*parts)
    note = (
        "Accuracy is the share of the answers' tokens that the model predicts, given those before. "
        f"Records are compared in {train.num_classes} strata of length"
        + (" and of how rare their words are." if train.num_classes > 2 else ".")
    )
    tokenizer, notes = parts[0].tokenizer, [note]
    if isinstance(tokenizer, PretrainedTokenizer):
        prompt = "the tokenizer's chat template" if tokenizer.is_chat else tokenizer.template
        notes.append(f"Questions and answers are put into the prompt: {prompt}")
    return ModelAndData.of(model, train, val, test, build, tuple(notes))


def _split(sets: Mapping[str, TextSet], job: Job, source: str) -> tuple[TextSet, TextSet, TextSet]:
    """Train, val and test; a missing val is half of the unseen records."""
    if "train" not in sets or not {"test", "unseen"} & set(sets):
        raise DataError(
            f"{source} should have train and test (and val) records, or train and unseen ones. "
            f"(got {', '.join(sets) or 'none'})"
        )
    if "val" in sets and "test" in sets:
        return sets["train"], sets["val"], sets["test"]
    unseen = sets["unseen"] if "unseen" in sets else sets["test"]
    if len(unseen) < 2:
        raise DataError(f"{source} should have 2 or more unseen records. (got {len(unseen)})")
    order = np.random.default_rng(job.data_seed).permutation(len(unseen))
    halves = np.sort(order[: len(order) // 2]), np.sort(order[len(order) // 2 :])
    return sets["train"], unseen.subset(halves[0]), unseen.subset(halves[1])


def _read_words(folder: Path) -> WordTokenizer:
    if not (folder / TOKENIZER).is_file():
        raise DataError(
            f"There is no {TOKENIZER} in {folder}. Write it with `tokenizer.save(...)` of the "
            "`expunge.data.WordTokenizer` that the model was trained with, or name a folder of "
            f"transformers, whose tokenizer is read with it: --model {PRETRAINED}FOLDER."
        )
    return WordTokenizer.load(folder / TOKENIZER)


def _builder(job: Job, state: StateDict, words: WordTokenizer | None) -> Callable[[], nn.Module]:
    """A function that makes a fresh model: a pretrained one, from a factory, or by name."""
    options = dict(job.model_options)
    if words is None:
        return functools.partial(load_causal_model, job.model.removeprefix(PRETRAINED), **options)
    if job.model in LANGUAGE_MODELS:
        sizes = {"vocabulary": words.size} | _sizes(state)
        return functools.partial(build_language_model, job.model, **(sizes | options))
    if is_factory(job.model):
        return functools.partial(make_module, job.model, options)
    raise InvalidInput(
        f"`model` should be {PRETRAINED}FOLDER, {', '.join(LANGUAGE_MODELS)} or "
        f"package.module:factory, as the data are texts. (got {job.model!r})"
    )


def _sizes(state: StateDict) -> dict[str, int]:
    """The sizes of a small transformer, read off its weights; ``heads`` they do not tell."""
    positions = state.get("positions.weight")
    if positions is None or positions.ndim != 2:
        return {}
    layers = {name.split(".")[1] for name in state if name.startswith("blocks.")}
    return {
        "context": int(positions.shape[0]),
        "width": int(positions.shape[1]),
        "layers": len(layers),
    }


def _with_tied(model: nn.Module, state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """``state`` with the weights that files leave out because they are others under a new name."""
    complete = dict(state)
    expected = model.state_dict(keep_vars=True)
    for name in expected.keys() - state.keys():
        tied = (k for k in state.keys() & expected.keys() if expected[k] is expected[name])
        if (other := next(tied, None)) is not None:
            complete[name] = torch.clone(state[other])
    return complete


def with_comparable_answers(
    loaded: ModelAndData, to_forget: Collection[int], earlier: Collection[int]
) -> ModelAndData:
    """The model and data of a request for these training records, ``earlier`` ones being gone.

    Where other records about the same people are retained, and unseen records are about strangers,
    answers to forget and unseen ones are compared without the words that their questions give.
    This depends on the texts alone, not on the model.
    """
    parts = (loaded.train, loaded.val, loaded.test)
    texts = [part for part in parts if isinstance(part, TextExamples)]
    if not texts:
        return loaded
    train, val, test = texts
    gone = {*to_forget, *earlier}
    retain = train.texts.subset([i for i in range(len(train)) if i not in gone])
    forget = train.texts.subset(sorted(to_forget))
    if not is_given_by_retained(forget, retain, (val.texts, test.texts)):
        return loaded
    is_gone = torch.tensor([i in gone for i in range(len(train))])
    return replace(
        loaded,
        train=train.without_given(question_tokens(train.texts) & is_gone[:, None]),
        val=val.without_given(question_tokens(val.texts)),
        test=test.without_given(question_tokens(test.texts)),
    )


def compares_all_words(loaded: ModelAndData) -> bool:
    """Whether whole answers are compared."""
    return not isinstance(loaded.val, TextExamples) or loaded.val.given is None
