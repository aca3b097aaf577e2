"""RMU: misdirect the activations of a layer (Li et al., 2024)."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from expunge._errors import InvalidInput
from expunge._kinds import Positive
from expunge.methods._retain_losses import RetainLoss
from expunge.methods._token_method import Batch, Problem, Term, TokenMethod
from expunge.methods._tokens import is_labelled, next_token_loss


@dataclass(frozen=True)
class RetainActivations(RetainLoss):
    """C = ‖h(y_<t) - h₀(y_<t)‖²/D at a layer, the mean over labelled tokens, then sequences.

    h are its activations [D] and h₀ those of the initial model, frozen in eval mode. It keeps the
    model up to ``layer`` (default: a fifth of the way up); what is above gets no gradient from it.

    Use it with RMU, whose objective is about activations as well.

    Reference: N. Li et al., *The WMDP Benchmark: Measuring and Reducing Malicious Use With
    Unlearning*, ICML 2024 (arXiv 2403.03218).
    """

    layer: str | None = None

    needs_initial: ClassVar[bool] = True

    def loss(self, problem: Problem, retain: Batch) -> Tensor:
        here, chosen, _ = activations(problem, retain, self.layer)
        before, _, _ = activations(problem, retain, self.layer, initial=True)
        return squared_distance(here, before, chosen)

    def size(self, retain: Batch) -> float:
        return len(retain.targets)


@dataclass(frozen=True)
class RMU(TokenMethod):
    """U = ‖h(y_<t) - c·u‖²/D at a layer, on forget; C = ‖h(y_<t) - h₀(y_<t)‖²/D on retain.

    h [D] are the activations of ``layer`` that lead to a labelled token, h₀ those of the initial
    model, u a unit vector drawn once per run with entries uniform in [0, 1) before it is scaled, c
    the ``coefficient``. Both are means over the labelled tokens of a sequence, then over sequences.

    Only parameters whose name contains a match of the regular expression ``parameters`` move; by
    default all up to ``layer``, as what is above gets no gradient. Published are block 7 of 32 as
    the layer (which is the default, in proportion) and the output weights of the MLPs of blocks 5
    to 7: ``RMU("model.layers.7", parameters=r"layers\\.[567]\\.mlp\\.down_proj")``.

    Use it to make a model useless on a subject (hazardous knowledge) rather than to make it
    forget records: outputs on forget become noise, which an attack can tell. c should be some times
    as large as activations are.

    Deviation: the paper writes ‖·‖², its released code divides by D, as here. Positions are those
    that lead to a labelled token; with the usual labels of a whole text both are all tokens.

    Reference: N. Li et al., *The WMDP Benchmark: Measuring and Reducing Malicious Use With
    Unlearning*, ICML 2024 (arXiv 2403.03218); c = 6.5 as there for a model of 7 B parameters.
    """

    layer: str | None = None
    coefficient: Positive = 6.5
    parameters: str | None = None
    retain: RetainLoss | str | None = field(
        default=RetainActivations(), kw_only=True, metadata={"later": True}
    )

    averages: ClassVar = "sequences"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.parameters is not None:
            try:
                re.compile(self.parameters)
            except re.error as error:
                raise InvalidInput(
                    f"`parameters` should be a regular expression. (got {self.parameters!r}: "
                    f"{error})"
                ) from error
        if self.retain == RetainActivations() and self.layer is not None:
            object.__setattr__(self, "retain", RetainActivations(self.layer))

    def parameters_to_update(self, problem: Problem) -> list[nn.Parameter]:
        if self.parameters is None:
            return super().parameters_to_update(problem)
        pattern = re.compile(self.parameters)
        named = problem.model.named_parameters()
        chosen = [p for name, p in named if p.requires_grad and pattern.search(name)]
        if not chosen:
            raise InvalidInput(
                "`parameters` should match the name of a parameter that requires a gradient, see "
                f"model.named_parameters(). (got {self.parameters!r}, which matches none)"
            )
        return chosen

    def forget_loss(self, problem: Problem, forget: Batch) -> Term:
        here, chosen, logits = activations(problem, forget, self.layer)
        loss = squared_distance(here, self.coefficient * _direction(problem, here), chosen)
        saliency = next_token_loss(logits, forget.targets) if problem.needs_saliency else None
        return Term(loss, saliency=saliency)


def squared_distance(values: Tensor, wanted: Tensor, chosen: Tensor) -> Tensor:
    """The mean over D, over the ``chosen`` positions of a sequence, then over the sequences."""
    wide = torch.promote_types(values.dtype, torch.float32)
    distances = (values.to(wide) - wanted.to(wide)).square().mean(dim=-1)
    means: Tensor = (distances * chosen).sum(dim=1) / chosen.sum(dim=1).clamp(min=1)
    return means.mean()


def _direction(problem: Problem, values: Tensor) -> Tensor:
    """The unit vector [D] of a run; drawn at its first step, and kept with it."""
    if "rmu" not in problem.memory:
        drawn = torch.rand(values.shape[-1], generator=problem.generator)
        problem.memory["rmu"] = drawn / drawn.norm()
    return problem.memory["rmu"].to(values.device)


def default_layer(model: nn.Module) -> str:
    """The name of a layer a fifth of the way up: block 7 of 32, as published for RMU.

    Blocks are the longest list of modules that is in no other. A model without such a list has its
    last layer with parameters before the output.

    >>> default_layer(nn.ModuleDict({"blocks": nn.ModuleList(nn.Linear(2, 2) for _ in range(12))}))
    'blocks.2'
    """
    lists = {n: m for n, m in model.named_modules() if isinstance(m, nn.ModuleList) and len(m)}
    outer = {n: m for n, m in lists.items() if not any(n.startswith(f"{o}.") for o in lists)}
    if outer:
        name: str = max(outer, key=lambda n: len(outer[n]))
        return f"{name}.{len(outer[name]) * 7 // 32}"
    own: list[str] = [
        n for n, m in model.named_modules() if any(True for _ in m.parameters(recurse=False))
    ]
    if not own:
        raise InvalidInput("A model whose activations are read should have layers with parameters.")
    return own[-2] if len(own) > 1 else own[0]


def find_layer(model: nn.Module, layer: str | None) -> nn.Module:
    """The module of a name, or the only one whose name ends so; None is the default layer."""
    modules = dict(model.named_modules())
    name = default_layer(model) if layer is None else layer
    matching = [name] if name in modules else [n for n in modules if n.endswith(f".{name}")]
    if len(matching) != 1:
        near = difflib.get_close_matches(name, modules, n=3, cutoff=0.4)
        hint = f"such as {', '.join(near)}" if near else "see model.named_modules()"
        raise InvalidInput(
            f"`layer` should be the name of one module of the model, {hint}. "
            f"(got {name!r}, which {len(matching) or 'none'} has)"
        )
    found: nn.Module = modules[matching[0]]
    return found


def activations(
    problem: Problem, batch: Batch, layer: str | None, *, initial: bool = False
) -> tuple[Tensor, Tensor, Tensor]:
    """What a layer of the model, or of the initial one, puts out on a batch [B, T-1, D].

    With it come which positions lead to a labelled token [B, T-1], as their logits do, and the
    logits. Of class numbers [B], there is one position with all activations of an example. Of an
    output that is a tuple, it is the first entry.
    """
    model = problem.initial if initial else problem.model
    seen: list[Any] = []  # a recomputation comes after the first
    keep = find_layer(model, layer).register_forward_hook(lambda _, __, out: seen.append(out))
    try:
        logits = problem.initial_logits(batch) if initial else problem.logits(batch)
    finally:
        keep.remove()
    if not seen:
        raise InvalidInput(
            f"The layer {layer or default_layer(model)!r} should take part in the forward pass. "
            "(it was not called)"
        )
    labels = batch.targets
    values: Tensor = seen[0][0] if isinstance(seen[0], tuple | list) else seen[0]
    if labels.dim() == 1:
        return values.flatten(1)[:, None], is_labelled(labels), logits
    if values.dim() != 3 or values.shape[:2] != labels.shape:
        raise InvalidInput(
            "A layer whose activations are read should put out [B, T, D] for labels [B, T]. "
            f"(got {list(values.shape)} for {list(labels.shape)})"
        )
    return values[:, :-1], is_labelled(labels), logits
