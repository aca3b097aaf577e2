"""Carry out a deletion request from Python or from the command line."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any

from torch import nn

from expunge._errors import InvalidInput
from expunge._kinds import check_arguments
from expunge.distributed import as_group
from expunge.ledger import SigningKey, exclusive_access
from expunge.request._job import Job, make_job, text_defaults
from expunge.request._runner import Outcome, RequestRunner
from expunge.request._stopwatch import RequestStopwatch
from expunge.request.loading._load import ModelAndData, are_texts, model_and_data_of
from expunge.request.preflight._preflight import Preflight


def forget(
    *,
    model: nn.Module | str = "",
    weights: str | Path | None = None,
    data: Any = "",
    ids: Annotated[Iterable[Any] | str | Path, "a list of ids, or a file of them"],
    out: str | Path,
    dry_run: bool = False,
    force: bool = False,
    discard: bool = False,
    judge_discarded: bool = False,
    progress: bool = True,
    sign: str | Path | None = None,
    password: str | None = None,
    **settings: Any,
) -> Outcome:
    """Carry out a deletion request from Python: what ``expunge forget`` does.

    Args:
        model: any ``nn.Module`` with its trained weights, or what ``--model`` takes.
        weights: a file, if ``model`` is a name or a factory.
        data: (train, test) or (train, val, test) of map-style datasets, or what ``--data`` takes;
            of :class:`expunge.TextSet` for a language model.
        ids: indices or names of training records, or a file of them.
        out: the folder of this model's requests.
        dry_run: stop after the preflight; change nothing.
        force: continue even if the model does not seem to fit the data.
        discard: drop what another, unfinished request left behind in ``out``.
        judge_discarded: judge the model that the last request discarded again, without running
            the steps: only margins may have changed since.
        progress: show a progress bar.
        sign: a PEM file of the private key that signs the bundle; needs ``expunge[sign]``.
        password: of that key, if it is encrypted.
        settings: all other fields of :class:`Job`, such as ``lr`` or ``margin_test``.

    Returns:
        The outcome: ``status``, ``achieved``, ``model``, ``evidence`` (:class:`Evidence`) and
        ``folder``.
    """
    stopwatch = RequestStopwatch()
    check_arguments(forget, locals())
    listed_ids = None if isinstance(ids, (str, Path)) else list(ids)
    in_memory = isinstance(model, nn.Module)
    if are_texts(data):
        settings = text_defaults(settings) | settings
    if in_memory == (weights is not None):
        raise InvalidInput("Give a trained `model`, or `weights` with a name or factory for it.")
    if not in_memory and not isinstance(data, str):
        raise InvalidInput(
            "Data in memory go with a `model` in memory: load the weights into it first. "
            f"(got data of type {type(data).__name__} with `weights`)"
        )
    job = make_job(
        model="" if in_memory else model,
        data=data if isinstance(data, str) else "",
        weights=Path(weights or "in memory"),
        ids=Path(str(ids)) if listed_ids is None else None,
        out=Path(out),
        **settings,
    )
    loaded = model_and_data_of(model, data, job) if isinstance(model, nn.Module) else None
    return carry_out(
        job,
        loaded,
        ids=listed_ids,
        dry_run=dry_run,
        force=force,
        discard=discard,
        judge_discarded=judge_discarded,
        on_message=logging.getLogger("expunge").info,
        progress=progress,
        key=None if sign is None else SigningKey.load(sign, password),
        stopwatch=stopwatch,
    )


def carry_out(
    job: Job,
    loaded: ModelAndData | None = None,
    *,
    ids: Sequence[str | int] | None = None,
    on_message: Callable[[str], None] = lambda message: None,
    on_preflight: Callable[[Preflight], None] = lambda preflight: None,
    progress: bool = True,
    key: SigningKey | None = None,
    stopwatch: RequestStopwatch | None = None,
    **switches: bool,
) -> Outcome:
    """Carry out ``job`` with exclusive access to its folder; if killed, the same call resumes it.

    ``loaded`` and ``ids`` replace the model, the data and the file of ids that ``job`` names.
    ``on_message`` is called with what is being done, ``on_preflight`` with the findings of the
    preflight, before anything is changed. ``key`` signs the bundle. The time of the request counts
    from the start of the ``stopwatch`` (default: now). ``switches`` are ``dry_run``, ``force``,
    ``discard`` and ``judge_discarded``: see :func:`forget`.
    """
    group = as_group("auto")
    if group:
        raise InvalidInput(
            "A deletion request is the work of one process; leave the process group first, or "
            f"start it without torchrun. (got {group.size} processes)"
        )
    with exclusive_access(job.out):
        watch = stopwatch or RequestStopwatch()
        runner = RequestRunner(job, loaded, ids, on_message, progress, watch, key)
        return runner.run(on_preflight, **switches)
