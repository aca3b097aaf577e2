from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from expunge.data import Examples, ImageSet, row_hashes
from expunge.request.preflight import _duplicates as duplicates
from expunge.request.preflight._duplicates import (
    Duplicate,
    choose_threshold,
    draw_unrelated,
    find_duplicates,
    find_exact,
    find_near,
)
from expunge.request.preflight._features import features
from tests.unit.request.worlds import cosine, fitted, subject_of


@pytest.fixture
def world(tmp_path):
    """Record 0 has exact copies at 240 (another label), val 5 and test 7; 1 a near one at 241."""
    subject = subject_of(tmp_path)
    train, val, test = subject.train, subject.val, subject.test
    near = train.inputs[1] + 0.002
    inputs = torch.cat((train.inputs, train.inputs[:1], near[None]))
    labels = torch.cat((train.labels, torch.tensor([3, 1])))
    val.inputs[5], test.inputs[7] = train.inputs[0], train.inputs[0]
    subject = replace(subject, train=Examples(inputs, labels, train.classes))
    parts = {"train": subject.train, "val": val, "test": test}
    return subject, {name: features(subject.model, part) for name, part in parts.items()}


def test_exact_copies_are_those_of_the_literal_double_loop(world):
    subject, vectors = world
    forgotten = [0, 3, 9]
    found = find_duplicates(subject, forgotten, vectors).exact
    wanted = []
    for split, data in (("retain", subject.train), ("val", subject.val), ("test", subject.test)):
        for index in range(len(data)):
            if split == "retain" and index in forgotten:
                continue
            for f in forgotten:
                if torch.equal(data.inputs[index], subject.train.inputs[f]):
                    wanted.append(Duplicate(f, split, index, 1.0))
                    break
    assert list(found) == wanted
    assert [(copy.forgotten, copy.split, copy.index) for copy in found] == [
        (0, "retain", 240),
        (0, "val", 5),
        (0, "test", 7),
    ]


def test_near_copies_are_those_of_the_literal_double_loop(world):
    _, vectors = world
    forgotten, indices, threshold = [1, 6, 30], list(range(100, 242)), 0.99
    train = vectors["train"]
    found = find_near(forgotten, "retain", indices, train, train, threshold)
    wanted = {}
    for index in indices:
        table = {f: cosine(train[index], train[f]) for f in forgotten}
        best = max(table, key=lambda f: table[f])
        if table[best] >= threshold:
            wanted[index] = (best, table[best])
    assert [copy.index for copy in found] == list(wanted)
    assert 241 in wanted
    assert 0 < len(wanted) < len(indices)
    for copy in found:
        assert copy.forgotten == wanted[copy.index][0]
        assert copy.similarity == pytest.approx(wanted[copy.index][1], abs=1e-6)


def test_a_near_copy_is_found_and_little_else(world):
    subject, vectors = world
    found = find_duplicates(subject, [1], vectors)
    assert ("retain", 241) in [(copy.split, copy.index) for copy in found.near]
    assert len(found.near) <= found.expected + 5
    assert all(copy.similarity >= min(found.thresholds.values()) for copy in found.near)


