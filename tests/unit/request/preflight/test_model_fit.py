from __future__ import annotations

import json
from dataclasses import replace

import pytest
import torch
from torch import nn

from expunge.data import Examples, ImageSet, TextSet
from expunge.data.text._text_examples import STRATA, TextExamples, stratify
from expunge.evaluation import Predictions, predict
from expunge.evaluation.text._text_predictions import predict_texts
from expunge.request._job import make_job
from expunge.request.loading._load import load_model_and_data
from expunge.request.preflight._model_fit import (
    check_model_fit,
    explain_by_input_scaling,
    explain_by_label_order,
    explain_by_template,
    input_corrections,
)
from tests.unit.request import text_worlds as world
from tests.unit.request.llama_worlds import write_llama
from tests.unit.request.worlds import CLASSES, Net, bytes_of, fitted, floats


@pytest.fixture(scope="module")
def net() -> nn.Module:
    return fitted(floats(240, 1))


def judge(net: nn.Module, train: Examples, val: Examples):
    said = {"train": predict(net, train), "val": predict(net, val), "test": predict(net, val)}
    return check_model_fit(net, train, said, CLASSES)


def explained(net: nn.Module, data: Examples) -> str | None:
    return explain_by_input_scaling(net, data, predict(net, data))


class Picky(Net):
    """Answers to inputs of the scale it was trained on, and to no other."""

    def forward(self, x):
        return self.last(torch.exp(-self.first(x.flatten(1)).square()))


def changed(data: Examples, change) -> Examples:
    return Examples(change(data.inputs), data.labels, data.classes)


def relabelled(data: Examples, order: list[int]) -> Examples:
    return Examples(data.inputs, torch.tensor(order)[data.labels], data.classes)


def test_a_model_that_knows_the_data_fits(net):
    fit = judge(net, floats(240, 1), floats(60, 2))
    assert fit.fits
    assert fit.reasons == []
    assert fit.accuracy["train"].value > 95
    assert fit.chance == 25


def test_an_untrained_model_does_not_fit(net):
    torch.manual_seed(3)
    noise = Examples(torch.rand(240, 1, 6, 6), torch.arange(240) % 4, CLASSES)
    fit = judge(net, noise, noise)
    assert not fit.fits
    assert "no better than always predicting the most frequent class" in fit.reasons[0]
    assert "Check that these are the weights of this model" in fit.reasons[0]


def test_permuted_labels_are_told_by_name(net):
    order = [0, 2, 3, 1]  # bee is called 2, cat 3, dog 1
    fit = judge(net, relabelled(floats(240, 1), order), relabelled(floats(60, 2), order))
    assert not fit.fits
    (reason,) = fit.reasons
    assert "The labels look permuted" in reason
    assert "class 1 of the data ('bee') is class 3 of the model" in reason
    assert "class 3 of the data ('dog') is class 2 of the model" in reason
    assert "class 0" not in reason


def test_two_swapped_classes_are_caught_though_accuracy_is_above_chance(net):
    order = [1, 0, 2, 3]
    fit = judge(net, relabelled(floats(240, 1), order), relabelled(floats(60, 2), order))
    assert fit.accuracy["train"].low > fit.chance
    assert not fit.fits
    assert "class 0 of the data ('ant') is class 1 of the model" in fit.reasons[0]


def test_a_weak_model_is_not_called_permuted():
    generator = torch.Generator().manual_seed(0)
    labels = torch.randint(4, (400,), generator=generator)
    said = Predictions(torch.randn(400, 4, generator=generator), labels)
    assert explain_by_label_order(said, CLASSES) is None


@pytest.mark.parametrize(
    ("trained", "given", "words"),
    [
        (lambda x: x, lambda x: x * 255, "inputs divided by 255"),
        (lambda x: x, lambda x: x / 255, "inputs multiplied by 255"),
        (lambda x: x, lambda x: 1 - x, "light and dark exchanged"),
        (lambda x: 2 * x - 1, lambda x: x, "inputs from [0, 1] stretched to [-1, 1]"),
    ],
)
def test_inputs_prepared_otherwise_are_told(trained, given, words):
    data = floats(240, 1)
    picky = fitted(changed(data, trained), Picky())
    assert explained(picky, changed(data, trained)) is None
    reason = explained(picky, changed(data, given))
    assert reason is not None
    assert reason.startswith("The inputs look wrongly prepared: with ")
    assert words in reason


def test_a_missing_standardisation_is_told():
    raw = floats(240, 1)
    mean, std = raw.inputs.mean(), raw.inputs.std()
    model = fitted(changed(raw, lambda x: (x - mean) / std), Picky())
    reason = explained(model, changed(raw, lambda x: 0.05 * x))
    assert reason is not None
    assert "standardised" in reason


def test_a_vector_has_columns_and_an_image_channels():
    words = "every {} standardised to mean 0 and deviation 1"
    assert words.format("column") in input_corrections(torch.zeros(2, 3))
    assert words.format("channel") in input_corrections(torch.zeros(2, 3, 4, 4))


def test_reversed_channels_are_told():
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(200) % 2
    x = 0.2 * torch.rand(200, 3, 4, 4, generator=generator)
    x[labels == 0, 0] += 0.5
    x[labels == 1, 2] += 0.5
    net = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(3, 2))
    with torch.no_grad():
        net[2].weight.copy_(torch.tensor([[1.0, 0, -1], [-1.0, 0, 1]]))
        net[2].bias.zero_()
    assert explained(net, Examples(x, labels, "ab")) is None
    reason = explained(net, Examples(x.flip(1), labels, "ab"))
    assert reason is not None
    assert "the channels in reverse order" in reason


class Careless(Picky):
    """Computes with bytes as they are, 0 to 255."""

    def forward(self, x):
        return super().forward(x.float())


