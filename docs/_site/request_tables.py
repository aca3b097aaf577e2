"""Write what the rows in ``results/requests/`` say into the documents.

    python docs/_site/request_tables.py

The rows are those of ``benchmarks/requests.py``. Regions between ``<!-- begin: NAME -->`` and
``<!-- end: NAME -->`` are replaced; a test fails while a page is not up to date.
"""

from __future__ import annotations

import json
import re
import statistics
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from expunge._files import write_text
from reproduction import REGION, ROOT, _interval, markdown_table, table

sys.path.append(str(ROOT / "benchmarks"))
from request_judge import beyond_margins, floor_of, u_lira
from request_worlds import KINDS

sys.path.pop()  # a benchmark there has the name of a library

PAGES = tuple(
    ROOT / name
    for name in (
        "docs/choosing.md",
        "docs/explanation/requests.md",
        "docs/explanation/language-models.md",
        "README.md",
    )
)
RESULTS = ROOT / "results" / "requests"
Row = dict[str, Any]
MIN_SEEDS = 3
"""Models that a method is shown for in the README."""
IN_README = ("initial", "SRL-FOCUS", "FT-recipe", "MSG-recipe", "refresh", "retrained")
WORLDS = {
    "vgg": "VGG16 x 1/8, CIFAR-10",
    "vgg-10000": "VGG16 x 1/8, CIFAR-10, 10,000 images",
    "vgg-45000": "VGG16 x 1/8, CIFAR-10, 45,000 images",
    "vgg-svhn": "VGG16 x 1/8, SVHN, 10,000 images",
    "resnet": "ResNet18 x 1/8, CIFAR-10",
    "cnn": "CNN, SVHN",
    "mlp": "MLP, synthetic table",
    "rows": "MLP, digits as a table",
    "digits": "CNN, digits",
    "text": "transformer, texts",
}
SETS = {
    "random": "{} at random",
    "class": "{} of a class",
    "records": "{} of a class",
    "person": "a person of {}",
    "sequence": "{} requests of 1 % in a row",
}
LARGE = 100
"""Requests of so many records or more should be achieved; fewer are often inconclusive."""
FIRST = "SRL-FOCUS"
"""The first-order method of the tables of sizes and claims."""
NAMES = {"initial": "before", "retrained": "floor: another retrained model"}


class Methods:
    """The rows of a kind of model by method; ``clean`` are of models that never saw the records."""

    def __init__(self, rows: Iterable[Row], kind: str) -> None:
        self.kind = kind
        self.rows: dict[str, list[Row]] = defaultdict(list)
        self.clean: dict[str, list[Row]] = defaultdict(list)
        for row in sorted(rows, key=lambda row: row["seed"]):
            if row["kind"] == kind:
                (self.rows if row["start"] == "initial" else self.clean)[row["name"]].append(row)

    def seeds(self, name: str) -> int:
        """For how many models there is a row."""
        return len(self._counted(name))

    def values(self, name: str, moment: str, metric: str) -> list[float]:
        """A metric of every model; of two retrained models, once per pair."""
        return [row[moment][metric] for row in self._counted(name)]

    def costs(self, name: str) -> list[float]:
        """Processor time over that of retraining."""
        return [row["cost"] for row in self._counted(name)]

    def worst_class(self, name: str, moment: str) -> float:
        """By how much a class is lower than retrained, at most, in the mean over models."""
        classes = zip(*self.values(name, moment, "class_diff"), strict=True)  # type: ignore[arg-type]
        return -min(statistics.mean(each) for each in classes)

    def attack(self, name: str, moment: str) -> Row | None:
        """U-LiRA, where there are three models of either kind."""
        members = [row[moment]["confidence"] for row in self.rows[name]]
        others = [row[moment]["confidence"] for row in self.clean[name] or self.rows["retrained"]]
        if name == "retrained":
            members, others = members[::2], members[1::2]
        return u_lira(members, others) if min(len(members), len(others)) > 2 else None

    def _counted(self, name: str) -> list[Row]:
        return [row for row in self.rows[name] if name != "retrained" or row["seed"] % 2 == 0]


def methods_tables(every: Iterable[Methods], moment: str) -> str:
    """A table per kind of model, with its name above."""
    return "\n\n".join(f"{WORLDS[m.kind]}:\n\n{methods_table(m, moment)}" for m in every)


