"""Write the tables of docs/paper-mini.md and draw its figure, from the results of ``paper-mini``.

    python docs/_site/paper_mini.py

Rows are variants, columns the scenarios of a data set and model. A cell is a mean over seeds, as
delivered and after 50 benign steps; a second retrained model is the noise floor.
"""

from __future__ import annotations

import itertools
import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

import matplotlib as mpl

from expunge._files import write_text
from expunge.bench._protocol_file import load_protocol
from expunge.bench._results import BenchResult, BenchRun, load_results
from expunge.bench._stages import plan
from expunge.bench._tasks import TaskResults, group_results
from expunge.bench.paper.claims import claim_ledger
from expunge.bench.paper.claims._ledger import cells_of
from reproduction import MINI, REGION, ROOT, paired, rows_of, table

mpl.use("agg")

from matplotlib import pyplot as plt

PAGE = ROOT / "docs" / "paper-mini.md"
FIGURE = ROOT / "docs" / "images" / "hiding.png"
FLOOR = "another retrained model"
METHODS = {"random-label": ("SRL", "o"), "neg-grad-plus": ("NGPlus", "s"), "scrub": ("SCRUB", "^")}
ADDONS = {
    "none": ("alone", "#777777"),
    "saliency": ("SalUn", "#c59f00"),
    "and": ("AND", "#b2182b"),
    "prob": ("PROB", "#7b3fa0"),
    "focus": ("FOCUS", "#1b6ca8"),
}
REPLACING = {
    "mask-small-gradients": ("MSG", "x"),
    "conv-transpose": ("CT", "1"),
    "refresh": ("refresh", "*"),
}
"""Methods that replace weights."""
DIRECTIONS = {
    "focus-rua": "lowers |rUA|",
    "prob-rua": "lowers |rUA|",
    "and-rua": "lowers |rUA|",
    "focus-mia": "lowers the entropy attack",
    "ta-cost": "costs at most 1.6 points of TA",
    "fast": "reaches the method's last |rUA| in fewer epochs",
    "product-zero": "median |cosine| below 0.1",
    "quarters": "a quarter disagrees, half is uncertain",
    "and-shrinks": "the mask shrinks",
}
"""Claims about a method with an add-on, in a few words."""
Tasks = dict[str, TaskResults]


def tasks_by_block(results: Sequence[BenchResult]) -> dict[tuple[str, str], Tasks]:
    """Per data set and model, the scenarios that have runs."""
    blocks: dict[tuple[str, str], Tasks] = {}
    for runs in group_results(results):
        if runs.unlearned:
            own = blocks.setdefault((runs.task.dataset, runs.task.arch), {})
            own[runs.task.scenario] = runs
    return blocks


def coverage(results: Sequence[BenchResult]) -> str:
    """How many of the planned runs there are, by seed."""
    protocol = load_protocol("paper-mini")
    done, planned = _configurations(results), _configurations(plan(protocol, root=None))
    counts = [f"{done[s]} of {planned[s]} with seed {s}" for s in protocol.seeds]
    others = sum(r.baseline for r in results)
    return (
        f"Configurations that were run: {', '.join(counts)}; and {others} runs of FT, MSG, CT and "
        "refresh."
    )


def _configurations(runs: Iterable[BenchRun]) -> Counter[int]:
    """How many runs are configurations of the paper, by seed."""
    return Counter(r.seed for r in runs if not (r.is_reference or r.baseline) and r.addon in ADDONS)


def pivot(tasks: Tasks, cell: Callable[[Sequence[BenchResult], TaskResults], str]) -> str:
    """A row per variant, a column per scenario; the last row is a model retrained once more."""
    columns: list[dict[str, str]] = []
    for runs in tasks.values():
        named = dict(rows_of(runs)) | {FLOOR: runs.second_ideal}
        columns.append({name: cell(own, runs) for name, own in named.items()})
    names = list(dict.fromkeys(itertools.chain(*columns)))
    names.sort(key=lambda name: name == FLOOR)
    rows = [[name, *(column.get(name, "") for column in columns)] for name in names]
    return table(["", *tasks], rows)


def delivered_and_later(metric: str, later: str, style: str) -> Callable[..., str]:
    """A cell: the metric as delivered, and the other one after benign steps."""

    def cell(own: Sequence[BenchResult], runs: TaskResults) -> str:
        moments = [at_last(own, runs, name) for name in (metric, later)]
        return ", ".join(format(statistics.mean(m), style) for m in moments if m)

    return cell


