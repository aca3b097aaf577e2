from __future__ import annotations

import json
from dataclasses import replace
from io import StringIO

import pytest
import torch
from rich.cells import cell_len
from rich.console import Console

from expunge._errors import InvalidInput
from expunge.data import Examples
from expunge.evaluation import predict
from expunge.evaluation.attacks._features import confidence
from expunge.request._ids import resolve_ids
from expunge.request.loading._load import ModelAndData, model_and_data_of
from expunge.request.preflight._preflight import (
    Duplicate,
    find_duplicates,
    preflight,
    retained_without,
)
from tests.unit.request.preflight.findings import check, printed
from tests.unit.request.worlds import Net, fitted, floats, job_of, loaded_world

EVIL = ("[bold red]ant[/]", "\x1b[2Jbee", "cat\u202egod", "x" * 200)


def test_a_sound_request_passes(loaded, tmp_path):
    found = check(loaded, tmp_path)
    assert found.fits
    assert [warning[:46] for warning in found.findings.warnings] == [
        "It is not known how the model was trained, so "
    ]
    assert found.duplicates == ()
    plain = found.as_dict()
    assert json.loads(json.dumps(plain, allow_nan=False)) == plain
    assert plain["ids"]["records"] == 5
    assert plain["ids"]["share"] == pytest.approx(5 / 240, abs=1e-6)
    assert plain["ids"]["classes"][0] == {
        "name": "ant",
        "forgotten": 1,
        "train": 60,
        "share": 0.016667,
    }


def test_nothing_is_changed(loaded, tmp_path):
    before = {k: v.clone() for k, v in loaded.model.state_dict().items()}
    random = torch.get_rng_state()
    check(loaded, tmp_path)
    assert all(torch.equal(before[k], v) for k, v in loaded.model.state_dict().items())
    assert torch.equal(random, torch.get_rng_state())
    assert not loaded.model.training


def test_hardness_compares_the_forget_set_with_val(loaded, tmp_path):
    hardness = check(loaded, tmp_path).findings.hardness
    forget = predict(loaded.model, loaded.train.subset([1, 2, 3, 5, 8]))
    val = predict(loaded.model, loaded.val)
    pairs = confidence(forget) - confidence(val).T
    literal = ((pairs > 0) + 0.5 * (pairs == 0)).mean()
    assert hardness.auc == round(float(literal), 1), "of few"


def test_exact_duplicates_are_reported_and_offered(loaded, tmp_path):
    train = loaded.train
    doubled = Examples(
        torch.cat((train.inputs, train.inputs[5:6])),
        torch.cat((train.labels, train.labels[5:6])),
        train.classes,
    )
    found = check(replace(loaded, train=doubled), tmp_path)
    assert [each.index for each in found.duplicates] == [240]
    assert found.as_dict()["duplicates"]["found"][0] == (5, "retain", 240)
    assert any(
        "Duplicates of records to forget remain: 1 in retain." in words
        for words in found.findings.warnings
    )
    assert "retain 240 is the same as train 5" in printed(found)


def test_a_model_that_does_not_fit_is_reported_first(loaded, tmp_path):
    order = torch.tensor([1, 0, 3, 2])
    parts = [
        Examples(part.inputs, order[part.labels], part.classes)
        for part in (loaded.train, loaded.val, loaded.test)
    ]
    wrong = replace(loaded, train=parts[0], val=parts[1], test=parts[2])
    found = check(wrong, tmp_path)
    assert not found.fits
    assert found.findings.warnings[0].startswith("The labels look permuted")
    assert "Does the model fit the data?  NO" in printed(found)


def test_records_forgotten_earlier_are_left_out(loaded, tmp_path):
    job = job_of(tmp_path)
    asked = resolve_ids(job, loaded, [1, 2, 3])
    found = preflight(loaded, asked, [1, 3], job, earlier={2, 100})
    assert found.findings.ids.records == 2
    assert found.findings.ids.earlier == 1


def test_a_request_that_leaves_nothing_to_retain_is_refused(loaded, tmp_path):
    job, everything = job_of(tmp_path), range(len(loaded.train))
    asked = resolve_ids(job, loaded, [1])
    with pytest.raises(InvalidInput, match=r"with earlier requests, none is left") as refusal:
        preflight(loaded, asked, [1], job, earlier={*everything} - {1})
    assert "--include-duplicates" not in str(refusal.value), "an option that was not given"
    with pytest.raises(InvalidInput, match="Leave out --include-duplicates"):
        retained_without(loaded, everything, with_duplicates=True)


def test_progress_is_told_in_words(loaded, tmp_path):
    job = job_of(tmp_path)
    words: list[str] = []
    preflight(loaded, resolve_ids(job, loaded, [1]), [1], job, progress=words.append)
    assert len(words) == 4
    assert words[0] == "running the model on the data"


def warnings_of(loaded, folder):
    return check(loaded, folder).findings.warnings


def test_a_request_that_saves_nothing_is_answered_with_exact_deletion(loaded, tmp_path):
    found = check(loaded, tmp_path, training_epochs=1)
    assert found.findings.cost.advice == "exact"
    shown = Console(width=1000, file=StringIO())
    shown.print(found.terminal())
    assert shown.file.getvalue().count("Train again (`--exact`)") == 1, "said once"