def methods_table(methods: Methods, moment: str) -> str:
    """Every method, as delivered or after benign steps, beside retrained models."""
    rows = []
    for name in _ordered(methods):
        attack = methods.attack(name, moment)
        auc = methods.values(name, moment, "auc_loss")
        cells = [
            NAMES.get(name, name),
            f"{statistics.mean(methods.values(name, moment, 'ua')):.1f}",
            _interval(methods.values(name, moment, "ua_diff")),
            _interval(methods.values(name, moment, "ta_diff")),
            f"{statistics.mean(auc):.3f}",
            _interval(methods.values(name, moment, "auc_loss_diff"), 3),
            "" if attack is None else f"{attack['u_lira']:.3f}, {attack['u_lira_tpr']:.1f} %",
            f"{statistics.mean(methods.values(name, moment, 'kl')):.2f}",
            f"{methods.worst_class(name, moment):.1f}",
        ]
        if moment == "delivered":
            cells.append("" if name == "initial" else f"{statistics.mean(methods.costs(name)):.2f}")
        rows.append([*cells, str(methods.seeds(name))])
    heads = ["", "UA", "rUA [95 %]", "TA minus retrained [95 %]", "AUC of the loss attack"]
    heads += ["minus retrained [95 %]", "U-LiRA: AUC, TPR at 1 % FPR", "KL", "worst class"]
    heads += ["cost", "n"] if moment == "delivered" else ["n"]
    return table(heads, rows)


def short_table(methods: Methods) -> str:
    """A few methods, for the README."""
    rows = []
    for name in IN_README:
        if methods.seeds(name):
            cells = [NAMES.get(name, name)]
            for moment in ("delivered", "relearned"):
                cells.append(_interval(methods.values(name, moment, "ua_diff")))
                cells.append(_interval(methods.values(name, moment, "auc_loss_diff"), 3))
            cells.append(_interval(methods.values(name, "delivered", "ta_diff")))
            cost = statistics.mean(methods.costs(name))
            rows.append([*cells, "" if name == "initial" else f"{cost:.2f}"])
    heads = ["", "rUA", "AUC", "rUA after 50 benign steps", "AUC after them", "TA", "cost"]
    return table(heads, rows)


def frontier_table(rows: Sequence[Row]) -> str:
    """Settings of ``refresh`` per kind of model, by what comes back."""
    groups: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in rows:
        groups[row["kind"], row["name"]].append(row)

    def order(item: tuple[tuple[str, str], list[Row]]) -> tuple[int, float]:
        later = statistics.mean(row["relearned"]["auc_loss_diff"] for row in item[1])
        return list(WORLDS).index(item[0][0]), later

    lines = []
    for (kind, name), own in sorted(groups.items(), key=order):
        cells = [WORLDS[kind], f"`{name}`", f"{statistics.mean(row['keep'] for row in own):.2f}"]
        for metric, digits in (("ua_diff", 1), ("auc_loss_diff", 3), ("ta_diff", 1)):
            moments = ("delivered",) if metric == "ta_diff" else ("delivered", "relearned")
            cells.append(", ".join(_mean(own, moment, metric, digits) for moment in moments))
        cost = statistics.mean(row["cost"] for row in own)
        lines.append([*cells, f"{cost:.2f}", str(len(own))])
    heads = [
        "",
        "setting",
        "keep",
        "rUA, later",
        "AUC minus retrained, later",
        "TA minus retrained",
    ]
    return table([*heads, "cost", "n"], lines)


def requests_table(rows: Sequence[Row]) -> str:
    """A line per model and forget set: means over seeds."""
    groups: dict[tuple[str, str, str], list[Row]] = defaultdict(list)
    for row in rows:
        groups[row["kind"], row["name"], row["set"]].append(row)
    lines = []
    for (kind, name, chosen), own in sorted(groups.items(), key=_request_order):
        lines.append(
            [
                f"{WORLDS[kind]}, {name}: {set_in_words(chosen)}",
                f"{own[0]['records']:,}",
                verdicts(own),
                f"{100 * max(row['bound'] for row in own):.0f} %",
                ", ".join(
                    _mean(own, m, "ua_diff", 1) for m in ("before", "delivered", "relearned")
                ),
                ", ".join(_mean(own, m, "auc_loss_diff", 3) for m in ("delivered", "relearned")),
                _mean(own, "delivered", "ta_diff", 1),
                ", ".join(
                    sorted({b for row in own for each in row["beyond"].values() for b in each})
                ),
                f"{statistics.mean(row['cost'] for row in own):.2f}",
                ", ".join(sorted({row["code"] for row in own})),
                str(len(own)),
            ]
        )
    heads = ["request", "records", "verdicts", "bound of attacks", "rUA: before, after, later"]
    heads += ["AUC minus retrained: after, later", "TA minus retrained", "beyond the margins"]
    return table([*heads, "cost", "commit", "n"], lines)