def at_last(
    own: Sequence[BenchResult], runs: TaskResults, metric: str, *, less_ideal: bool = False
) -> list[float]:
    """The metric of each seed at the epoch of the others, or at the run's own last one."""
    others = runs.ideal if less_ideal else None
    return paired(own, others, metric, runs.epoch) or paired(own, others, metric, None)


def rmia(own: Sequence[BenchResult], runs: TaskResults) -> str:
    """A cell: the AUC of RMIA as delivered."""
    values = at_last(own, runs, "rmia_auc")
    return f"{statistics.mean(values):.2f}" if values else ""


def test_accuracy(own: Sequence[BenchResult], runs: TaskResults) -> str:
    """A cell: TA minus the retrained model's."""
    values = at_last(own, runs, "ta", less_ideal=True)
    return f"{statistics.mean(values):+.1f}" if values else ""


TABLES = {
    "rUA, as delivered and later": delivered_and_later("rua", "relearned_rua", "+.0f"),
    "AUC of the loss attack, as delivered and later": delivered_and_later(
        "loss_auc", "relearned_auc", ".2f"
    ),
    "AUC of RMIA, with both retrained models as references": rmia,
    "TA minus the retrained model's": test_accuracy,
}


def block_tables(results: Sequence[BenchResult]) -> str:
    """All tables of all blocks."""
    parts = []
    for (dataset, arch), tasks in tasks_by_block(results).items():
        parts.append(f"### {dataset}, {arch}")
        seeds = len({r.seed for runs in tasks.values() for r in runs.unlearned})
        for title, cell in TABLES.items():
            parts.append(f"{title}, n = {seeds}:")
            parts.append(pivot(tasks, cell))
    return "\n\n".join(parts)


def summary(results: Sequence[BenchResult]) -> str:
    """Means over the scenarios of each data set and model, those with every configuration alone."""
    families: dict[str, dict[str, dict[str, list[float]]]] = {}
    heads = []
    for (dataset, arch), tasks in tasks_by_block(results).items():
        complete = [runs for runs in tasks.values() if _is_complete(runs)]
        heads += [f"{dataset}, {arch}, scenarios: {len(complete)}"] if complete else []
        for runs in complete:
            for name, own in [*rows_of(runs), (FLOOR, runs.second_ideal)]:
                if "eps=" in name:  # one scenario alone
                    continue
                column = families.setdefault(_family(name), {}).setdefault(heads[-1], {})
                for metric in ("rua", "relearned_rua", "loss_auc", "relearned_auc"):
                    sizes = [abs(value) for value in at_last(own, runs, metric)]
                    column.setdefault(metric, []).extend(sizes)
                column.setdefault("ta", []).extend(at_last(own, runs, "ta", less_ideal=True))
    parts = []
    for title, style, metrics in (
        ("Mean |rUA|, as delivered and later", ".1f", ("rua", "relearned_rua")),
        (
            "Mean AUC of the loss attack, as delivered and later",
            ".3f",
            ("loss_auc", "relearned_auc"),
        ),
        ("Mean of TA minus the retrained model's", "+.1f", ("ta",)),
    ):
        rows = [
            [name, *(_means(columns.get(head, {}), metrics, style) for head in heads)]
            for name, columns in sorted(families.items(), key=lambda item: item[0] == FLOOR)
        ]
        parts += [f"{title}:", table(["", *heads], rows)]
    return "\n\n".join(parts)


def _is_complete(runs: TaskResults) -> bool:
    """Whether every method was run with every add-on."""
    done = {(variant.method, variant.addon) for variant in runs.main_variants}
    return done >= set(itertools.product(METHODS, ADDONS))


def _family(label: str) -> str:
    """The runs that a row of the summary averages over."""
    method, _, addon = label.partition("-")
    alone = method in (name for name, _ in METHODS.values())
    return ("with " + addon if addon else "SRL, NGPlus, SCRUB alone") if alone else label


def _means(column: dict[str, list[float]], metrics: Sequence[str], style: str) -> str:
    values = [column[metric] for metric in metrics if column.get(metric)]
    return ", ".join(format(statistics.mean(each), style) for each in values)


