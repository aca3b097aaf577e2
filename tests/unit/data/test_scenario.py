from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from expunge._errors import DataError, InvalidInput
from expunge.data import (
    ClassForget,
    Examples,
    IdsForget,
    ImageSet,
    PeopleForget,
    RandomForget,
    divide_texts,
    load_corpus,
    parse_scenario,
)

FRACTIONS = st.floats(0.001, 0.999)


def images_of(labels: list[int], names: list[str] | None = None) -> ImageSet:
    pixels = torch.zeros(len(labels), 1, 1, 1, dtype=torch.uint8)
    return ImageSet(pixels, torch.tensor(labels), ("ant", "bee", "cat"), names)


def assert_partition(selection, count):
    assert selection.forget.dtype == selection.retain.dtype == torch.int64
    both = torch.cat((selection.forget, selection.retain))
    assert both.sort().values.tolist() == list(range(count))
    for part in (selection.forget, selection.retain):
        assert len(part)
        assert torch.equal(part, part.sort().values)


@given(st.integers(2, 300), FRACTIONS, st.integers(0, 2**32))
def test_a_random_part_has_the_exact_size_and_leaves_the_rest(count, fraction, seed):
    size = max(1, round(fraction * count))
    train = images_of([0] * count)
    if size == count:
        with pytest.raises(InvalidInput, match="left to retain"):
            RandomForget(fraction).pick(train, seed)
        return
    selection = RandomForget(fraction).pick(train, seed)
    assert_partition(selection, count)
    assert len(selection.forget) == size
    assert torch.equal(selection.forget, RandomForget(fraction).pick(train, seed).forget)


@given(st.lists(st.integers(0, 2), min_size=2, max_size=80), FRACTIONS | st.just(1.0))
def test_part_of_a_class_has_the_exact_size_and_no_other_class(labels, fraction):
    labels = [0, 1, *labels]
    selection = ClassForget(1, fraction).pick(images_of(labels), seed=5)
    assert_partition(selection, len(labels))
    assert len(selection.forget) == max(1, round(fraction * labels.count(1)))
    assert {labels[i] for i in selection.forget} == {1}


def test_the_seed_decides_which_images_are_forgotten():
    train = images_of([0] * 100)
    first, other = (RandomForget(0.3).pick(train, seed).forget for seed in (1, 2))
    assert not torch.equal(first, other)


@given(FRACTIONS, st.integers(0, 99) | st.text(min_size=1).filter(lambda text: not text.isspace()))
def test_text_and_scenario_are_two_forms_of_one_thing(fraction, label):
    random = RandomForget(fraction)
    assert parse_scenario(str(random)) == random
    for part in (ClassForget(label, fraction), ClassForget(label)):
        if str(part) == str(part).strip():
            assert parse_scenario(str(part)) == part


def test_the_documented_forms_are_read():
    assert parse_scenario("random:0.1") == RandomForget(0.1)
    assert parse_scenario("class:3:0.4") == ClassForget(3, 0.4)
    assert parse_scenario("class:3") == ClassForget(3, 1.0)
    assert parse_scenario("class:cat") == ClassForget("cat")
    assert str(ClassForget(3)) == "class:3"
    assert str(ClassForget(3, 0.4)) == "class:3:0.4"


def test_a_class_may_be_named():
    train = images_of([0, 1, 2, 2])
    assert parse_scenario("class:cat").pick(train, 0).forget.tolist() == [2, 3]
    assert parse_scenario("class:2").pick(train, 0).forget.tolist() == [2, 3]
    with pytest.raises(InvalidInput, match="Did you mean 'cat'"):
        ClassForget("cart").pick(train, 0)
    with pytest.raises(InvalidInput, match=r"0\.\.2\. \(got 3\)"):
        ClassForget(3).pick(train, 0)


def test_a_number_that_is_a_class_name_is_that_class():
    pixels = torch.zeros(3, 1, 1, 1, dtype=torch.uint8)
    train = ImageSet(pixels, torch.tensor([0, 1, 2]), ("0", "10", "2"))
    assert ClassForget(2).pick(train, 0).forget.tolist() == [2]
    assert ClassForget(10).pick(train, 0).forget.tolist() == [1]


def test_a_class_without_images_cannot_be_forgotten():
    with pytest.raises(InvalidInput, match="'bee' should have training images"):
        ClassForget(1).pick(images_of([0, 2]), 0)


def test_forgetting_everything_is_refused():
    with pytest.raises(InvalidInput, match="got all 2 to forget"):
        ClassForget(1).pick(images_of([1, 1]), 0)
    with pytest.raises(InvalidInput, match="got all 2 to forget"):
        IdsForget((0, 1)).pick(images_of([1, 1]), 0)


@pytest.mark.parametrize("text", ["random:0", "random:1", "random:1.5", "random:nan", "random:x"])
def test_a_random_fraction_outside_the_open_interval_is_refused(text):
    with pytest.raises(InvalidInput, match=r"in \(0, 1\)\. \(got"):
        parse_scenario(text)


@pytest.mark.parametrize("fraction", [0, -1, 1.01, float("nan")])
def test_a_class_fraction_may_be_one_but_no_more(fraction):
    with pytest.raises(InvalidInput, match=r"in \(0, 1\]\. \(got"):
        ClassForget(3, fraction)


