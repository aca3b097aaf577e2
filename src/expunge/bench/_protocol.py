"""A protocol: which models unlearn what, how, and what is measured."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from typing import Annotated, Any, Literal

import pydantic

from expunge._errors import InvalidInput
from expunge._options import takes_options
from expunge._specs import join_part, split_part
from expunge.bench._results import MAX_IDEALS, BenchRun
from expunge.data import CORPORA, DATASETS, Augment
from expunge.engine import PLAIN_OPTIONS, Procedure, Recipe
from expunge.methods import METHODS
from expunge.update import ADDONS, MOMENTS, WeightedSum, aggregate_name, as_aggregate

Positive = Annotated[float, pydantic.Field(gt=0, strict=True, allow_inf_nan=False)]
Count = Annotated[int, pydantic.Field(ge=1, strict=True)]
Seed = Annotated[int, pydantic.Field(ge=0, lt=2**63, strict=True)]
Share = Annotated[float, pydantic.Field(gt=0, lt=1, strict=True)]
NotEmpty = pydantic.Field(min_length=1)
Swept = Annotated[tuple[Positive, ...], NotEmpty]

FIXED_BY_PROTOCOL = ("epochs", "batch_size", "lr")
"""Options that a protocol decides for every method, whatever the method prefers."""


class _TomlTable(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="forbid", frozen=True)


class Training(_TomlTable):
    """How initial and ideal models are trained; the defaults are the paper's."""

    epochs: Count = 100
    batch_size: Count = 256
    lr: Positive = 0.1
    momentum: Annotated[float, pydantic.Field(ge=0, lt=1, strict=True)] = 0.9
    weight_decay: Annotated[float, pydantic.Field(ge=0, strict=True)] = 5e-4
    schedule: Literal["step", "one-cycle"] = "step"
    algorithm: Literal["sgd", "adamw"] = "sgd"
    augment: pydantic.StrictBool = True
    plain_epochs: Annotated[int, pydantic.Field(ge=0, strict=True)] = 0

    @property
    def recipe(self) -> Recipe:
        """The same as a recipe for :func:`expunge.train`."""
        return Recipe(**self.model_dump(exclude={"augment"}))


@takes_options(each for each in PLAIN_OPTIONS if each.name not in ("method", "addon", "moments"))
class Unlearning(_TomlTable):
    """How models unlearn: the options of a procedure; the defaults are the paper's.

    A list of ``lr``, ``alpha`` or ``epochs`` makes a run with each of its values; ``beta`` is
    1 - alpha by default. Adam moves every weight by about ``lr``, and a unit of a wide layer adds
    up more of them: 8e-4 does to a model of width 1/8 what 1e-4 does to one of width 1.
    """

    epochs: Count | Annotated[tuple[Count, ...], NotEmpty] = 10
    lr: Positive | Swept = 1e-4
    alpha: Positive | Swept = 0.05
    aggregate: str = "linear"
    p: Share = 0.3

    def sweep_points(self) -> Iterator[dict[str, float]]:
        """Every combination of the values that are lists."""
        names = ("epochs", "lr", "alpha")
        given = [v if isinstance(v := getattr(self, name), tuple) else (v,) for name in names]
        for values in itertools.product(*given):
            yield dict(zip(names, values, strict=True))

    @property
    def swept(self) -> set[str]:
        """The options that are lists: a sweep decides them even where a method has a preference."""
        return {name for name, value in self if isinstance(value, tuple)}


ExtraMetric = Literal[
    "rmia_auc", "kl", "jsd", "activation_distance", "zrf", "loss_auc", "relearned", "klom"
]


class Block(_TomlTable):
    """One data set and architecture, and everything that is tried on them.

    Options of a method or an add-on stand in brackets behind its name: ``SCRUB(loss=released)``.
    An add-on that names its moments, as ``FOCUS(moments=adam)``, has these and not the block's.

    Of a corpus of texts, ``limit`` is the number of people to learn, ``test_limit`` that of people
    never seen.
    """

    name: str = ""
    data: str
    model: str
    width: Positive = 1.0
    options: dict[str, float] = {}
    """Options of the model, such as ``dropout`` of vgg16."""
    limit: Count | None = None
    test_limit: Count | None = None
    seeds: Annotated[tuple[Seed, ...], NotEmpty] = (0, 1, 2)
    scenarios: Annotated[tuple[str, ...], NotEmpty]
    methods: tuple[str, ...] = ()
    addons: Annotated[tuple[str, ...], NotEmpty] = ("none",)
    moments: Annotated[tuple[str, ...], NotEmpty] = ("published",)
    aggregates: tuple[str, ...] = ()
    """Of the methods, each with every add-on; by default that of ``unlearning``. A TorchJD
    aggregator is ``torchjd:NAME``."""
    baselines: tuple[str, ...] = ()
    full_scores: Literal["every", "last"] = "every"
    """At which of the epochs RA and the attacks are scored, which pass over all retained data."""
    evaluate_steps: tuple[Count, ...] = ()
    """Steps after which models are scored, too, where an epoch overshoots; 1 is the first."""
    metrics: tuple[ExtraMetric, ...] = ()
    """What is measured besides the paper's metrics."""
    ideals: Annotated[int, pydantic.Field(ge=1, le=MAX_IDEALS, strict=True)] = 1
    """Retrained models per seed and scenario; how far the others are from the first is the noise
    floor of every distance to "the" ideal model. KLoM needs three or more."""
    training: Training = Training()
    unlearning: Unlearning = Unlearning()

    @property
    def dataset(self) -> str:
        """The name of its data, or their format where ``data`` also has a path."""
        return self.data.partition(":")[0]

    @property
    def is_text(self) -> bool:
        """Whether its data are texts, and its models causal language models."""
        return self.dataset in CORPORA