def order_table(results: Sequence[BenchResult]) -> str:
    """Whether the order of the add-ons is the same on other data and architectures."""
    findings = claim_ledger(results, ["order"]).findings
    rows = [[*cells_of(f), f.detail] for f in findings if f.status != "no data"]
    return table(["scenarios, method, metric", "status", "τ", "95 %", "n", ""], rows)


def directions(results: Sequence[BenchResult]) -> str:
    """In how many tasks the mean over seeds is as a claim says, by kind of scenario and method."""
    counts: dict[str, dict[str, list[bool]]] = {}
    for finding in claim_ledger(results, DIRECTIONS).findings:
        task, _, variant = finding.group.partition(" ")
        method, addon = variant.partition(",")[0].split(" against ")[0].split("-")
        if finding.effect is not None:
            row = f"{addon}: {DIRECTIONS[finding.claim.name]}"
            kind = f"{task.split('/')[2].partition(':')[0]}, {method}"
            counts.setdefault(row, {}).setdefault(kind, []).append(finding.as_claimed)
    columns = list(dict.fromkeys(kind for row in counts.values() for kind in row))
    columns.sort(key=lambda kind: kind.startswith("class"))
    rows = [
        [row, *(f"{sum(of[c])} of {len(of[c])}" if c in of else "" for c in columns)]
        for row, of in counts.items()
    ]
    return table(["", *columns], rows)


def points(
    results: Sequence[BenchResult], method: str, addon: str
) -> tuple[list[float], list[float]]:
    """rUA as delivered and after benign steps, of every run of a variant."""
    own = [r for r in results if (r.method, r.addon) == (method, addon) and not r.diverged]
    pairs = [(r.value("rua"), r.value("relearned_rua")) for r in own]
    known = [(a, b) for a, b in pairs if a is not None and b is not None]
    return [a for a, _ in known], [b for _, b in known]


def draw(results: Sequence[BenchResult]) -> None:
    """rUA as delivered against rUA after benign steps: a point per run."""
    figure, ax = plt.subplots(figsize=(6.4, 5.2), constrained_layout=True)
    for (method, (name, marker)), (addon, (words, colour)) in itertools.product(
        METHODS.items(), ADDONS.items()
    ):
        style = {"color": colour, "ms": 5, "alpha": 0.75, "mec": "white", "mew": 0.4}
        ax.plot(*points(results, method, addon), marker, ls="", **style)
        if addon == "none":
            ax.plot([], [], marker, ls="", color="black", mfc="none", label=name)
        if method == "scrub":
            ax.plot([], [], "o", ls="", color=colour, label=words)
    for method, (name, marker) in REPLACING.items():
        methods = {r.method for r in results if r.method.partition("(")[0] == method}
        for each in methods:
            ax.plot(*points(results, each, "none"), marker, ls="", color="black", ms=6)
        ax.plot([], [], marker, ls="", color="black", label=name)
    floor = [r for r in results if r.model == "ideal-2"]
    ax.plot(*points(floor, "", ""), "+", ls="", color="#0a7d32", ms=8, label="retrained again")
    ends = ax.get_xlim()
    ax.plot(ends, ends, color="#999999", lw=1, ls="--", zorder=0)
    ax.axhline(0, color="#999999", lw=1, zorder=0)
    ax.set(xlim=ends, xlabel="rUA as delivered, points", ylabel="rUA after 50 benign steps, points")
    ax.legend(fontsize=8, ncols=3, loc="lower right")
    drawn = sum(r.model == "unlearned" for r in results)
    ax.set_title(f"paper-mini, {drawn} runs: what seems gone comes back", fontsize=10)
    figure.savefig(FIGURE, dpi=150)


def filled(text: str, results: Sequence[BenchResult]) -> str:
    """The page with the content of every region made from the results."""
    makers = {
        "coverage": coverage,
        "summary": summary,
        "directions": directions,
        "order": order_table,
        "tables": block_tables,
    }
    return REGION.sub(lambda m: f"{m[1]}{makers[m[2]](results)}\n{m[3]}", text)


def main() -> None:
    """Rewrite the page and the figure."""
    results = load_results(MINI)
    write_text(PAGE, filled(PAGE.read_text(encoding="utf-8"), results))
    draw(results)
    print(f"Wrote {PAGE.relative_to(ROOT)} and {FIGURE.relative_to(ROOT)}.")


if __name__ == "__main__":
    main()
