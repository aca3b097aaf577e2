"""The constrained problem of a method: a model, two kinds of batches, a loss."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.modules.batchnorm import _BatchNorm

from expunge._errors import InvalidInput
from expunge._options import BatchNormPolicy
from expunge.data import Batch
from expunge.distributed import SINGLE, BatchShare, Group, draw_share, share_weight
from expunge.update import check_scalar

if TYPE_CHECKING:
    from expunge.engine import RunSplits

Loss = Annotated[
    Callable[[Tensor, Tensor], Tensor],
    "a function that maps (logits, targets) to the mean over the batch, as "
    "torch.nn.functional.cross_entropy does",
]
T = TypeVar("T")
SplitName = Literal["forget", "retain", "unseen"]


class Problem:
    """What a method may use: the model under its BatchNorm policy, the initial model, a loss.

    ``loss`` maps (logits, targets) to the mean over the batch. ``generator`` is the method's own
    random stream; it is saved with a run. ``needs_saliency`` says whether the add-on reads the
    gradient of the loss on forget data. In a ``group`` of processes, batches are this one's share.
    ``memory`` holds tensors that a method keeps between steps; a checkpoint has them, too.
    ``keeps_initial`` is for methods that compare with the initial model: a copy of what may move;
    frozen parameters, such as those below an adapter, are shared with the model.
    """

    def __init__(
        self,
        model: nn.Module,
        *,
        loss: Loss = F.cross_entropy,
        generator: torch.Generator | None = None,
        batchnorm: BatchNormPolicy = "published",
        needs_saliency: bool = False,
        pairs: Callable[[], Iterator[tuple[Batch, Batch]]] | None = None,
        retained: Callable[[], Iterator[Batch]] | None = None,
        group: Group = SINGLE,
        precision: torch.dtype = torch.float32,
        splits: RunSplits | None = None,
        keeps_initial: bool = True,
    ) -> None:
        self.model = model
        self.loss_function = loss
        self.generator = generator or torch.Generator().manual_seed(0)
        self.batchnorm: BatchNormPolicy = batchnorm
        self.needs_saliency = needs_saliency
        self.group = group
        self.precision = precision
        self.memory: dict[str, Tensor] = {}
        self._pairs = pairs
        self._retained = retained
        self._splits = splits
        self._initial_copy = copy_of_moving(model) if keeps_initial else None
        self._first_batch = True

    @cached_property
    def initial(self) -> nn.Module:
        """The model as it was given: frozen, in eval mode."""
        if self._initial_copy is None:
            raise InvalidInput("This problem should keep the initial model: `keeps_initial=True`.")
        return self._initial_copy.eval().requires_grad_(False)

    @property
    def parameters(self) -> list[nn.Parameter]:
        """The parameters that may move."""
        return [p for p in self.model.parameters() if p.requires_grad]

    def logits(self, batch: Batch) -> Tensor:
        """The model's output on a batch, with BatchNorm as the policy says for its split."""
        size = len(batch.targets) * self.group.size
        with batchnorm_as(self.model, self.batchnorm, batch.split, size), self._cast(batch):
            logits = widened(apply(self.model, batch.inputs))
        check_class_numbers(logits, batch.targets)
        if self._first_batch:  # once in a run: on an accelerator it waits for the device
            self._first_batch = False
            if self.loss_function is F.cross_entropy and batch.targets.is_floating_point():
                self.check_exclusive("The loss cross_entropy", logits, batch.targets)
        return logits

    def check_exclusive(self, what: str, logits: Tensor, targets: Tensor) -> None:
        """Raise unless outputs and targets are those of two or more classes that exclude others."""
        if logits.ndim != 2:  # tokens or pixels
            return
        if logits.shape[-1] < 2:
            raise InvalidInput(
                f"{what} compares the probabilities of two or more classes. (got {logits.shape[-1]}"
                " output) For a regression, pass its `loss`, such as torch.nn.functional.mse_loss, "
                "and a method that needs nothing else, such as neg-grad-plus."
            )
        if not targets.is_floating_point() or targets.shape != logits.shape:
            return
        sums = targets.detach().sum(dim=-1)
        if bool((sums - 1.0).abs().max() > 1e-3) or bool(targets.min() < 0):
            raise InvalidInput(
                f"{what} takes class numbers, or probabilities that sum to 1. (got targets of "
                f"shape {tuple(targets.shape)} that sum to {float(sums.min()):g} to "
                f"{float(sums.max()):g}) For several labels per example, pass their `loss`, such "
                "as torch.nn.functional.binary_cross_entropy_with_logits, and a method that needs "
                "nothing else, such as neg-grad-plus."
            )

    def check_one_class(self, method: str, logits: Tensor, targets: Tensor) -> None:
        """Raise unless every example has one class number, and the model an output per class."""
        if logits.dim() != 2 or targets.dim() != 1 or targets.is_floating_point():
            raise InvalidInput(
                f"`{method}` needs one class number per example. (got {describe_tensors(targets)} "
                f"and outputs {describe_tensors(logits)}) For a regression, take a method that "
                "needs its loss alone, such as neg-grad-plus."
            )

    @torch.no_grad()
    def initial_logits(self, batch: Batch) -> Tensor:
        """The initial model's output on a batch."""
        with self._cast(batch):
            return widened(apply(self.initial, batch.inputs))

    @torch.no_grad()
    def final_logits(self, batch: Batch) -> Tensor:
        """The model's output on a batch as its user will see it: in eval mode."""
        with eval_mode(self.model), self._cast(batch):
            return widened(apply(self.model, batch.inputs))

    def _cast(self, batch: Batch) -> AbstractContextManager[Any]:
        """Within, matrix products and convolutions are computed in the problem's precision."""
        if self.precision == torch.float32:
            return nullcontext()
        return torch.autocast(batch.targets.device.type, dtype=self.precision)

    def loss(self, logits: Tensor, targets: Tensor) -> Tensor:
        """The mean loss of ``logits``."""
        try:
            value = self.loss_function(logits, targets)
        except torch.OutOfMemoryError:
            raise
        except FAULTS as error:
            raise InvalidInput(
                "The loss should take the model's outputs and the targets. (got "
                f"{describe_tensors(logits)} and {describe_tensors(targets)}, and the loss says: "
                f"{type(error).__name__}: {error}) cross_entropy, the default, takes outputs "
                "[N, K] and class numbers [N]; for a regression, pass its `loss`."
            ) from error
        check_scalar(value)
        return value

    def loss_on(self, batch: Batch) -> Tensor:
        """The mean loss on a batch."""
        return self.loss(self.logits(batch), batch.targets)

    def saliency(self, forget: Batch | None) -> Tensor | None:
        """The loss on a forget batch, for methods that do not otherwise visit it, if needed."""
        return self.loss_on(forget) if self.needs_saliency and forget is not None else None

    def pairs(self) -> Iterator[tuple[Batch, Batch]]:
        """One pass over the forget set, each batch with one of the retain set."""
        return _brought_by_run(self._pairs)()

    def retained(self) -> Iterator[Batch]:
        """One pass over the retain set."""
        return _brought_by_run(self._retained)()

    @property
    def splits(self) -> RunSplits:
        """The whole data of the run."""
        return _brought_by_run(self._splits)

    def gradient(self, batch: Batch) -> list[Tensor]:
        """The gradient of the mean loss on the batch of all processes; zeros where it has none."""
        loss = self.loss_on(batch) * share_weight(batch.share, self.group.size)
        return self.group.average(
            torch.autograd.grad(loss, self.parameters, allow_unused=True, materialize_grads=True)
        )

    def draw(self, high: int, like: Tensor, share: BatchShare | None = None) -> Tensor:
        """Integers uniform in 0..high-1, shaped and placed like ``like``.

        With the ``share`` of a batch, at most once per micro-batch, the numbers are those that a
        single process would draw for these examples.
        """
        numbers = draw_share(self.group, self.generator, high, like.shape, share)
        return numbers.to(like.device, non_blocking=True)

    @contextmanager
    def seeded(self) -> Iterator[None]:
        """Within, torch's global random numbers on the CPU are seeded by the method's stream."""
        seed = int(torch.randint(2**62, (), generator=self.generator))
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            yield

    def state_dict(self) -> dict[str, Any]:
        """The random stream and the memory; everything else is given again by the caller."""
        return {"generator": self.generator.get_state(), "memory": dict(self.memory)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue the random stream, with the memory there was."""
        self.generator.set_state(state["generator"])
        self.memory = dict(state["memory"])


def _brought_by_run(given: T | None) -> T:
    if given is None:
        raise InvalidInput("This method needs the data of a run; run it by `unlearn`.")
    return given


def widened(logits: Tensor) -> Tensor:
    """Half-precision logits in float32, for the losses; others as they are."""
    return logits.float() if logits.dtype in (torch.bfloat16, torch.float16) else logits


@contextmanager
def kept_modes(model: nn.Module) -> Iterator[None]:
    """Every module leaves in the mode, train or eval, in which it entered."""
    modes = [(module, module.training) for module in model.modules()]
    try:
        yield
    finally:
        for module, training in modes:
            module.training = training


@contextmanager
def eval_mode(model: nn.Module) -> Iterator[None]:
    """The model in eval mode, and back as it was."""
    with kept_modes(model):
        model.eval()
        yield


@contextmanager
def batchnorm_as(
    model: nn.Module, policy: BatchNormPolicy, split: str, size: int
) -> Iterator[None]:
    """A forward pass under ``policy``; a batch of one takes running statistics in any case."""
    frozen = policy == "frozen" or size == 1
    silent = policy == "retain-only" and split == "forget"
    if not model.training or not (frozen or silent):
        yield
        return
    layers = [m for m in model.modules() if isinstance(m, _BatchNorm) and m.training]
    before = [(m.momentum, m.num_batches_tracked) for m in layers]
    for m in layers:
        if frozen and m.running_mean is not None:
            m.eval()
        else:  # normalise by the batch, remember nothing
            m.momentum = 0.0
            if m.num_batches_tracked is not None:
                m.num_batches_tracked = m.num_batches_tracked.clone()
    try:
        yield
    finally:
        for m, (momentum, tracked) in zip(layers, before, strict=True):
            m.train()
            m.momentum, m.num_batches_tracked = momentum, tracked


def copy_of_moving(model: nn.Module) -> nn.Module:
    """A copy of a model that shares the frozen parameters, which no step changes, with it."""
    frozen = {id(p): p for p in model.parameters() if not p.requires_grad}
    return copy.deepcopy(model, frozen)  # what it finds there, it takes as copied already


FAULTS = (RuntimeError, TypeError, ValueError, LookupError, AttributeError, AssertionError)
"""What torch and models raise for values of a wrong kind, shape or type."""


def apply(model: nn.Module, inputs: Any) -> Tensor:
    """The logits of ``model``: a dict goes in by name; ``logits`` of an output count as them."""
    try:
        output = model(**inputs) if isinstance(inputs, Mapping) else model(inputs)
    except torch.OutOfMemoryError:
        raise
    except FAULTS as error:
        raise InvalidInput(
            f"The model should take the inputs as they come. (got {describe_tensors(inputs)}, and "
            f"the model says: {type(error).__name__}: {error}) {_remedy(model, inputs)}"
        ) from error
    return logits_of(output)


def logits_of(output: Any) -> Tensor:
    """The logits in what a model returned."""
    named = output.get("logits") if isinstance(output, Mapping) else None
    logits = getattr(output, "logits", output) if named is None else named
    if not isinstance(logits, Tensor) or not logits.is_floating_point() or not logits.ndim:
        raise InvalidInput(
            "The model should return logits [N, K], real numbers, or an object or dict that has "
            f"them as `logits`. (got {describe_tensors(logits)}) Put it into a module that does."
        )
    return logits


def describe_tensors(value: Any) -> str:
    """What messages call inputs, outputs and targets: ``float32 [4, 3]``."""
    if isinstance(value, Tensor):
        return f"{str(value.dtype).removeprefix('torch.')} {list(value.shape)}"
    if isinstance(value, Mapping):
        return "a dict of " + ", ".join(f"{k}: {describe_tensors(v)}" for k, v in value.items())
    if isinstance(value, tuple | list):
        return f"a {type(value).__name__} of {', '.join(map(describe_tensors, value))}"
    return type(value).__name__


def _remedy(model: nn.Module, inputs: Any) -> str:
    weights = next(model.parameters(), None)
    if isinstance(inputs, Mapping):
        return f"They go in by name: its `forward` should take {', '.join(map(str, inputs))}."
    if inputs.dtype == torch.uint8:
        return "Scale them to floats in [0, 1], or put expunge.models.Normalise first."
    if inputs.is_floating_point() and weights is not None and weights.dtype != inputs.dtype:
        dtype = describe_tensors(weights).split()[0]
        return f"Its weights are {dtype}: convert the inputs to that, or the model by `.float()`."
    return "Call the model on a batch of yours to see what it takes."


def check_class_numbers(logits: Tensor, targets: Tensor) -> None:
    """Refuse labels outside the classes; only on the CPU, where the check waits for no device."""
    if targets.dtype != torch.int64 or targets.device.type != "cpu":
        return
    if targets.ndim != 1 or logits.ndim != 2:  # tokens or pixels; if not, the loss says so
        return
    classes = logits.shape[-1]
    low, high = targets.aminmax()
    if low < 0 or high >= classes:
        bad = int(low if low < 0 else high)
        raise InvalidInput(
            f"Labels should be in 0..{classes - 1}, the model's classes. (got {bad})"
        )
