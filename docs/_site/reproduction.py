"""Write what the results in ``results/`` say into ``docs/reproduction.md``.

    python docs/_site/reproduction.py            # or `make results DATA=DIR`, which runs them first

The page has regions between ``<!-- begin: NAME -->`` and ``<!-- end: NAME -->``: their content is
replaced, everything else is left as it is. A test fails while the page is not up to date.
"""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from expunge._files import write_text
from expunge.bench._results import PAPER_METHODS, BenchResult, BenchRun, load_results
from expunge.bench._tasks import Sweep, TaskResults, group_results, one_per_seed, select_variants
from expunge.bench.paper._tables import MASKS_NGPLUS, PAPER_TABLES, Printed
from expunge.bench.paper.claims import ClaimFinding, claim_ledger
from expunge.bench.paper.claims._base import mean_over_seeds
from expunge.bench.paper.claims._ledger import cells_of
from expunge.bench.paper.claims._sweeps import (
    MIN_SETTINGS,
    RMIA_AUC,
    RUA,
    SWEPT_ADDONS,
    SWEPT_METHODS,
    UNSEEN,
    Remainder,
    balanced,
    compare_frontiers,
    seeds_of,
    unseen_gap,
)
from expunge.bench.tables._summary import Row, Summary, markdown_table
from expunge.evaluation import METRICS, Metric
from expunge.methods import METHODS

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "reproduction.md"
RESULTS = ROOT / "results" / "paper-eighth" / "results.jsonl"
MINI = ROOT / "results" / "paper-mini" / "results.jsonl"
FOCUS_ALPHA = ROOT / "results" / "focus-alpha"
"""What ``benchmarks/focus_alpha.py`` wrote: FOCUS and variants of it beside linear."""
RIVALS = ROOT / "results" / "rivals" / "results.jsonl"
"""Results of ``paper-mini`` so far; only tasks in which every variant has one are shown."""
TASK = "cifar10/vgg16/random:0.1"
CLASS_TASK = "cifar10/vgg16/class:3:0.4"
REGION = re.compile(r"(<!-- begin: (\w+) -->\n).*?(<!-- end: \2 -->)", flags=re.DOTALL)
AS_IN_SVHN = ("NGPlus-SalUn", "NGPlus-AND", "NGPlus-PROB", "NGPlus-FOCUS")
"""Rows that the paper has on SVHN with ResNet18 alone."""

TOLERANCE = 0.5
"""Points of the gap that nobody can tell from none: its standard error over 4,500 forgotten and
10,000 test images is 0.7."""
STOPS = {
    "seeds": Metric("seeds", "seeds with an admissible epoch", "none", "", 0),
    "epoch": Metric("epoch", "the chosen epoch", "none", "", 1),
    "lost": Metric("TA lost", "initial model's TA minus that of the chosen epoch", "none", "", 2),
    "abs_rua": Metric("|rUA|", "distance of rUA from zero", "none", "points", 2),
    "rmia_auc": Metric("RMIA AUC", METRICS["rmia_auc"].definition, "none", "", 3),
    "least": Metric("least UA - TA", "least gap to unseen images of any epoch", "none", "", 2),
}


class Stop(NamedTuple):
    """An evaluated epoch of a run, the points of TA it lost, and its gap to unseen images."""

    result: BenchResult
    epoch: float
    lost: float
    gap: float


def beside_paper(runs: TaskResults) -> str:
    """rUA, the part of the gap that is closed, and TA, with 95 % intervals, beside the paper's."""
    printed = _printed()
    paper_gap, paper_ideal = printed["initial"]["rua"][0], printed["ideal"]["ta"][0]
    gap = statistics.mean(paired(runs.initial, None, "rua", None))
    rows = []
    for label, results in rows_of(runs):
        theirs, mark = _theirs(printed, label)
        rua = paired(results, None, "rua", runs.epoch)
        ta = paired(results, runs.ideal, "ta", runs.epoch)
        rows.append(
            [
                label,
                _interval(rua),
                f"{theirs['rua'][0]:+.1f} ± {theirs['rua'][1]:.1f}{mark}" if theirs else "",
                _closed(rua, gap),
                _closed([theirs["rua"][0]], paper_gap) if theirs and not mark else "",
                _interval(ta),
                f"{theirs['ta'][0] - paper_ideal:+.1f}" if theirs and not mark else "",
                str(len(rua)),
            ]
        )
    heads = ["", "rUA: ours [95 %]", "paper ± std", "gap closed, %: ours", "paper"]
    heads += ["TA minus the ideal's: ours [95 %]", "paper", "n"]
    return table(heads, rows)


