"""Greedy answers, and ROUGE-L of them."""

from __future__ import annotations

import re
import sys

import pytest
import torch
from nltk.stem.porter import PorterStemmer
from torch import Tensor, nn

from expunge._errors import InvalidInput
from expunge.engine._token_scores import score_tokens
from expunge.evaluation.text._generation import EXTRA, continuations, rouge_l
from tests.reference import text_metrics as literal
from tests.unit.evaluation.text.worlds import TOKENIZER, Bigrams, as_function, text_set

DATA = text_set(range(8))
MODEL = Bigrams(text_set(range(6)))


def answered(model: nn.Module) -> list[str]:
    return continuations(model, DATA, score_tokens(model, DATA))


def test_continuations_are_greedy_from_the_prompt_on() -> None:
    most = int(DATA.answer_lengths.max()) + EXTRA
    p = as_function(MODEL)
    for record, text in zip(DATA.records, answered(MODEL), strict=True):
        prompt, _ = TOKENIZER.encode(record.question, "")[0], None
        tokens = literal.greedy(p, prompt, most)
        if TOKENIZER.end in tokens:
            tokens = tokens[: tokens.index(TOKENIZER.end)]
        assert text == TOKENIZER.decode(tokens)


def test_what_comes_out_whole_is_not_generated_again() -> None:
    single = text_set([0])
    certain = Bigrams(single, strength=50.0)
    scores = score_tokens(certain, single)
    certain.rows = 0
    assert continuations(certain, single, scores) == [single.records[0].answer]
    assert certain.rows == 0


def test_rows_stay_within_the_context_of_the_model() -> None:
    MODEL.context = 24
    try:
        texts = answered(MODEL)
    finally:
        del MODEL.context
    assert len(texts) == len(DATA)


def test_rouge_l_is_the_longest_common_subsequence_over_the_words_of_the_answer() -> None:
    stem = PorterStemmer().stem
    answers = [
        "Ann Voss keeps a raven called Juno.",
        "The Hidden Tower is the book that Zelda wrote.",
    ]
    texts = ["A raven called Juno keeps Ann.", "Zelda wrote the hidden towers."]

    def words(text: str) -> list[str]:
        found = re.findall(r"[a-z0-9]+", text.lower())
        return [stem(word) if len(word) > 3 else word for word in found]

    expected = [
        literal.longest_common_subsequence(words(text), words(answer)) / len(words(answer))
        for text, answer in zip(texts, answers, strict=True)
    ]
    assert rouge_l(texts, answers) == pytest.approx(expected)
    assert rouge_l(answers, answers) == pytest.approx([1.0, 1.0])
    assert rouge_l(["", "?"], answers) == pytest.approx([0.0, 0.0])


def test_without_the_library_the_remedy_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rouge_score.rouge_scorer", None)
    with pytest.raises(InvalidInput, match=r"pip install 'expunge\[text\]'"):
        rouge_l(["a"], ["a"])


@pytest.mark.parametrize("family", ["Llama", "GPT2"])
def test_cached_keys_change_no_answer(family: str) -> None:
    """With its cache a model of transformers gets one new token at a time, and says the same."""
    library = pytest.importorskip("transformers")
    sizes = {"hidden_size": 16, "num_attention_heads": 2, "num_hidden_layers": 2}
    ends = {"bos_token_id": None, "eos_token_id": None, "intermediate_size": 32}
    context = DATA.tokens.shape[1] + 4  # less than some continuations would take
    config = getattr(library, f"{family}Config")(
        vocab_size=TOKENIZER.size, max_position_embeddings=context, **sizes, **ends
    )
    torch.manual_seed(0)
    model = getattr(library, f"{family}{'LMHeadModel' if family == 'GPT2' else 'ForCausalLM'}")(
        config
    ).eval()
    widths: list[int] = []
    layer = model.get_input_embeddings()
    layer.register_forward_hook(lambda _, inputs, __: widths.append(inputs[0].shape[1]))
    cached = answered(model)
    assert widths.count(1) > EXTRA
    own = {"repetition_penalty": 5.0, "min_new_tokens": 9}  # as chat models may have
    model.generation_config.update(**own)
    assert answered(model) == cached
    assert model.generation_config.to_dict().items() >= own.items()
    widths.clear()

    class Plain(nn.Module):
        """The same model without `generate`."""

        def __init__(self) -> None:
            super().__init__()
            self.inner, self.context = model, context

        def forward(self, tokens: Tensor) -> Tensor:
            return self.inner(tokens, use_cache=False).logits

    assert answered(Plain()) == cached
    assert 1 not in widths
    assert len({text for text in cached if text}) > 1
