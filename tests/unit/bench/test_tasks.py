"""Results grouped by task, variant, settings and seed."""

from __future__ import annotations

import pytest

from expunge._errors import InvalidInput
from expunge.bench._results import BenchResult, BenchRun
from expunge.bench._tasks import (
    TaskResults,
    group_results,
    one_per_seed,
    preferred_variants,
    select_variants,
)
from tests.unit.bench.making import over_seeds, references, run

SRL, FOCUS = BenchRun("random-label"), BenchRun("random-label", "focus", "published")


def only(results: list[BenchResult]) -> TaskResults:
    (runs,) = group_results(results)
    return runs


def test_a_task_has_its_runs_by_arm_and_its_references() -> None:
    results = [*references(), *over_seeds([91, 92]), *over_seeds([93], "SRL", "FOCUS")]
    runs = only(results)
    assert {variant: len(own) for variant, own in runs.variants.items()} == {SRL: 2, FOCUS: 1}
    assert [len(own) for own in (runs.initial, runs.ideal, runs.unlearned)] == [3, 3, 3]
    assert runs.task == BenchRun(dataset="cifar10", arch="vgg16", width=1.0, scenario="random:0.1")


def test_the_same_run_twice_counts_once() -> None:
    once = over_seeds([91, 92])
    assert only([*once, *once]).unlearned == tuple(once)


def test_tasks_keep_the_order_of_the_results() -> None:
    found = group_results(
        [run(91, scenario="class:3"), run(91), run(92, scenario="class:3", seed=1)]
    )
    assert [runs.task.scenario for runs in found] == ["class:3", "random:0.1"]


def test_the_main_settings_are_those_that_most_methods_share() -> None:
    sweep = [run(50, seed=seed, lr=1e-3) for seed in range(5)]
    main = [run(91), run(91, "NGPlus")]
    runs = only([*sweep, *main])
    assert runs.main_hyperparameters == BenchRun(
        alpha=0.05, beta=0.95, lr=1e-4, batch_size=256, total_epochs=10
    )
    assert [own[0] for own in runs.main_variants.values()] == main
    assert runs.at_main(SRL) == {0: main[0]}
    assert [(settings.lr, list(seeds)) for settings, seeds in runs.sweep(SRL).items()] == [
        (1e-3, [0, 1, 2, 3, 4]),
        (1e-4, [0]),
    ]


def test_an_arm_with_weights_of_its_own_is_shown_at_the_rate_of_the_others() -> None:
    own = run(91, "MATCH", alpha=0.5, beta=0.5)
    sweep = [run(50, "MATCH", alpha=0.5, beta=0.5, lr=lr) for lr in (2e-4, 8e-4)]
    runs = only([run(91), run(91, "NGPlus"), *sweep, own])
    assert runs.main_variants[BenchRun("match-unseen")] == [own]
    two = only([run(91), run(91, "NGPlus"), *sweep])
    assert BenchRun("match-unseen") not in two.main_variants, "neither of them is the one to show"


def test_an_arm_with_an_aggregation_of_its_own_is_shown_and_is_no_arm_of_the_paper() -> None:
    own = run(91, aggregate="rectified", alpha=None, beta=None)
    runs = only([run(91), run(91, "NGPlus"), own])
    variant = BenchRun("random-label", aggregate="rectified")
    assert runs.main_variants[variant] == [own]
    assert variant.label == "SRL-GRU"
    assert BenchRun("random-label", aggregate="torchjd:PCGrad").label == "SRL-PCGrad"
    assert select_variants(runs.main_variants, "random-label", ("none",)) == [SRL]
    assert preferred_variants(runs.main_variants)["random-label", "none"] == SRL


def test_nothing_unlearned_has_no_main_settings() -> None:
    runs = only(references())
    assert runs.main_hyperparameters is None
    assert runs.main_variants == {}
    assert runs.at_main(SRL) == {}


def test_the_epoch_is_the_papers_or_the_last() -> None:
    assert only([run({5: 90.0, 10: 91.0, 20: 92.0})]).epoch == 10
    assert only([run({1: 90.0, 4: 91.0})]).epoch == 4


def test_names_tell_tasks_apart_and_say_no_more() -> None:
    narrow, wide, other = group_results(
        [run(91, width=0.25), run(91), run(91, dataset="svhn", limit=500)]
    )
    assert narrow.name == "cifar10/vgg16/random:0.1 (width 0.25)"
    assert wide.name == "cifar10/vgg16/random:0.1 (width 1.0)"
    assert other.name == "svhn/vgg16/random:0.1"
    assert narrow.file_name == "cifar10-vgg16-random-0.1-width-0.25"
    assert other.file_name == "svhn-vgg16-random-0.1"
    assert other.task.title == "SVHN, VGG16, 500 images, 10 % random forgetting"


def test_blocks_are_told_apart_only_where_their_runs_look_the_same() -> None:
    alike = [run(91, block="a"), run(92, block="b"), *references()]
    first, second = group_results(alike)
    assert [first.task.block, second.task.block] == ["a", "b"]
    assert [len(first.ideal), len(second.ideal)] == [3, 3]
    assert first.name == "cifar10/vgg16/random:0.1 (block a)"
    (runs,) = group_results([run(91, block="a"), run(92, block="b", lr=1)])
    assert runs.task.block == ""
    other_seed = [run(91, block="a"), run(92, block="b", seed=1)]
    assert [each.task.block for each in group_results(other_seed)] == ["a", "b"]


def test_two_runs_of_a_block_with_one_seed_raise() -> None:
    with pytest.raises(InvalidInput, match="Two runs of SRL have the same settings and seed 0"):
        group_results([run(91), run(92)])


def test_published_moments_come_first() -> None:
    adam, sample = (BenchRun("random-label", "focus", kind) for kind in ("adam", "sample"))
    mask = BenchRun("random-label", "and")
    variants = [sample, adam, FOCUS, mask, BenchRun("scrub", "and")]
    assert select_variants(variants, "random-label", ("and", "focus")) == [
        mask,
        FOCUS,
        adam,
        sample,
    ]
    assert preferred_variants(variants)["random-label", "focus"] == FOCUS
    assert preferred_variants([sample, adam]) == {("random-label", "focus"): adam}


def test_one_per_seed_is_the_first_by_seed() -> None:
    first, second, third = run(91, seed=1), run(92, seed=0), run(93, seed=1)
    assert list(one_per_seed([first, second, third]).items()) == [(0, second), (1, first)]