def rest_beside_paper(runs: TaskResults) -> str:
    """The other columns of the paper's tables: RA, FID and the entropy attack; ours with RMIA."""
    printed = _printed()
    ideal = printed["ideal"]
    rows = []
    for label, results in rows_of(runs):
        theirs, mark = _theirs(printed, label)
        theirs = {} if mark else theirs
        cells = [label]
        for metric, decimals in (("ra", 1), ("mia_entropy", 2)):
            cells.append(_interval(paired(results, runs.ideal, metric, runs.epoch), decimals))
            cells.append(f"{theirs[metric][0] - ideal[metric][0]:+.{decimals}f}" if theirs else "")
        fid = paired(results, None, "fid", runs.epoch)
        cells += [_interval(fid, signed=False), f"{theirs['fid'][0]:.1f}" if theirs else ""]
        cells.append(_interval(paired(results, None, "rmia_auc", runs.epoch), 3, signed=False))
        rows.append(cells)
    heads = ["", "RA minus the ideal's: ours [95 %]", "paper"]
    heads += ["entropy attack minus the ideal's: ours [95 %]", "paper"]
    heads += ["FID: ours [95 %]", "paper", "RMIA AUC: ours [95 %]"]
    return table(heads, rows)


def clock_table(findings: Iterable[ClaimFinding], runs: TaskResults) -> str:
    """Frontiers with an add-on minus without: a row per variant of the random task, one for all."""
    found = {(finding.claim.name, finding.group): finding for finding in findings}
    groups = dict.fromkeys(
        group
        for name, group in found
        if name in ("clock", "clock-masks") and group.startswith(f"{TASK} ")
    )
    rows = []
    for group in groups:
        area = found.get(("clock", group)) or found[("clock-masks", group)]
        others = (found.get((name, group)) for name in ("clock-unseen", "clock-rmia", "fast"))
        unseen, rmia, fast = others
        if area.status == "no data":
            continue
        settings = re.search(r"(\d+) settings", area.detail)
        rows.append(
            [
                group.removeprefix(f"{TASK} "),
                _effect(area),
                _effect(unseen),
                _effect(rmia),
                _effect(fast, sign=""),
                settings[1] if settings else "",
                str(area.n),
            ]
        )
    joint = [_joint(runs, remainder) for remainder in (RUA, UNSEEN, RMIA_AUC)]
    if all(joint):
        cells = (_interval(areas, 2) for areas in joint)
        rows.append(["FOCUS on the three together", *cells, "", "", str(len(joint[0]))])
    heads = ["", "|rUA| at equal loss of TA, points [95 %]", "|UA - TA|, points [95 %]"]
    heads += ["|RMIA AUC - 0.5|, hundredths [95 %]"]
    heads += ["epochs to the last |rUA| of the method alone", "settings", "n"]
    return table(heads, rows)