def split_table(rows: Sequence[Row]) -> str:
    """Where the processor time of requests by default settings went, over that of retraining."""
    stages = ("preflight", "method", "steps", "checks", "audit", "page", "total")
    lines = []
    for kind in WORLDS:
        own = [row for row in rows if row["kind"] == kind and row["name"] == "refresh"]
        if own:
            shares = [
                statistics.mean(row["seconds"][s] / row["retraining_seconds"] for row in own)
                for s in stages
            ]
            seconds = statistics.mean(row["retraining_seconds"] for row in own)
            lines.append([WORLDS[kind], f"{seconds:.0f}", *(f"{100 * s:.1f} %" for s in shares)])
    return table(["", "retraining, s", *stages], lines)


def sizes_table(every: Sequence[Methods], requests: Sequence[Row], *, short: bool = False) -> str:
    """What a request costs by each way, by how long retraining takes; ``short`` for the README.

    Costs are of a tenth at random, judging included. Judging costs a request what is left of its
    time without method and steps; where no exact request was made, it is retraining and that.
    """
    lines = []
    for kind in WORLDS:
        own = [row for row in requests if (row["kind"], row["set"]) == (kind, "random:0.1")]
        by_name = {name: [r for r in own if r["name"] == name] for name in ("exact", "refresh")}
        exact, refresh = by_name["exact"], by_name["refresh"]
        if not refresh:
            continue
        judging = statistics.mean(_judging(row) / row["retraining_seconds"] for row in refresh)
        cheap = next((m.costs(FIRST) for m in every if m.kind == kind and m.seeds(FIRST)), None)
        seconds = statistics.mean(row["retraining_seconds"] for row in own)
        costs = [
            f"{_cost(exact):.2f}" if exact else f"about {1 + judging:.2f}",
            f"{_cost(refresh):.2f}",
            "" if cheap is None else f"{statistics.mean(cheap) + judging:.2f}",
        ]
        size = f"{10 * refresh[0]['records']:,} × {KINDS[kind].recipe.epochs}"
        cells = [WORLDS[kind].partition(", 1")[0].partition(", 4")[0], size, f"{seconds:.0f} s"]
        large = (r for r in requests if r["kind"] == kind and asked_for(r) >= LARGE)
        tail = [verdicts([row for row in large if row["name"] == "refresh"])]
        lines.append((seconds, [*cells, *costs, *([] if short else tail)]))
    lines.sort(key=lambda line: line[0])
    heads = ["", "records × epochs", "retraining", "exact", "refresh", FIRST]
    if short:  # the largest, and those that all three ways were measured for
        return table(heads, [line for _, line in lines if line[-1] or line is lines[-1][1]])
    return table([*heads, f"verdicts on {LARGE} records or more"], [line for _, line in lines])


def claims_table(methods: Methods, requests: Sequence[Row]) -> str:
    """What each way can claim, with what was measured of it."""
    large = [r for r in requests if r["name"] == "refresh" and asked_for(r) >= LARGE]
    achieved = [row for row in large if row["status"] == "achieved"]
    false = sum(row["false"] for row in achieved)
    bound = statistics.median(row["bound"] for row in achieved)

    def auc(moment: str) -> str:
        return _interval(methods.values(FIRST, moment, "auc_loss_diff"), 3)

    lines = [
        [
            "exact",
            "retained data and the recipe",
            "the new weights never met the records: true by construction",
            "nothing to measure but the cost",
        ],
        [
            "refresh",
            "retained data and the recipe, for a fifth of its epochs",
            "a bound on every attack tried, as delivered and after benign steps",
            f"{len(achieved)} of {len(large)} requests for {LARGE} records or more achieved, with "
            f"a median bound of {100 * bound:.0f} % of pairs; {false} of them beyond the margins "
            "of one retrained model",
        ],
        [
            f"first order ({FIRST})",
            "the records, retained data, a rate that suits",
            "that it looks forgotten as delivered; no bound after benign steps",
            f"AUC of the loss attack minus retrained, {WORLDS[methods.kind]}: {auc('delivered')} "
            f"as delivered, {auc('relearned')} after 50 benign steps",
        ],
    ]
    heads = ["", "needs", "can claim", "measured"]
    return "\n".join(markdown_table(heads, lines, alignment="llll"))


def _judging(row: Row) -> float:
    return float(row["seconds"]["total"] - row["seconds"]["steps"] - row["seconds"]["method"])


def _cost(rows: Sequence[Row]) -> float:
    return statistics.mean(row["cost"] for row in rows)


Floors = dict[tuple[str, str], dict[str, float]]


