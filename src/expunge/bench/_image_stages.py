"""Images in the stages of a protocol: data, models, scores, and histograms of f."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from expunge import _tensors as tensors
from expunge import dispatch, engine
from expunge._errors import DataError
from expunge._serialisation import rebuild
from expunge.bench._stage_functions import HISTOGRAM_PREFIX, REFERENCES, WEIGHTS
from expunge.data import Division, Examples, Splits, divide, load, thin_out
from expunge.evaluation import EpochScores, Predictions, Scorer, Views, after_benign_steps, predict
from expunge.methods import kept_modes
from expunge.store import Entry
from expunge.update import RELATIVE_EPS, loss_gradient, signed_agreement

IDEAL = "ideal.safetensors"
"""What the ideal models say, kept with the reference."""
UNTRAINED_SEED = 2000
HISTOGRAM_BINS = 50


def _load(spec: str, root: str | None, val_fraction: float, limit: int | None) -> Splits:
    return load(spec, root, val_fraction=val_fraction, limit=limit)


_load_once = functools.lru_cache(maxsize=1)(_load)
"""A worker reads images once for all the stages that it runs on them."""


class Images:
    """What image classifiers are trained on, and how they are scored."""

    def load(self, data: Mapping[str, Any], options: Mapping[str, Any]) -> Splits:
        """The splits that the configuration ``data`` describes."""
        fingerprint = data.get("fingerprint")
        read = _load if fingerprint else _load_once  # without one, the name fixes the data
        splits = read(options["data"], options.get("root"), data["val_fraction"], data["limit"])
        if fingerprint is not None and splits.train.fingerprint() != fingerprint:
            raise DataError(f"The data {options['data']} have changed since the run was planned.")
        return splits

    def divide(self, splits: Splits, config: Mapping[str, Any]) -> Division:
        """The splits as the scenario of ``config`` divides them."""
        most = config.get("test_limit")
        if most is not None and most < len(splits.test):
            few = thin_out(splits.test, most, 0)
            splits = Splits(splits.name, splits.train, splits.val, few, splits.flip)
        return divide(splits, config["scenario"], config["scenario_seed"])

    def train(
        self, config: Mapping[str, Any], splits: Splits, data: Examples, execution: engine.Execution
    ) -> engine.Result:
        """Train a model of ``config`` on ``data``, by its recipe."""
        model = config["model"] | engine.sizes_for(splits)
        recipe = engine.Recipe(**config["recipe"])
        augment = rebuild(config["augment"])
        return engine.train_from_config(
            model, data, recipe=recipe, augment=augment, execution=execution
        )

    def restore(self, entry: Entry, splits: Splits) -> nn.Module:
        """A trained model."""
        return engine.restore_from_config(
            entry.config["model"] | engine.sizes_for(splits), entry.path(WEIGHTS)
        )

    def score(
        self, context: dispatch.Context, models: Mapping[str, nn.Module], division: Division
    ) -> dict[str, Mapping[str, float]]:
        """Score reference models by name; keep in the folder what unlearned models need."""
        config = context.config
        outputs = _ideal_outputs(models, division, context.parents[0], config)
        tensors.save(context.folder / IDEAL, outputs, {})
        scores: dict[str, Mapping[str, float]] = {}
        for done, (name, model) in enumerate(models.items()):
            context.progress(done, len(models), f"scoring {name}")
            scorer = _scorer(division, outputs, config, name)
            scores[name] = scorer.score_by_name(model, per_class=True)
        return scores

    def unlearn_arguments(
        self, context: dispatch.Context, division: Division
    ) -> tuple[list[engine.Callback], dict[str, Any]]:
        """Callbacks that score a run, and the arguments of :func:`expunge.unlearn` on data."""
        initial, reference = context.parents
        config, epochs = context.config, frozenset(context.config["evaluate_at"])
        scorer = _scorer(division, tensors.load(reference.path(IDEAL))[0], reference.config)
        full, steps = config.get("full_scores", "every"), config.get("evaluate_steps", ())
        watchers = [EpochScores(scorer, epochs, per_class=True, full=full, steps=steps)]
        data = {
            "forget": division.forget,
            "retain": division.retain,
            "unseen": division.splits.val,
            "augment": rebuild(initial.config["augment"]),
        }
        return [*watchers, AgreementHistograms(epochs)], data


def _ideal_outputs(
    models: Mapping[str, nn.Module], division: Division, initial: Entry, config: Mapping[str, Any]
) -> dict[str, Tensor]:
    """What the ideal models say of the forget set and, for more metrics, of val and test."""
    more = config.get("metrics", ())
    forget = predict(models["ideal"], division.forget)
    outputs = {"logits": forget.logits, "labels": forget.labels}
    if not more:
        return outputs
    splits = {"": division.forget, "val_": division.splits.val, "test_": division.splits.test}
    for model in (each for each in models if each != "initial"):
        for name, split in splits.items():
            predictions = predict(models[model], split)
            outputs[f"{_prefix(model)}{name}logits"] = predictions.logits
            outputs[f"{name}labels"] = predictions.labels
    if "relearned" in more:
        again = after_benign_steps(models["ideal"], division.retain)
        outputs["relearned_logits"] = predict(again, division.forget).logits
    model = initial.config["model"] | engine.sizes_for(division.splits)
    untrained = engine.untrained_for(model, division.splits.train, UNTRAINED_SEED)
    return outputs | {"untrained_logits": predict(untrained, division.forget).logits}


def _prefix(model: str) -> str:
    """What the names of a retrained model's outputs begin with."""
    return {"ideal": "", "ideal-2": "second_"}.get(model, f"{model}_")


