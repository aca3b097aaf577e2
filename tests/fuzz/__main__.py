"""``python -m tests.fuzz``: run everything, print the counts, write them into SECURITY.md."""

from __future__ import annotations

import sys
from collections import Counter

from tests.fuzz.corpus import KINDS, load_corpus
from tests.fuzz.counts import Counts, write_counts
from tests.fuzz.runner import folder_of_its_own, run_case
from tests.fuzz.world import World


def main() -> int:
    """The number of bad outcomes, at most 1: the exit code."""
    kinds = sys.argv[1:] or [*KINDS, "generated"]
    tried: Counter[str] = Counter()
    bad: Counter[str] = Counter()
    with folder_of_its_own() as folder:
        world = World(folder)
        for case in load_corpus():
            if case.kind in kinds:
                complaint = run_case(case, world)
                tried[case.kind] += 1
                bad[case.kind] += bool(complaint)
                if complaint:
                    print(complaint, flush=True)
    rows = [Counts(kind, tried[kind], bad[kind]) for kind in KINDS if kind in kinds]
    if "generated" in kinds:
        from tests.fuzz.generated import run_generated

        rows += run_generated()
    for row in rows:
        print(row)
    if len(sys.argv) == 1:
        write_counts(rows)
    return int(any(row.bad for row in rows))


if __name__ == "__main__":
    sys.exit(main())