def floors_of(rows: Iterable[Row]) -> Floors:
    """By kind of model and moment, how far two retrained models are from each other."""
    pairs: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in rows:
        if row["name"] == "retrained":
            for moment in ("delivered", "relearned"):
                pairs[row["kind"], moment].append(row[moment])
    return {place: floor_of(each) for place, each in pairs.items()}


def is_false_beyond_floor(row: Row, floors: Floors) -> bool:
    """Whether an achieved request is false, and not only as another retrained model would be."""
    return any(
        beyond_margins(row[moment], floors.get((row["kind"], moment)))
        for moment in ("delivered", "relearned")
    )


def goals_table(methods: Methods, rows: Sequence[Row], floors: Floors) -> str:
    """What was aimed at, and what was reached."""
    default = [row for row in rows if row["name"] == "refresh"]
    large = [row for row in default if asked_for(row) >= LARGE]
    achieved = [row for row in large if row["status"] == "achieved"]
    true = [row for row in achieved if not row["false"]]
    all_achieved = [row for row in rows if row["status"] == "achieved"]
    lines = [
        [
            f"requests of {LARGE} records or more achieved, and truly",
            "at least 95 %",
            f"{len(true)} of {len(large)}",
        ],
        ['false "achieved"', "0 of 60", f"{sum(r['false'] for r in rows)} of {len(all_achieved)}"],
        [
            "of these, farther than two retrained models are from each other",
            "0",
            str(sum(is_false_beyond_floor(row, floors) for row in all_achieved)),
        ],
    ]
    if methods.seeds("refresh") and methods.seeds("retrained"):
        lines += _goals_of_refresh(methods)
    if large:
        costs = [row["cost"] for row in large if row["kind"] == methods.kind]
        if costs:
            share = f"{100 * statistics.mean(costs):.0f} %"
            lines.append(["processor time of a request / retraining", "at most 22 %", share])
    floor = methods.rows["retrained"]
    if floor:
        delivered, later = (
            sum(bool(beyond_margins(row[moment])) for row in floor)
            for moment in ("delivered", "relearned")
        )
        found = f"{delivered} of {len(floor)} as delivered, {later} after benign steps"
        lines.append(["for comparison: retrained models beyond the margins of another", "", found])
    return table(["", "aim", "reached"], lines)


def _goals_of_refresh(methods: Methods) -> list[list[str]]:
    def size(name: str, moment: str) -> float:
        return statistics.mean(abs(v) for v in methods.values(name, moment, "ua_diff"))

    def mean(moment: str, metric: str) -> float:
        return statistics.mean(methods.values("refresh", moment, metric))

    lines = []
    for moment, words, aim in (
        ("delivered", "mean |rUA| minus that of two retrained models", "at most 0.5"),
        ("relearned", "the same after 50 benign steps", "at most 1"),
    ):
        beyond = size("refresh", moment) - size("retrained", moment)
        lines.append([words, aim, f"{beyond:+.1f}"])
    attacks = [methods.attack(name, "delivered") for name in ("refresh", "retrained")]
    if all(attacks):
        ours, floor = (each["u_lira_tpr"] for each in attacks)  # type: ignore[index]
        lines.append(
            [
                "U-LiRA, TPR at 1 % FPR minus that of two retrained groups",
                "at most 1 point",
                f"{ours - floor:+.1f} points",
            ]
        )
    worst = min(methods.values("refresh", "delivered", "ta_diff"))
    ta = f"{mean('delivered', 'ta_diff'):+.1f} mean, {worst:+.1f} worst"
    low, floor_low = (methods.worst_class(name, "delivered") for name in ("refresh", "retrained"))
    return [
        *lines,
        [
            "AUC after 50 benign steps minus the retrained model's",
            "at most .01",
            f"{mean('relearned', 'auc_loss_diff'):+.3f}",
        ],
        ["TA minus the retrained model's", "at least -0.3 mean, -1.0 worst", ta],
        [
            "worst class below the retrained model's",
            "at most 3 beyond its noise",
            f"{low:.1f}, two retrained models {floor_low:.1f}",
        ],
    ]


def asked_for(row: Row) -> int:
    """The records that a verdict is about: of a sequence, those of its last request."""
    name, *sizes = row["set"].split(":")
    return int(row["records"]) // (int(sizes[0]) if name == "sequence" else 1)


def set_in_words(chosen: str) -> str:
    """``random:0.1`` as a reader would say it."""
    name, *sizes = chosen.split(":")
    if chosen.count(":") == 1 and name == "class":
        return "a class"
    size = f"{100 * float(sizes[-1]):g} %" if name in ("random", "class") else sizes[0]
    return SETS[name].format(size)