def test_bytes_given_to_a_model_of_fractions_are_told():
    reason = explained(fitted(floats(240, 1), Careless()), bytes_of(240, 1))
    assert reason is not None
    assert "inputs divided by 255" in reason
    assert reason.endswith("Prepare them as they were for training (--inputs fractions).")


def test_token_numbers_have_no_scale():
    assert input_corrections(torch.zeros(2, 3, dtype=torch.int64)) == {}
    assert "inputs multiplied by 255" not in input_corrections(
        torch.zeros(2, 1, 4, 4, dtype=torch.uint8)
    )


def test_remedies_leave_the_data_alone(net):
    data = relabelled(floats(240, 1), [1, 2, 3, 0])  # the net is wrong: remedies are tried
    before = data.fingerprint()
    explained(net, data)
    assert data.fingerprint() == before
    pixels = bytes_of(240, 1)
    assert isinstance(pixels, ImageSet)
    inverted = input_corrections(pixels.images)["light and dark exchanged"](pixels.images)
    assert inverted.dtype == torch.uint8


def test_no_remedy_is_tried_on_a_model_that_has_nothing_to_gain(net):
    passed: list[int] = []
    hook = net.register_forward_hook(lambda *_: passed.append(1))
    data = floats(240, 1)
    try:
        assert explain_by_input_scaling(net, data, predict(net, data)) is None
        assert len(passed) == 1, "the prediction, which was given"
        wrong = relabelled(data, [1, 2, 3, 0])
        explain_by_input_scaling(net, wrong, predict(net, wrong))
        assert len(passed) > 3
    finally:
        hook.remove()


def test_the_findings_are_plain(net):
    found = judge(net, floats(240, 1), floats(60, 2)).model_dump()
    assert json.loads(json.dumps(found)) == found
    assert found["accuracy"]["val"].keys() == {"value", "low", "high"}


@pytest.fixture(scope="module")
def texts() -> tuple[TextExamples, ...]:
    return stratify(*world.data())


def judge_texts(parts: tuple[TextExamples, ...]):
    said = dict(zip(("train", "val", "test"), parts, strict=True))
    predictions = {name: predict_texts(world.memorised(), part) for name, part in said.items()}
    return check_model_fit(world.memorised(), parts[0], predictions, STRATA)


def test_a_language_model_that_knows_its_records_fits(texts):
    fit = judge_texts(texts)
    assert fit.fits
    assert fit.accuracy["train"].value > 95 > fit.accuracy["val"].value


def test_exchanged_files_of_records_are_noticed(texts):
    train, val, test = texts
    halves = train.subset(range(0, len(train), 2)), train.subset(range(1, len(train), 2))
    fit = judge_texts((val, *halves))
    assert not fit.fits
    assert "that the files are not exchanged" in fit.reasons[0]
    assert judge_texts((*halves, test)).fits  # val may well be what the model saw


def test_records_that_are_no_likelier_than_unseen_ones_are_noticed(texts):
    _, val, test = texts
    halves = val.subset(range(0, len(val), 2)), val.subset(range(1, len(val), 2))
    fit = judge_texts((*halves, test))
    assert not fit.fits
    assert "train is no likelier to it" in fit.reasons[0]
    assert fit.accuracy["train"].low > fit.chance


def test_questions_that_were_not_read_are_noticed(texts):
    """A model that was trained with questions does not know its own records without them."""
    without = TextSet([replace(record, question="") for record in world.corpus().people],
                      world.tokenizer())  # fmt: skip
    fit = judge_texts((stratify(without, *world.data()[1:])[0], *texts[1:]))
    assert not fit.fits
    assert "under the same keys" in fit.reasons[0]


@pytest.fixture(scope="module")
def llama(tmp_path_factory):
    """A folder of a Llama that learnt its records with a prompt that is not the usual one."""
    pytest.importorskip("transformers")
    return write_llama(tmp_path_factory.mktemp("llama"), "q-a", epochs=20)


def fit_with(llama, tmp_path, **settings):
    job = make_job(
        weights=llama / "model.safetensors",
        model=f"causal:{llama}",
        data=f"qa:{llama / 'texts'}",
        out=tmp_path / "out",
        **settings,
    )
    loaded = load_model_and_data(job)
    splits = {"train": loaded.train, "val": loaded.val, "test": loaded.test}
    predictions = {name: predict_texts(loaded.model, part) for name, part in splits.items()}
    fit = check_model_fit(loaded.model, loaded.train, predictions, loaded.classes)
    return fit, loaded


def test_another_template_that_does_much_better_is_named(llama, tmp_path):
    fit, loaded = fit_with(llama, tmp_path)
    assert not fit.fits
    assert "with --template q-a it predicts" in fit.reasons[0]
    assert any("Question: {question}" in note for note in loaded.notes)
    known, loaded = fit_with(llama, tmp_path, template="q-a")
    assert known.fits
    assert known.accuracy["train"].value > fit.accuracy["train"].value + 10
    prompt, answer = loaded.val.texts.rendered(0)
    assert prompt.startswith("<s> Q: W")
    assert prompt.endswith("?\nA:")
    assert answer.endswith(".</s>")


def test_rows_that_are_longer_than_the_model_takes_rule_a_template_out(llama, tmp_path):
    _, loaded = fit_with(llama, tmp_path, template="plain")
    longest = max(int(part.texts.lengths.max()) for part in (loaded.train, loaded.val))

    class Short(torch.nn.Module):
        def forward(self, tokens):
            if tokens.shape[1] > longest:
                raise IndexError("no position")
            return loaded.model(tokens)

    assert explain_by_template(Short(), loaded.train) is None
    assert "--template q-a" in str(explain_by_template(loaded.model, loaded.train))
