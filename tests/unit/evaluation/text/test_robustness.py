"""What brings facts back: relearning, rounded weights, sampled answers."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from torch import nn

from expunge.data.text import TextExamples, stratify
from expunge.evaluation.text._generation import SAMPLES, sample_answers
from expunge.evaluation.text._measures import fact_tokens
from expunge.evaluation.text._robustness import (
    TENTH,
    after_relearning,
    attack_facts,
    round_weights,
    sampled_facts,
)
from expunge.evaluation.text._text_predictions import predict_texts
from tests.unit.evaluation.text.worlds import TOKENIZER, Bigrams, text_set

KNOWN = text_set(range(6))


def parts() -> tuple[TextExamples, TextExamples, TextExamples]:
    """Records to forget, unseen ones, and retained ones."""
    train, _, test = stratify(
        text_set(), text_set(range(4), "unseen"), text_set(range(4, 12), "unseen")
    )
    return train.subset(range(6)), test, train.subset(range(6, len(train)))


def test_rounded_weights_are_the_nearest_of_16_levels_of_their_row() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(5, 3), nn.LayerNorm(3))
    before = copy.deepcopy(model.state_dict())
    rounded = round_weights(model)
    for row, got in zip(before["0.weight"].tolist(), rounded[0].weight.tolist(), strict=True):
        scale = max(map(abs, row)) / 7
        levels = [k * scale for k in range(-8, 8)]
        nearest = [min(levels, key=lambda level, w=w: abs(level - w)) for w in row]
        np.testing.assert_allclose(got, nearest, rtol=1e-6)
    assert torch.equal(rounded[0].bias, before["0.bias"]), "no matrix"
    assert all(torch.equal(model.state_dict()[name], value) for name, value in before.items())


def test_sampled_tokens_have_the_probabilities_of_the_model() -> None:
    data = text_set([0])
    torch.manual_seed(0)
    model = Bigrams()
    model.table.data *= 0.3
    start = int((data.labels[0] != -100).long().argmax())
    logits = model(data.tokens[:, :start])[0, -1]
    expected = torch.softmax(logits.detach(), dim=0).numpy()
    counts, draws = np.zeros(TOKENIZER.size), 200
    data.labels[0, start + 1 :] = -100  # an answer of one token
    for seed in range(draws):
        (said,) = sample_answers(model, data, seed=seed)
        assert len(said) == SAMPLES
        counts += np.bincount(said, minlength=TOKENIZER.size)
    spread = np.sqrt(expected * (1 - expected) / (draws * SAMPLES))
    assert (np.abs(counts / (draws * SAMPLES) - expected) < 5 * spread + 1e-3).all()


def test_facts_of_sampled_answers_are_found_where_the_model_knows_them() -> None:
    known, strangers = text_set(range(6)), text_set(range(6), "unseen")
    model = Bigrams(known, strength=30.0)
    found, others = (sampled_facts(model, data) for data in (known, strangers))
    answers = sample_answers(model, known)
    for row, said in enumerate(answers):
        facts = known.labels[row][fact_tokens(known)[row]].tolist()
        assert found[row] == np.mean([token in said for token in facts])
    assert found.mean() > others.mean() + 0.3


def test_a_tenth_is_relearned_and_the_rest_compared() -> None:
    forget, unseen, retain = parts()
    model = Bigrams(retain.texts)
    again = after_relearning(model, (forget, unseen), retain)
    own, other = (predict_texts(m, forget).scores["loss"] for m in (again, model))
    assert own[0] > other[0], "it was learnt"
    later = attack_facts(model, forget, unseen, retain)
    sizes = {moment: tuple(map(len, each["facts_right"])) for moment, each in later.items()}
    rests = tuple(len(part) - -(-len(part) // TENTH) for part in (forget, unseen))
    assert sizes["after relearning a tenth"] == rests
    assert sizes["with 4-bit weights"] == (len(forget), len(unseen))
    assert sizes["in sampled answers"][0] == len(forget)


def test_of_a_single_record_nothing_is_left_to_relearn() -> None:
    forget, unseen, retain = parts()
    later = attack_facts(Bigrams(), forget.subset([0]), unseen, retain)
    assert [*later] == ["with 4-bit weights", "in sampled answers"]


def test_a_model_that_knows_the_facts_shows_it_at_every_moment() -> None:
    forget, unseen, retain = parts()
    for each in attack_facts(Bigrams(forget.texts, 30.0), forget, unseen, retain).values():
        known, others = each["facts_right"]
        assert known.mean() > others.mean() + 0.2


def test_models_of_transformers_draw_from_all_of_their_tokens() -> None:
    library = pytest.importorskip("transformers")
    sizes = {"hidden_size": 8, "num_attention_heads": 2, "num_hidden_layers": 1}
    config = library.LlamaConfig(vocab_size=TOKENIZER.size, intermediate_size=8, **sizes)
    model = library.LlamaForCausalLM(config).eval()
    torch.nn.init.zeros_(model.lm_head.weight)  # every token is as likely as the next
    model.generation_config.update(temperature=0.01, top_p=0.1)  # as chat models have them
    answers = sample_answers(model, KNOWN, seed=1)
    assert answers == sample_answers(model, KNOWN, seed=1)
    assert len({token for said in answers for token in said}) > 50, "more than top_k by default"


def test_adapters_are_rounded_as_part_of_the_weights_below() -> None:
    """By themselves they would survive where a small change of the weights does not."""
    library, peft = pytest.importorskip("transformers"), pytest.importorskip("peft")
    sizes = {"hidden_size": 8, "num_attention_heads": 2, "num_hidden_layers": 1}
    config = library.LlamaConfig(vocab_size=TOKENIZER.size, intermediate_size=8, **sizes)
    torch.manual_seed(0)
    base = library.LlamaForCausalLM(config)
    lora = peft.LoraConfig(r=2, target_modules=["q_proj"], init_lora_weights=False)
    model = peft.get_peft_model(copy.deepcopy(base), lora).eval()
    rounded = round_weights(model)
    merged = round_weights(copy.deepcopy(model).merge_and_unload())
    states = rounded.state_dict(), merged.state_dict()
    assert states[0].keys() == base.state_dict().keys()
    assert all(torch.equal(value, states[1][name]) for name, value in states[0].items())
    assert hasattr(model, "merge_and_unload"), "the model itself stays"