def test_the_threshold_is_the_percentile_of_unrelated_similarities(world):
    _, vectors = world
    hashes = {name: [bytes([i % 256, i // 256]) for i in range(300)] for name in vectors}
    draws = [[2, 6], [10, 14]]
    parts = {"val": ("val", range(60)), "test": ("test", range(80))}
    hashes |= {"val": [b"v%d" % i for i in range(60)], "test": [b"t%d" % i for i in range(80)]}
    threshold, size = choose_threshold(parts, vectors, hashes, draws)
    literal = [
        max(cosine(vectors[part][i], vectors["train"][r]) for r in drawn)
        for drawn in draws
        for part, indices in parts.values()
        for i in indices
    ]
    assert size == len(literal) == 280
    assert threshold == pytest.approx(np.quantile(literal, 0.999, method="higher"), abs=1e-6)


def test_exact_copies_do_not_raise_the_threshold(world):
    subject, vectors = world
    hashes = {name: row_hashes(getattr(subject, name)) for name in vectors}
    threshold, size = choose_threshold({"val": ("val", range(60))}, vectors, hashes, [[0]])
    assert size == 59
    assert threshold < 1


def test_nothing_to_compare_with_means_nothing_is_near():
    assert choose_threshold({}, {}, {}, []) == (float("inf"), 0)


def test_references_have_the_class_mix_of_what_is_forgotten():
    labels = torch.tensor([0] * 50 + [1] * 50 + [2] * 50)
    forgotten = [0, 1, 2, 50]
    retain = [i for i in range(150) if i not in forgotten]
    draws = draw_unrelated(labels, forgotten, retain, seed=0)
    assert len(draws) == 50
    for drawn in draws:
        assert labels[drawn].bincount(minlength=3).tolist() == [3, 1, 0]
        assert not set(drawn) & set(forgotten)
    assert draws == draw_unrelated(labels, forgotten, retain, seed=0)
    assert draws != draw_unrelated(labels, forgotten, retain, seed=1)


def test_a_draw_leaves_half_of_a_class_to_compare_with():
    labels = torch.tensor([0] * 40)
    (drawn, *_) = draw_unrelated(labels, list(range(30)), list(range(30, 40)), seed=0)
    assert len(drawn) == 5


def test_what_earlier_requests_took_out_is_not_in_retain(world):
    subject, vectors = world
    assert find_duplicates(subject, [0], vectors).count("retain")[0] == 1
    assert find_duplicates(subject, [0], vectors, earlier=[240]).count("retain")[0] == 0


def test_the_list_of_near_copies_is_capped_and_counted(world, monkeypatch):
    subject, vectors = world
    monkeypatch.setattr(duplicates, "choose_threshold", lambda *_: (0.5, 1000))
    monkeypatch.setattr(duplicates, "MAX_LISTED", 4)
    found = find_duplicates(subject, [1, 2], vectors)
    assert len(found.listed()) == len(found.exact) + 4
    assert found.counts().near == len(found.near) > 4
    similarities = [copy.similarity for copy in found.near]
    assert similarities == sorted(similarities, reverse=True)


def test_a_threshold_of_one_is_noted(world):
    subject, vectors = world
    same = {name: torch.ones_like(value) for name, value in vectors.items()}
    notes = find_duplicates(subject, [1], same).notes
    assert any("near duplicates can hardly be distinguished" in note for note in notes)


def test_all_of_a_class_can_be_forgotten(world):
    subject, vectors = world
    forgotten = (subject.train.labels == 2).nonzero()[:, 0].tolist()
    found = find_duplicates(subject, forgotten, vectors)
    assert found.near == ()


def test_image_sets_are_searched_as_well():
    pixels = torch.arange(64, dtype=torch.uint8).view(4, 1, 4, 4)
    pixels[3] = pixels[0]
    data = ImageSet(pixels, torch.tensor([0, 1, 0, 1]), "ab")
    remaining = {"retain": ("train", [1, 2, 3])}
    found = find_exact([0], remaining, {"train": row_hashes(data)})
    assert found == (Duplicate(0, "retain", 3, 1.0),)


def test_a_wider_world_has_few_false_copies(tmp_path):
    """Without copies, about as many are found as ``expected`` says."""
    subject = subject_of(tmp_path)
    parts = {"train": subject.train, "val": subject.val, "test": subject.test}
    net = fitted(subject.train, steps=20)
    vectors = {name: features(net, part) for name, part in parts.items()}
    counts = []
    for seed in range(10):
        chosen = np.random.default_rng(seed).permutation(240)[:20].tolist()
        found = find_duplicates(subject, sorted(chosen), vectors, seed=seed)
        counts.append(len(found.near))
    assert np.mean(counts) < 3 * found.expected + 1


def test_near_copies_are_included_with_the_exact_ones(world):
    subject, vectors = world
    found = find_duplicates(subject, [0], vectors)
    assert found.to_include("none") == ()
    exact = {copy.index for copy in found.to_include("exact")}
    near = {copy.index for copy in found.to_include("near")}
    assert exact == {240}
    assert near == {240, *(copy.index for copy in found.near if copy.split == "retain")}
    assert all(copy.split == "retain" for copy in found.to_include("near"))
