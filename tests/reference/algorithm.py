"""Algorithm 1 and Sections 4-5 of the paper, letter by letter: plain numbers, float64, loops.

Slow on purpose, and without a line in common with ``src``. A tensor is a list of floats here; a
:class:`Tensor1` carries one parameter tensor through several steps.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

Vector = list[float]


def normal_cdf(x: float) -> float:
    """Φ(x)."""
    return 0.5 * (1.0 + math.erf(x / math.sqrt(2.0)))


def focus(g_u: Vector, g_c: Vector, var_u: Vector, var_c: Vector, eps: float) -> Vector:
    """Equation (18) with the stability term of Algorithm 1."""
    f = []
    for i in range(len(g_u)):
        phi_u = normal_cdf(g_u[i] / math.sqrt(var_u[i] + eps))
        phi_c = normal_cdf(g_c[i] / math.sqrt(var_c[i] + eps))
        f.append(phi_u * phi_c + (1.0 - phi_u) * (1.0 - phi_c))
    return f


TAU = 8 * 2.0**-23
"""Deviation from the paper: what is smaller than this, relative to its peers, is rounding."""


def mask_and(g_u: Vector, g_c: Vector) -> Vector:
    """Equation (11), by signs: floats underflow where real numbers do not."""
    agree = [(u > 0 and c > 0) or (u < 0 and c < 0) for u, c in zip(g_u, g_c, strict=True)]
    return [1.0 if a else 0.0 for a in agree]


def is_stationary(largest_u: float, largest_c: float) -> bool:
    """Deviation: whether one gradient as a whole, by its largest entry, is rounding."""
    return largest_u <= TAU * largest_c or largest_c <= TAU * largest_u


def mask_and_above_rounding(g_u: Vector, g_c: Vector, largest_u: float, largest_c: float) -> Vector:
    """Equation (11) with the deviation: rounding agrees with nothing, nor does it disagree.

    An entry is measured by the largest one of its gradient, over all parameters. It is rounding
    where it is below ``TAU`` times the other gradient's entry, so measured.
    """
    if is_stationary(largest_u, largest_c):
        return [1.0] * len(g_u)
    mask = []
    for u, c, agrees in zip(g_u, g_c, mask_and(g_u, g_c), strict=True):
        size_u, size_c = abs(u) / largest_u, abs(c) / largest_c
        both_count = size_u > TAU * size_c and size_c > TAU * size_u
        mask.append(1.0 if agrees and both_count else 0.0)
    return mask


def mask_prob(f: Vector, p: float) -> Vector:
    """Equation (20)."""
    return [1.0 if x > p else 0.0 for x in f]


def mask_bernoulli(f: Vector, uniform: Vector) -> Vector:
    """Equation (22), given draws from [0, 1)."""
    return [1.0 if u < x else 0.0 for u, x in zip(uniform, f, strict=True)]


def mask_saliency(salience: Vector, largest: float, quantile: float = 0.5) -> Vector:
    """SalUn: at least the (lower) median of the absolute values, or another quantile of them.

    Deviation: a median below ``TAU`` times the largest entry over all parameters is zero.
    """
    sizes = [abs(s) for s in salience]
    median = sorted(sizes)[math.floor(quantile * (len(sizes) - 1))] if sizes else 0.0
    if median <= TAU * largest:
        median = 0.0
    return [1.0 if s >= median else 0.0 for s in sizes]


def comparable_products(g_u: Vector, g_c: Vector, largest_u: float, largest_c: float) -> Vector:
    """g_u·g_c, or 0 where one of them is rounding beside the other."""
    if is_stationary(largest_u, largest_c):
        return [0.0] * len(g_u)
    products = []
    for u, c in zip(g_u, g_c, strict=True):
        size_u, size_c = abs(u) / largest_u, abs(c) / largest_c
        both_count = size_u > TAU * size_c and size_c > TAU * size_u
        products.append(u * c if both_count else 0.0)
    return products


def mask_optimal(g_u: Vector, g_c: Vector, products: Vector, alpha: float, beta: float) -> Vector:
    """OPT: drop the lowest product, one after the other, until the step is feasible."""
    kept = sorted(range(len(g_u)), key=lambda i: products[i])
    last = -math.inf
    while kept:
        cross = math.fsum(products[i] for i in kept)
        along_u = alpha / beta * math.fsum(g_u[i] ** 2 for i in kept) + cross
        along_c = beta / alpha * math.fsum(g_c[i] ** 2 for i in kept) + cross
        if along_u >= 0 and along_c >= 0:
            break
        last = products[kept.pop(0)]
    return [1.0 if product > last else 0.0 for product in products]


def linear(g_u: Vector, g_c: Vector, alpha: float, beta: float) -> Vector:
    """Equation (13)."""
    return [alpha * u + beta * c for u, c in zip(g_u, g_c, strict=True)]


def min_abs(g_u: Vector, g_c: Vector) -> Vector:
    """Equation (14)."""
    return [u if abs(u) <= abs(c) else c for u, c in zip(g_u, g_c, strict=True)]


@dataclass
class AdamRecursion:
    """The second moment of Kingma and Ba, with their bias correction."""

    decay: float
    t: int = 0
    v: Vector = field(default_factory=list)

    def variance(self, g: Vector) -> Vector:
        self.t += 1
        self.v = self.v or [0.0] * len(g)
        self.v = [
            self.decay * v + (1.0 - self.decay) * x * x for v, x in zip(self.v, g, strict=True)
        ]
        return [v / (1.0 - self.decay**self.t) for v in self.v]


@dataclass
class PublishedRecursion:
    """The released code: v₁ = (1-ρ)g², then v ← ρg² + (1-ρ)v."""

    rho: float
    v: Vector | None = None

    def variance(self, g: Vector) -> Vector:
        if self.v is None:
            self.v = [(1.0 - self.rho) * x * x for x in g]
        else:
            self.v = [
                self.rho * x * x + (1.0 - self.rho) * v for v, x in zip(self.v, g, strict=True)
            ]
        return self.v


def sample_variance(parts: list[Vector]) -> Vector:
    """The variance of the mean of K gradients: Σₖ (gₖ - ḡ)² / (K(K-1))."""
    k = len(parts)
    result = []
    for column in zip(*parts, strict=True):
        mean = sum(column) / k
        result.append(sum((x - mean) ** 2 for x in column) / (k * (k - 1)))
    return result


@dataclass
class Outcome:
    """One step on one tensor: -Δ = weight · aggregated, and f where there is one."""

    step: Vector
    weight: Vector
    aggregated: Vector
    f: Vector | None


@dataclass
class Tensor1:
    """One parameter tensor under Algorithm 1 (its masks and aggregations included)."""

    addon: str
    aggregate: str
    moments: str = "adam"
    p: float = 0.3
    eps: float = 1e-8
    alpha: float = 0.05
    beta: float = 0.95

    def __post_init__(self) -> None:
        make = {"adam": lambda: AdamRecursion(0.999), "published": lambda: PublishedRecursion(0.9)}
        self.of_u = make[self.moments]() if self.moments in make else None
        self.of_c = make[self.moments]() if self.moments in make else None

    def step(
        self,
        g_u: Vector,
        g_c: Vector,
        *,
        uniform: Vector | None = None,
        variances: tuple[Vector, Vector] | None = None,
        salience: Vector | None = None,
        largest: tuple[float, float] | None = None,
    ) -> Outcome:
        """``largest``: of |g_u| and |g_c| over all parameters, if there are others."""
        f = None
        if self.addon in ("prob", "bernoulli", "focus"):
            if variances is None:
                variances = (self.of_u.variance(g_u), self.of_c.variance(g_c))
            f = focus(g_u, g_c, *variances, self.eps)
        if largest is None:
            largest = (max(map(abs, g_u), default=0.0), max(map(abs, g_c), default=0.0))
        weight = self._weight(g_u, g_c, f, uniform, salience, largest)
        if self.aggregate == "linear":
            aggregated = linear(g_u, g_c, self.alpha, self.beta)
        else:
            aggregated = min_abs(g_u, g_c)
        step = [w * a for w, a in zip(weight, aggregated, strict=True)]
        return Outcome(step, weight, aggregated, f)

    def _weight(self, g_u, g_c, f, uniform, salience, largest) -> Vector:
        match self.addon:
            case "none":
                return [1.0] * len(g_u)
            case "saliency":
                if salience is not None:
                    return mask_saliency(salience, max(map(abs, salience)))
                return mask_saliency(g_u, largest[0])
            case "and":
                return mask_and_above_rounding(g_u, g_c, *largest)
            case "prob" if self.p >= 0.5 and is_stationary(*largest):
                return [1.0] * len(g_u)
            case "prob" if self.p == 0.5:
                return mask_and_above_rounding(g_u, g_c, *largest)
            case "prob":
                return mask_prob(f, self.p)
            case "bernoulli":
                return mask_bernoulli(f, uniform)
            case "focus":
                return f
            case "optimal":
                products = comparable_products(g_u, g_c, *largest)
                return mask_optimal(g_u, g_c, products, self.alpha, self.beta)
        raise KeyError(self.addon)


def diagnostics(g_u: Vector, g_c: Vector, outcome: Outcome) -> dict[str, float]:
    """What Section 4 says about one step, over all parameters in one vector."""

    def dot(a: Vector, b: Vector) -> float:
        return math.fsum(x * y for x, y in zip(a, b, strict=True))

    n = len(g_u)
    moved = sum(w != 0 for w in outcome.weight)
    lengths = math.sqrt(dot(g_u, g_u)) * math.sqrt(dot(g_c, g_c))
    return {
        "objective_alignment": -dot(outcome.step, g_u),
        "constraint_alignment": -dot(outcome.step, g_c),
        "cosine": dot(g_u, g_c) / lengths if lengths else math.nan,
        "agreement": math.nan if outcome.f is None else math.fsum(outcome.f) / n,
        "moved": moved / n,
        "norm": math.sqrt(dot(outcome.step, outcome.step)),
        "bound": math.sqrt(moved) * max(abs(s) for s in outcome.step),
        "undecided": sum(mask_and(g_u, g_c)) / n,
    }