def stops_table(runs: TaskResults) -> str:
    """Where each variant of a sweep would be stopped without an ideal model.

    Every evaluated epoch of every setting is a candidate. Admissible are those at which the model
    is right on forgotten images no more often than on test images of their classes, up to half a
    point; the one with the highest TA is chosen. The ideal model judges the choice afterwards.

    Deviation: a practitioner would take accuracies on held-out data for the choice, and others to
    report. Results have those on test data alone.
    """
    rows: list[Row] = []
    for method in SWEPT_METHODS:
        seen: dict[tuple[object, ...], Row] = {}
        for variant in select_variants(runs.variants, method, SWEPT_ADDONS):
            # Add-ons with other settings have a row of the method alone of their own.
            base, addon = balanced(
                (runs.sweep(BenchRun(method)), runs.sweep(variant)), MIN_SETTINGS
            )
            if base:
                settings = f", {len(base)} settings"
                seen.setdefault(tuple(base), stops_row(BenchRun(method).label + settings, base))
                seen[variant, *base] = stops_row(variant.label + settings, addon)
        rows += seen.values()
    summary = Summary((), tuple(STOPS), columns=STOPS)
    cells = [[row.label, *(summary.cell(row, name) for name in STOPS)] for row in rows]
    return table(["", *(summary.metric(name).label for name in STOPS)], cells)


def stops_row(label: str, sweep: Sweep) -> Row:
    """Means over the seeds that have an admissible epoch; the least gap is over all seeds."""
    tried = [found for seed in seeds_of(sweep) if (found := stops_of(sweep, seed))]
    chosen = [stop for found in tried if (stop := chosen_stop(found)) is not None]
    values = {
        "epoch": tuple(float(stop.epoch) for stop in chosen),
        "lost": tuple(stop.lost for stop in chosen),
        "least": tuple(min(stop.gap for stop in found) for found in tried),
    }
    for metric in ("abs_rua", "rmia_auc"):
        known = (stop.result.value(metric, stop.epoch) for stop in chosen)
        values[metric] = tuple(value for value in known if value is not None)
    return Row(label, values, {"seeds": (len(chosen), math.nan)})


def stops_of(sweep: Sweep, seed: int) -> list[Stop]:
    """Every evaluated epoch of every setting that a seed was run with, epoch 0 excluded."""
    found = []
    for seeds in sweep.values():
        result = seeds[seed]
        start = result.value("ta", 0)
        for row in result.evaluated:
            gap = unseen_gap(row)
            if row["epoch"] and gap is not None and start is not None:
                found.append(Stop(result, row["epoch"], start - row["ta"], gap))
    return found


def chosen_stop(stops: Iterable[Stop]) -> Stop | None:
    """The one of highest TA among those no better on forgotten than on unseen images."""
    admissible = (stop for stop in stops if stop.gap <= TOLERANCE)
    return min(admissible, key=lambda stop: (stop.lost, stop.epoch), default=None)


def _joint(runs: TaskResults, remainder: Remainder) -> list[float]:
    """For each seed that all three methods have, the mean of their differences with FOCUS."""
    areas: list[dict[int, float]] = []
    for method in PAPER_METHODS:
        focus = BenchRun(method, "focus", "published")
        compared = compare_frontiers(
            runs.sweep(BenchRun(method)), runs.sweep(focus), remainder=remainder
        )
        areas.append(dict(zip(compared.base, compared.means, strict=True)))
    seeds = sorted(set.intersection(*(set(each) for each in areas)))
    return [statistics.mean(each[seed] for each in areas) for seed in seeds]


def alpha_table(results: Sequence[BenchResult]) -> str:
    """Variants of FOCUS minus ``linear`` at the α of its steps, at equal loss of TA, by seed."""
    rows = []
    for runs in group_results(results):
        for method in dict.fromkeys(result.method for result in runs.unlearned):
            own = [result for result in runs.unlearned if result.method == method]
            paths = {
                name: {BenchRun(method): one_per_seed(r for r in own if r.addon == name)}
                for name in dict.fromkeys(result.addon for result in own)
            }
            base = paths.pop("linear")
            for name, path in paths.items():
                cells = [f"{METHODS.label(method)}: {name}"]
                for remainder in (RUA, UNSEEN):
                    compared = compare_frontiers(base, path, remainder=remainder, least=1)
                    cells.append(_interval(compared.means, 2))
                ends = [paired(each[BenchRun(method)].values(), None, metric, None)
                        for metric in ("rua", "ta") for each in (base, path)]  # fmt: skip
                rua, ta = ([statistics.mean(x) for x in ends[k : k + 2]] for k in (0, 2))
                reached = f"{compared.ta_lost[-1]:g}"
                cells += [reached, f"{rua[0]:+.1f}, {rua[1]:+.1f}", f"{ta[0]:.1f}, {ta[1]:.1f}"]
                rows.append([*cells, str(len(compared.means))])
    heads = ["", "|rUA| at equal loss of TA, points [95 %]", "|UA - TA|, points [95 %]"]
    heads += ["largest loss of TA", "rUA at epoch 10: linear, it", "TA: linear, it", "n"]
    return table(heads, rows)