def _scorer(
    division: Division, outputs: dict[str, Tensor], config: Mapping[str, Any], model: str = ""
) -> Scorer:
    """Scores against the ideal model's ``outputs``; RMIA and KLoM refer to other ideals."""
    labels = outputs["labels"]
    forget = Predictions(outputs["logits"], labels)
    more = config.get("metrics", ())
    if not more:
        return Scorer(division, forget, attacks=config["attacks"])

    def views(prefix: str) -> Views:
        val, test = (
            Predictions(outputs[f"{prefix}{name}_logits"], outputs[f"{name}_labels"])
            for name in ("val", "test")
        )
        return Views(forget=Predictions(outputs[f"{prefix}logits"], labels), test=test, val=val)

    names = [name for name in REFERENCES[1:] if f"{_prefix(name)}logits" in outputs]
    ideals = {name: views(_prefix(name)) for name in names}
    relearned = outputs.get("relearned_logits")
    return Scorer(
        division,
        ideals["ideal"],
        attacks=config["attacks"],
        more=more,
        untrained=Predictions(outputs["untrained_logits"], labels),
        ideal_after_benign_steps=None if relearned is None else Predictions(relearned, labels),
        references=[each for name, each in ideals.items() if name != model],
    )


class AgreementHistograms(engine.Callback):
    """A histogram of f (18) over all parameters after each epoch of ``epochs``."""

    def __init__(self, epochs: frozenset[int], bins: int = HISTOGRAM_BINS) -> None:
        self.epochs, self.bins = epochs, bins

    def on_epoch(self, run: engine.Run) -> None:
        moments = run.update.addon.moment_estimator
        if run.epoch not in self.epochs or moments is None or moments.from_micro_batches:
            return
        if not run.method.constrained or not run.update.state.moments_u:
            return
        counts = torch.zeros(self.bins)
        for f in agreement_of(run):
            counts += torch.histc(f.float().cpu(), bins=self.bins, min=0.0, max=1.0)
        shares = (counts / counts.sum()).tolist()
        run.record(**{f"{HISTOGRAM_PREFIX}{k:02d}": share for k, share in enumerate(shares)})


def agreement_of(run: engine.Run) -> list[Tensor]:
    """f of every parameter for the first pair of batches, as the run's next step would see it."""
    problem, update = run.problem, run.update
    forget, retain = next(problem.pairs())
    buffers = [(buffer, buffer.clone()) for buffer in run.model.buffers()]
    random: Any = problem.generator.get_state()
    try:
        with kept_modes(run.model), torch.enable_grad():
            run.model.train()
            params = problem.parameters
            first = loss_gradient(run.method.objective(problem, forget, retain), params)
            second = loss_gradient(run.method.constraint(problem, forget, retain), params)
    finally:
        problem.generator.set_state(random)
        with torch.no_grad():
            for buffer, value in buffers:
                buffer.copy_(value)
    moments, state = update.addon.moment_estimator, update.state
    assert moments is not None
    keep, add, scale = moments.coefficients(state.step + 1, 1)
    eps: Any = update.addon.epsilon
    if eps is None:
        sides = ([g for g in s.gradients if g is not None] for s in (first, second))
        eps = tuple(
            RELATIVE_EPS * torch.cat([g.flatten() for g in s]).square().mean() for s in sides
        )
    agreement = []
    pairs = zip(first.gradients, second.gradients, state.moments_u, state.moments_c, strict=True)
    for u, c, v_u, v_c in pairs:
        if u is None or c is None:
            continue
        new_u, new_c = (keep * v + add * g * g for v, g in ((v_u, u), (v_c, c)))
        sure = signed_agreement(u, c, new_u, new_c, eps, (scale, scale))
        agreement.append((0.5 + 0.5 * sure).detach())
    return agreement