def test_a_whole_class_and_few_val_examples_are_pointed_out(loaded, tmp_path):
    small = replace(loaded, val=loaded.val.subset(range(20)))
    found = check(small, tmp_path, ids=range(0, 240, 4), max_epochs=1)
    text = " ".join(found.findings.warnings)
    assert "All training records of the class 'ant'" in text
    assert "val has only 20 examples" in text


def test_ids_listed_twice_are_pointed_out(loaded, tmp_path):
    found = check(loaded, tmp_path, ids=[1, 2, 1])
    assert "Ids listed more than once, counted once: 1." in found.findings.warnings
    assert "'1'" not in printed(found), "ids are nobody else's business"


def test_val_that_was_trained_on_is_noticed(tmp_path):
    """Random labels are learnt by heart: the net is sure of what it saw, and of nothing else."""
    generator = torch.Generator().manual_seed(0)

    def noisy(count: int, seed: int) -> Examples:
        clean = floats(count, seed)
        labels = torch.where(
            torch.rand(count, generator=generator) < 0.4,
            torch.randint(4, (count,), generator=generator),
            clean.labels,
        )
        return Examples(clean.inputs, labels, clean.classes)

    whole, test = noisy(160, 1), noisy(160, 2)
    net = fitted(whole, Net(), steps=600)
    val, train = whole.subset(range(0, 160, 2)), whole.subset(range(1, 160, 2))
    seen = model_and_data_of(net, (train, val, test), job_of(tmp_path))
    assert any("it may have been trained on val" in text for text in warnings_of(seen, tmp_path))
    clean = model_and_data_of(net, (whole, noisy(80, 3), test), job_of(tmp_path))
    assert not any("trained on val" in text for text in warnings_of(clean, tmp_path))


def test_more_outputs_than_classes_are_pointed_out(tmp_path):
    net = fitted(floats(240, 1), Net(6))
    wide = model_and_data_of(net, (floats(240, 1), floats(60, 2), floats(80, 3)), job_of(tmp_path))
    assert "The model has 6 outputs, but the data have 4 classes." in warnings_of(wide, tmp_path)


@pytest.fixture
def copies(tmp_path) -> ModelAndData:
    """Record 0 has copies at 240 (another label), val 5 and test 7; that of 1 is not exact."""
    loaded = loaded_world(tmp_path)
    train, val, test = loaded.train, loaded.val, loaded.test
    inputs = torch.cat((train.inputs, train.inputs[:1], train.inputs[1:2] + 0.002))
    labels = torch.cat((train.labels, torch.tensor([3, 1])))
    val.inputs[5], test.inputs[7] = train.inputs[0], train.inputs[0]
    return replace(loaded, train=Examples(inputs, labels, train.classes))


def test_duplicates_are_those_of_the_literal_double_loop(copies):
    forgotten = [0, 1, 3, 9]
    wanted = []
    for split, data in (("retain", copies.train), ("val", copies.val), ("test", copies.test)):
        for index in range(len(data)):
            if split == "retain" and index in forgotten:
                continue
            for f in forgotten:
                if torch.equal(data.inputs[index], copies.train.inputs[f]):
                    wanted.append(Duplicate(f, split, index))
                    break
    found = find_duplicates(copies, forgotten)
    assert list(found) == wanted
    assert [(each.split, each.index) for each in found] == [
        ("retain", 240),
        ("val", 5),
        ("test", 7),
    ]


def test_what_was_forgotten_earlier_does_not_remain(copies):
    assert [each.split for each in find_duplicates(copies, [0], earlier={240})] == ["val", "test"]
    assert find_duplicates(copies, [0, 240])[0].split == "val"


def test_of_equal_records_the_first_is_named(copies):
    assert {each.forgotten for each in find_duplicates(copies, [240, 0])} == {240}


@pytest.mark.parametrize("width", [80, 60])
def test_the_summary_fits_a_narrow_terminal(loaded, tmp_path, width):
    text = printed(check(loaded, tmp_path), width)
    assert max(cell_len(line) for line in text.splitlines()) <= width
    for words in (
        "train",
        "val",
        "test",
        "to forget",
        "By confidence, the records",
        "Duplicates that remain",
        "Unlearn:",
    ):
        assert words in text
    assert "…" not in text


def test_names_with_markup_and_control_characters_are_shown_not_obeyed(loaded, tmp_path):
    parts = {
        name: Examples(part.inputs, part.labels, EVIL)
        for name, part in (("train", loaded.train), ("val", loaded.val), ("test", loaded.test))
    }
    evil = replace(loaded, classes=EVIL, **parts)
    text = printed(check(evil, tmp_path, ids=range(0, 240, 4)))
    assert "[bold red]ant[/]" in text
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert max(cell_len(line) for line in text.splitlines()) <= 80


def test_one_id_is_one_id(loaded, tmp_path):
    assert "requested by 1 id " in printed(check(loaded, tmp_path, ids=[0]))