def class_table(runs: TaskResults) -> str:
    """Class-wise forgetting: rUA, TA and RMIA, without numbers of the paper."""
    rows = [
        [
            label,
            _interval(paired(results, None, "rua", runs.epoch)),
            _interval(paired(results, runs.ideal, "ta", runs.epoch)),
            _interval(paired(results, None, "rmia_auc", runs.epoch), 3, signed=False),
            str(len(paired(results, None, "rua", runs.epoch))),
        ]
        for label, results in rows_of(runs)
    ]
    return table(["", "rUA", "TA minus the ideal's", "RMIA AUC", "n"], rows)


def hiding_table(results: Sequence[BenchResult]) -> str:
    """Per task and variant, what is left as delivered and after benign steps, and TA."""
    tasks = group_results(results)
    complete = max(len(rows_of(runs)) for runs in tasks)
    rows = []
    for runs in tasks:
        variants = rows_of(runs)
        if len(variants) < complete:
            continue
        if runs.second_ideal:
            variants.append(("another retrained model", runs.second_ideal))
        for label, own in variants:
            cells = [f"{runs.name}: {label}"]
            for metric, decimals in (("rua", 1), ("loss_auc", 3)):
                later = "relearned_rua" if metric == "rua" else "relearned_auc"
                moments = [paired(own, None, name, runs.epoch) for name in (metric, later)]
                signed = metric == "rua"
                cells.append(", ".join(_interval(v, decimals, signed=signed) for v in moments))
            cells.append(_interval(paired(own, runs.ideal, "ta", runs.epoch)))
            rows.append([*cells, str(len(own))])
    heads = ["", "rUA, later", "AUC of the loss attack, later", "TA minus the ideal's", "n"]
    return table(heads, rows)


def _claims_table(results: Sequence[BenchResult]) -> str:
    """The findings of the claims that only these results have data for."""
    findings = claim_ledger(results, ["flat-constraint", "msg-threshold"]).findings
    rows = [[f.claim.name, *cells_of(f)[1:], f.detail] for f in findings]
    return table(["claim", "status", "effect", "interval", "n", "detail"], rows)


def rows_of(runs: TaskResults) -> list[tuple[str, Sequence[BenchResult]]]:
    """The initial model, then methods alone, then each method with its add-ons."""
    variants = runs.main_variants
    order = list(dict.fromkeys(variant.method for variant in variants))

    def rank(variant: BenchRun) -> tuple[bool, int]:
        several = len([other for other in variants if other.method == variant.method]) > 1
        return several, order.index(variant.method)

    chosen = [(variant.label, variants[variant]) for variant in sorted(variants, key=rank)]
    finished = [(label, [r for r in results if not r.diverged]) for label, results in chosen]
    return [("initial", list(runs.initial)), *((name, some) for name, some in finished if some)]


def paired(
    results: Iterable[BenchResult],
    others: Iterable[BenchResult] | None,
    metric: str,
    epoch: int | None,
) -> list[float]:
    """The metric of each seed, minus that of ``others`` with the same seed."""
    reference = one_per_seed(others or ())
    values = []
    for seed, result in one_per_seed(results).items():
        value: float | None = result.value(metric, None if result.is_reference else epoch)
        less: float | None = 0.0
        if others is not None:
            less = reference[seed].value(metric) if seed in reference else None
        if value is not None and less is not None:
            values.append(value - less)
    return values