def verdicts(rows: Sequence[Row]) -> str:
    """How often each verdict was given, and how many were false."""
    counts = Counter(row["status"] for row in rows)
    words = [f"{count} {status}" for status, count in counts.most_common()]
    false = sum(row["false"] for row in rows)
    return ", ".join([*words, f"**{false} false**"] if false else words)


def _request_order(item: tuple[tuple[str, str, str], list[Row]]) -> tuple[Any, ...]:
    kind, name, chosen = item[0]
    return list(WORLDS).index(kind), name != "refresh", -item[1][0]["records"], chosen


def _ordered(methods: Methods) -> list[str]:
    """Before, then by what is left after benign steps, then the floor."""
    names = [name for name in methods.rows if name not in NAMES and methods.seeds(name)]

    def left(name: str) -> float:
        return abs(statistics.mean(methods.values(name, "relearned", "auc_loss_diff")))

    ends = [name for name in NAMES if methods.seeds(name)]
    return [*ends[:1], *sorted(names, key=left, reverse=True), *ends[1:]]


def _mean(rows: Sequence[Row], moment: str, metric: str, digits: int) -> str:
    return f"{statistics.mean(row[moment][metric] for row in rows):+.{digits}f}"


def read_rows(name: str) -> list[Row]:
    """The rows of ``methods``, ``frontier`` or ``requests``."""
    lines = (RESULTS / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


RETURNS = {
    "delivered": "as is",
    "int4": "int4",
    "benign_10": "10 benign steps",
    "benign_50": "50",
    "relearned": "relearned",
}


RETURN_KINDS = {
    "words": "A token per word",
    "subwords": "A Llama of subwords",
    "tofu-mini": "Model and people of `tofu-mini`",
}


def returns_tables(rows: Sequence[Row]) -> str:
    """A table per kind of world, with its name above."""
    return "\n\n".join(
        f"{words}:\n\n{returns_table([row for row in rows if row['kind'] == kind])}"
        for kind, words in RETURN_KINDS.items()
    )


def returns_table(rows: Sequence[Row]) -> str:
    """What comes back in language models: means over the worlds that have a row of the model.

    A cell has facts in percent and the AUC; of sampled answers, facts alone.
    """
    lines = []
    ends = {"full": -1, "exact": 1, "retrained": 2}  # what others are compared with comes last
    for name in sorted(dict.fromkeys(row["name"] for row in rows), key=lambda k: ends.get(k, 0)):
        own = [row for row in rows if row["name"] == name]

        def mean(moment: str, metric: str, own: Sequence[Row] = own) -> float:
            return statistics.mean(row[moment][metric] for row in own)

        cells = [f"{mean('delivered', 'retain'):.0f}"]
        cells += [f"{mean(m, 'facts'):.0f}, {mean(m, 'auc_facts'):.2f}" for m in RETURNS]
        cells += [f"{mean('sampled', 'facts'):.0f}"]
        cells += [f"{statistics.mean(row['seconds'] for row in own):.0f} s", str(len(own))]
        lines.append([name, *cells])
    return table(["", "retained", *RETURNS.values(), "sampled", "cost", "worlds"], lines)


def filled(text: str) -> str:
    """A page with the content of its regions made from the rows."""
    rows, requests = read_rows("methods"), read_rows("requests")
    every = [m for m in (Methods(rows, kind) for kind in WORLDS) if m.seeds("refresh")]
    main = next(m for m in every if m.seeds("refresh") >= MIN_SEEDS)
    makers: dict[str, Callable[[], str]] = {
        "delivered": lambda: methods_tables(every, "delivered"),
        "relearned": lambda: methods_tables(every, "relearned"),
        "short": lambda: f"{WORLDS[main.kind]}:\n\n{short_table(main)}",
        "frontier": lambda: frontier_table(read_rows("frontier")),
        "requests": lambda: requests_table(requests),
        "split": lambda: split_table(requests),
        "sizes": lambda: sizes_table(every, requests),
        "sizes_short": lambda: sizes_table(every, requests, short=True),
        "claims": lambda: claims_table(main, requests),
        "goals": lambda: goals_table(main, requests, floors_of(rows)),
        "returns": lambda: returns_tables(read_rows("texts")),
    }

    def fill(match: re.Match[str]) -> str:
        return f"{match[1]}{makers[match[2]]()}\n{match[3]}"

    return REGION.sub(fill, text)


def main() -> None:
    """Update the pages."""
    for page in PAGES:
        write_text(page, filled(page.read_text(encoding="utf-8")))


if __name__ == "__main__":
    main()