def test_an_unknown_kind_gets_the_nearest_suggestion():
    with pytest.raises(InvalidInput, match="Did you mean 'class'"):
        parse_scenario("clas:3")


def test_a_class_that_cannot_be_told_from_another_is_refused():
    pixels, labels = torch.zeros(4, 1, 1, 1, dtype=torch.uint8), torch.tensor([0, 1, 2, 2])
    train = ImageSet(pixels, labels, ("ant", "ant", "cat"))
    with pytest.raises(InvalidInput, match=r"names should differ\. \(got 'ant' several times\)"):
        ClassForget("ant").pick(train, 0)
    assert ClassForget("cat").pick(train, 0).forget.tolist() == [2, 3]
    assert ClassForget(1).pick(train, 0).forget.tolist() == [1]


def test_a_regression_has_no_classes_to_forget():
    train = Examples(torch.rand(4, 3), torch.rand(4), ())
    with pytest.raises(InvalidInput, match=r"no classes to forget\. Use random or ids"):
        ClassForget(0).pick(train, 0)


@pytest.mark.parametrize("text", ["random", "class:", "ids:"])
def test_a_kind_alone_is_not_a_scenario(text):
    with pytest.raises(InvalidInput, match="should read random:FRACTION"):
        parse_scenario(text)


def test_ids_are_indices_or_names():
    train = images_of([0, 1, 2], names=["a.png", "b.png", "c.png"])
    selection = IdsForget(("c.png", 0)).pick(train, 0)
    assert_partition(selection, 3)
    assert selection.forget.tolist() == [0, 2]


def test_a_name_that_two_images_share_stands_for_both():
    train = images_of([0, 1, 2], names=["x", "y", "x"])
    assert IdsForget(("x",)).pick(train, 0).forget.tolist() == [0, 2]


def test_a_missing_numeric_name_is_never_taken_for_an_index():
    train = images_of([0, 1, 2, 2], names=["100", "101", "2", "A7"])
    assert IdsForget(("2",)).pick(train, 0).forget.tolist() == [2]
    assert IdsForget((101,)).pick(train, 0).forget.tolist() == [1]
    with pytest.raises(InvalidInput, match="names of training images"):
        IdsForget((1,)).pick(train, 0)


def test_unknown_ids_are_listed_up_to_ten_and_counted():
    train = images_of([0, 1, 2], names=["a", "b", "c"])
    with pytest.raises(InvalidInput, match=r"'x9' and 3 more: 13 of 14 unknown"):
        IdsForget(("a", *(f"x{i}" for i in range(13)))).pick(train, 0)


@pytest.mark.parametrize("wrong", [3, -1])
def test_an_id_out_of_range_is_named_with_the_range(wrong):
    with pytest.raises(InvalidInput, match=rf"indices in 0\.\.2\. \(got {wrong}:"):
        IdsForget((0, wrong)).pick(images_of([0, 1, 2]), 0)


def test_ids_come_from_a_file_and_print_its_path(tmp_path):
    path = tmp_path / "request.txt"
    path.write_text("2\n0\n")
    scenario = parse_scenario(f"ids:{path}")
    assert scenario == IdsForget((2, 0), str(path))
    assert str(scenario) == f"ids:{path}"
    assert scenario.pick(images_of([0, 1, 2]), 0).forget.tolist() == [0, 2]


def test_ids_listed_twice_are_refused_by_name(tmp_path):
    path = tmp_path / "request.txt"
    path.write_text("7\nb\n7\nc\nb\n")
    with pytest.raises(InvalidInput, match=r"got 7, 'b' more than once in .*request\.txt"):
        parse_scenario(f"ids:{path}")


def test_a_missing_list_is_named(tmp_path):
    with pytest.raises(DataError, match=r"nowhere\.txt"):
        parse_scenario(f"ids:{tmp_path / 'nowhere.txt'}")


def test_a_number_too_long_to_be_an_index_is_a_name():
    with pytest.raises(InvalidInput, match="1 of 1 unknown"):
        IdsForget(("9" * 5000,)).pick(images_of([0, 1]), 0)


def test_no_ids_at_all_are_refused():
    with pytest.raises(InvalidInput, match="one example or more"):
        IdsForget(())


def test_whole_people_are_forgotten_from_texts():
    splits = load_corpus("invented-people", people=10, unseen=1)
    division = divide_texts(splits, "people:0.2", seed=1)
    forgotten = {record.person for record in division.forget.records}
    assert len(forgotten) == 2
    assert len(division.forget) == 12
    assert not forgotten & {record.person for record in division.retain.records}
    again = divide_texts(splits, str(PeopleForget(0.2)), seed=1)
    assert again.forget.names == division.forget.names
    assert division.forget.names != divide_texts(splits, "people:0.2", seed=2).forget.names


def test_people_are_a_scenario_for_texts_alone():
    with pytest.raises(InvalidInput, match="is for texts whose records have a `person`"):
        PeopleForget(0.5).pick(images_of([0, 1]), seed=0)
    splits = load_corpus("invented-people", people=2, unseen=1)
    with pytest.raises(InvalidInput, match="should read people:FRACTION"):
        divide_texts(splits, "random:0.5", seed=0)
    for text in ("people:x", "people:1.5"):
        with pytest.raises(InvalidInput, match=r"`fraction`.* should be"):
            parse_scenario(text)