def _interval(values: Sequence[float], decimals: int = 1, *, signed: bool = True) -> str:
    """``+2.6 [+0.9, +4.3]``; the mean alone where there are too few seeds."""
    if not values:
        return ""
    mean = mean_over_seeds(values)
    style = f"{'+' if signed else ''}.{decimals}f"
    if mean.interval is None:
        return format(mean.value, style)
    low, high = mean.interval
    low = low if signed else max(low, 0.0)  # what has no sign is not below zero
    return f"{mean.value:{style}} [{low:{style}}, {high:{style}}]"


def _effect(finding: ClaimFinding | None, sign: str = "+") -> str:
    if finding is None or finding.effect is None:
        return ""
    unit = " x" if finding.unit.startswith("×") else ""
    if finding.interval is None:
        return f"{finding.effect:{sign}.2f}{unit}"
    low, high = finding.interval
    return f"{finding.effect:{sign}.2f}{unit} [{low:{sign}.2f}, {high:{sign}.2f}]"


def _closed(rua: Sequence[float], gap: float) -> str:
    """The part of the gap that is closed, in percent, from the distance of the mean rUA from zero.

    The paper prints means alone, so ours have to be taken the same way.
    """
    left = abs(statistics.mean(rua))
    if left <= gap:
        return f"{100 * (1 - left / gap):.0f}"
    return "overshot" if statistics.mean(rua) < 0 else "none"


def _printed() -> Printed:
    (whole,) = (part.rows for part in PAPER_TABLES if part.table == "table2")
    rows = {**whole, "SRL-SalUn": whole["SalUn"]}
    return rows | {label: MASKS_NGPLUS[label] for label in AS_IN_SVHN}


def _theirs(printed: Printed, label: str) -> tuple[dict[str, tuple[float, float]], str]:
    """The paper's row of that name, and a mark where it is of other data.

    The rows of its SCRUB stand beside ours of the loss that its code has.
    """
    name = label.replace("SCRUB(loss=released)", "SCRUB") if "(loss=released)" in label else label
    if name == label and label.startswith("SCRUB"):
        return {}, ""
    return printed.get(name, {}), " (SVHN)" if name in AS_IN_SVHN else ""


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table whose numbers have minus signs, and break before an interval and not within it."""
    unbroken = {"-": "\u2212", ", ": ",\u00a0", " ± ": "\u00a0±\u00a0"}
    cells = []
    for label, *numbers in rows:
        for text, better in unbroken.items():
            numbers = [number.replace(text, better) for number in numbers]
        cells.append([label, *numbers])
    return "\n".join(markdown_table(list(heads), cells, alignment="l" + "r" * (len(heads) - 1)))


def filled(text: str, results: Sequence[BenchResult]) -> str:
    """The page with the content of every region made from the results."""
    tasks = {runs.name: runs for runs in group_results(results)}
    ledger = claim_ledger(results)
    makers: dict[str, Callable[[], str]] = {
        "ledger": lambda: f"The ledger: {ledger.count}.",
        "beside": lambda: beside_paper(tasks[TASK]),
        "rest": lambda: rest_beside_paper(tasks[TASK]),
        "clock": lambda: clock_table(ledger.findings, tasks[TASK]),
        "stops": lambda: stops_table(tasks[TASK]),
        "focus_alpha": lambda: alpha_table(load_results(FOCUS_ALPHA / "results.jsonl")),
        "start_claims": lambda: _claims_table(load_results(FOCUS_ALPHA / "claims.jsonl")),
        "class": lambda: class_table(tasks[CLASS_TASK]),
        "rivals_hiding": lambda: hiding_table(
            [result for result in load_results(RIVALS) if result.dataset == "digits"]
        ),
    }

    def fill(match: re.Match[str]) -> str:
        return f"{match[1]}{makers[match[2]]()}\n{match[3]}"

    return REGION.sub(fill, text)


def main() -> None:
    """Rewrite the page."""
    text = PAGE.read_text(encoding="utf-8")
    write_text(PAGE, filled(text, load_results(RESULTS)))
    print(f"Wrote {PAGE.relative_to(ROOT)}.")


if __name__ == "__main__":
    main()