class Protocol(_TomlTable):
    """Blocks of experiments, each repeated with every seed of its own."""

    name: str = ""
    title: str = ""
    evaluate_at: Annotated[tuple[Count, ...], NotEmpty] = (1, 2, 5, 10)
    """Epochs after which models are scored; they always are after the last."""
    attacks: pydantic.StrictBool | Literal["released"] = True
    """Whether the five attacks are run; ``released`` with the features of the released code."""
    block: Annotated[tuple[Block, ...], NotEmpty]

    @property
    def size(self) -> int:
        """The number of its unlearning runs."""
        return sum(
            len(block.seeds) * len(block.scenarios) * len(list(variants_of(block)))
            for block in self.block
        )

    @property
    def seeds(self) -> tuple[int, ...]:
        """Every seed that a block has."""
        return tuple(sorted({seed for block in self.block for seed in block.seeds}))

    def only(self, names: tuple[str, ...]) -> Protocol:
        """The same protocol with some of its blocks."""
        present = [block.name for block in self.block]
        for name in names:
            if name not in present:
                raise InvalidInput(
                    f"The protocol {self.name} has no block {name!r}. "
                    f"(it has: {', '.join(present)})"
                )
        chosen = tuple(block for block in self.block if block.name in names)
        return self.model_copy(update={"block": chosen}) if names else self

    def with_seeds(self, count: int, *, besides: bool = False) -> Protocol:
        """The same protocol with the seeds 0 to ``count`` - 1 in every block, or besides its."""
        if count < 1:
            raise InvalidInput(f"`seeds` should be at least 1. (got {count})")

        def with_these(block: Block) -> Block:
            own = block.seeds if besides else ()
            return block.model_copy(update={"seeds": tuple(dict.fromkeys([*own, *range(count)]))})

        return self.model_copy(update={"block": tuple(map(with_these, self.block))})


def variants_of(block: Block) -> Iterator[tuple[BenchRun, Procedure]]:
    """What a block tries, at every setting: runs (no scenario, no seed yet) and procedures."""
    unlearning = block.unlearning
    usual = unlearning.aggregate
    tried = [(method, "none", usual, True) for method in block.baselines]
    tried += [
        (method, addon, aggregate, False)
        for method in block.methods
        for aggregate in block.aggregates or (usual,)
        for addon in block.addons
    ]
    for method, addon, aggregate, baseline in tried:
        addon, own_moments = without_moments(addon)
        for moments in _moments_for(addon, own_moments or block.moments):
            variant = BenchRun(
                METHODS.name(method),
                addon,
                moments,
                aggregate_name(aggregate),
                dataset=block.dataset,
                arch=block.model,
                width=block.width,
                limit=block.limit,
                block=block.name,
                baseline=baseline,
            )
            for setting in unlearning.sweep_points():
                how = _procedure(unlearning, variant, setting)
                run = replace(
                    variant, lr=how.lr, batch_size=how.batch_size, total_epochs=how.epochs
                )
                if isinstance(how.aggregate, WeightedSum):
                    run = replace(run, alpha=how.aggregate.alpha, beta=how.aggregate.beta)
                yield run, how


def without_moments(addon: str) -> tuple[str, tuple[str, ...]]:
    """The full name of an add-on without its moments, and these if it names them."""
    name, options = split_part(ADDONS.name(addon))
    moments = options.pop("moments", None)
    return join_part(name, options), () if moments is None else (str(moments),)


def augment_of(block: Block) -> Augment | None:
    """Crops and mirror images as in the paper, where the protocol wants them."""
    if block.is_text or not block.training.augment:
        return None
    return Augment(padding=4, flip=DATASETS[block.dataset].flip)


def _moments_for(addon: str, moments: tuple[str, ...]) -> tuple[str, ...]:
    if ADDONS.resolve(addon).moment_estimator is None:
        return ("",)
    return tuple(MOMENTS.name(name) for name in moments)


def _procedure(unlearning: Unlearning, chosen: BenchRun, setting: dict[str, float]) -> Procedure:
    plain: dict[str, Any] = unlearning.model_dump() | setting
    plain |= {"method": chosen.method, "addon": chosen.addon, "moments": chosen.moments or None}
    plain |= {"aggregate": chosen.aggregate, "epochs": int(setting["epochs"])}
    if "p" not in ADDONS[chosen.addon].__dataclass_fields__ or "p" in split_part(chosen.addon)[1]:
        plain["p"] = None
    # Rate, epochs and batches are the same for all; how a method uses them may be its own.
    decided = {*FIXED_BY_PROTOCOL, *unlearning.swept}
    if not isinstance(as_aggregate(chosen.aggregate), WeightedSum):
        plain["alpha"] = plain["beta"] = None
        decided |= {"alpha", "beta"}
    elif plain["beta"] is None:
        plain["beta"] = round(1.0 - setting["alpha"], 12)
    if "alpha" in decided:
        decided.add("beta")
    preferred = METHODS[chosen.method].preferred
    return Procedure.from_plain(plain | {k: v for k, v in preferred.items() if k not in decided})
