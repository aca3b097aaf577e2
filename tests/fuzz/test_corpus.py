"""The former faults of the corpus with the other tests; ``make fuzz`` runs all cases."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings

from tests.fuzz.corpus import KINDS, OTHERS, Case, load_corpus, sample
from tests.fuzz.counts import read_counts
from tests.fuzz.forged import Forgery, check_forgery, forgeries
from tests.fuzz.generated import COUNT, IdFile, check_id_file, check_job_file, id_files, job_files
from tests.fuzz.runner import run_case
from tests.fuzz.world import World

CASES = load_corpus()
FEW = settings(
    max_examples=15,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return World(tmp_path_factory.mktemp("world"))


@pytest.mark.parametrize("case", sample(CASES), ids=str)
def test_the_outcome_is_the_expected_one(case: Case, world: World) -> None:
    assert run_case(case, world) == ""


@FEW
@given(id_files())
def test_lists_of_ids_are_read_as_written_or_refused(file: IdFile) -> None:
    check_id_file(file)


@FEW
@given(job_files())
def test_job_files_are_read_as_written_or_refused(text: str) -> None:
    check_job_file(text)


@FEW
@given(forgeries())
def test_forged_evidence_is_verified_or_refused(forgery: Forgery) -> None:
    check_forgery(forgery, numbers=False)


@pytest.mark.parametrize(
    "forgery",
    [
        Forgery("evidence.json", "preflight.cost.retraining_seconds", "x"),
        Forgery("evidence.json", "preflight.fit.accuracy.test.value", "x"),
        Forgery("evidence.json", "environment.versions", [[]]),
        Forgery("evidence.json", "config.level", [[]]),
        Forgery("forgotten.json", "asked", -1),
        Forgery("forgotten.json", "ids", 1e308),
    ],
)
def test_forgeries_that_ended_in_tracebacks_are_refused(forgery: Forgery) -> None:
    check_forgery(forgery)


def test_faults_that_were_fixed_always_run() -> None:
    fixed = [case for case in CASES if case.fixed]
    assert set(fixed) < set(sample(CASES))
    assert len(sample(CASES)) == len(fixed) + OTHERS


def test_the_counts_in_the_security_policy_are_those_of_this_corpus() -> None:
    counts = read_counts()
    tried = {kind: sum(case.kind == kind for case in CASES) for kind in KINDS}
    tried |= dict.fromkeys(("generated id files", "generated job files", "forged evidence"), COUNT)
    tried["all"] = sum(tried.values())
    assert {kind: row.tried for kind, row in counts.items()} == tried, "run `make fuzz`"
    assert tried["all"] >= 500
    assert all(row.bad == 0 for row in counts.values())
