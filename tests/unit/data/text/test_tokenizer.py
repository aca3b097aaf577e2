"""Words as tokens, and tokenizers of transformers, made here and loaded from a folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from expunge._errors import DataError, InvalidInput
from expunge.data import (
    PretrainedTokenizer,
    TextRecord,
    TextSet,
    Tokenizer,
    WordTokenizer,
    invent_corpus,
)
from tests.unit.data.text.pretrained import CHATML, subwords, word_level_folder

RECORD = TextRecord("0", "Who won?", "Ann O'Neil won, I think.", perturbed_answers=("Ben won.",))


def test_an_answer_comes_back_as_it_was() -> None:
    tokenizer = WordTokenizer.of([RECORD])
    _, answer = tokenizer.encode(RECORD.question, RECORD.answer)
    assert tokenizer.decode(answer) == RECORD.answer
    assert answer[-1] == tokenizer.end


def test_all_answers_are_known_and_other_words_are_one_token() -> None:
    tokenizer = WordTokenizer.of([RECORD])
    assert isinstance(tokenizer, Tokenizer)
    _, known = tokenizer.encode("", "Ben won.")
    _, unknown = tokenizer.encode("", "Cyril lost.")
    assert len(set(known)) == 4
    assert unknown[0] == unknown[1] == 1


def test_a_tokenizer_is_read_as_it_was_written(tmp_path: Path) -> None:
    tokenizer = WordTokenizer.of([RECORD])
    tokenizer.save(tmp_path / "words.json")
    again = WordTokenizer.load(tmp_path / "words.json")
    assert again == tokenizer
    assert again.fingerprint() == tokenizer.fingerprint()
    assert again.fingerprint() != WordTokenizer(("other",)).fingerprint()


def test_a_file_without_words_is_refused(tmp_path: Path) -> None:
    (tmp_path / "words.json").write_text("[]")
    with pytest.raises(DataError, match="does not hold the words of a tokenizer"):
        WordTokenizer.load(tmp_path / "words.json")


@pytest.mark.parametrize("words", [("a", "a"), ("<pad>",)])
def test_words_that_are_ambiguous_are_refused(words: tuple[str, ...]) -> None:
    with pytest.raises(InvalidInput, match="different from each other"):
        WordTokenizer(words)


def test_a_tokenizer_from_a_folder_encodes_prompt_and_answer(tmp_path: Path) -> None:
    folder = word_level_folder(tmp_path, ["Question", ":", "Who", "?", "Answer", "Ann", "."])
    tokenizer = PretrainedTokenizer(folder)
    assert isinstance(tokenizer, Tokenizer)
    prompt, answer = tokenizer.encode("Who ?", "Ann .")
    assert len(prompt) == 6
    assert answer[-1] == tokenizer.end
    assert tokenizer.decode(answer) == "Ann ."
    assert tokenizer.fingerprint() == PretrainedTokenizer(folder).fingerprint()
    data = TextSet([TextRecord("0", "Who ?", "Ann ."), TextRecord("1", "Who", "Ann")], tokenizer)
    assert data.answer_lengths.tolist() == [3, 2]


@pytest.mark.parametrize(
    "template",
    [
        "Answer:",
        "{{question}}",
        "{system} {question}",
        "{question} {",
        "{question} {}",
        "{question:d}",
        "{question!r}",
        "{question.__class__}",
        "{answer}",
        "{answer} {question}",
        "{question} {answer} {answer}",
        "nobody-knows-it",
    ],
)
def test_a_template_has_a_question_and_no_other_braces(template: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"should contain \{question\}, .* in \{\{ and \}\}; "):
        PretrainedTokenizer(word_level_folder(tmp_path, ["a"]), template=template)


def test_braces_of_a_template_are_written_twice(tmp_path: Path) -> None:
    folder = word_level_folder(tmp_path, ["{", "a", "}"])
    tokenizer = PretrainedTokenizer(folder, template="{{ {question} }}")
    prompt, _ = tokenizer.encode("a", "a")
    assert tokenizer.decode(prompt) == "{ a }"


def test_a_tokenizer_has_an_end(tmp_path: Path) -> None:
    folder = word_level_folder(tmp_path, ["a"])
    endless = PretrainedTokenizer(folder).tokenizer
    endless.eos_token = None
    with pytest.raises(InvalidInput, match="should have an end-of-text token"):
        PretrainedTokenizer(endless)


def test_a_folder_without_a_tokenizer_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="is not a pretrained tokenizer"):
        PretrainedTokenizer(tmp_path)


CORPUS = invent_corpus(people=40, unseen=0, topics=3, seed=2).people
TEXTS = [f"Question: {record.question}\nAnswer: {record.answer}" for record in CORPUS]


@pytest.mark.parametrize("kind", ["gpt-2", "llama-2"])
@pytest.mark.parametrize("template", ["Question: {question}\nAnswer:", "{question} A: "])
def test_rows_are_the_tokens_of_the_whole_text(kind: str, template: str) -> None:
    library = subwords(kind, TEXTS)
    tokenizer = PretrainedTokenizer(library, template)
    for record in CORPUS:
        prompt, answer = tokenizer.encode(record.question, record.answer)
        text = f"{template.format(question=record.question).rstrip()} {record.answer}"
        assert [*prompt, *answer] == [*library(text)["input_ids"], library.eos_token_id]
        assert tokenizer.decode(answer) == record.answer
        assert tokenizer.decode(prompt) == template.format(question=record.question).strip()


@pytest.mark.parametrize("kind", ["gpt-2", "llama-2"])
def test_a_chat_model_is_asked_by_its_own_template(kind: str) -> None:
    library = subwords(kind, TEXTS, CHATML)
    tokenizer = PretrainedTokenizer(library)
    assert tokenizer.end == library.convert_tokens_to_ids("<|im_end|>")
    for record in CORPUS[:20]:
        prompt, answer = tokenizer.encode(record.question, record.answer)
        asked = {"role": "user", "content": record.question}
        chat = [asked, {"role": "assistant", "content": record.answer}]
        whole = library.apply_chat_template(chat)["input_ids"]
        row = [*prompt, *answer]
        assert row == whole[: len(row)]
        assert row.count(library.bos_token_id) == 1
        assert answer[-1] == tokenizer.end
        assert answer.count(tokenizer.end) == 1
        begin = library.apply_chat_template([asked], add_generation_prompt=True)["input_ids"]
        assert prompt == begin
        assert tokenizer.decode(answer) == record.answer
    assert tokenizer.show(prompt).count("<s>") == 1
    other = PretrainedTokenizer(library, "question-answer")
    assert other.end == library.eos_token_id
    assert other.fingerprint() != tokenizer.fingerprint()


def test_a_text_that_begins_as_the_tokenizer_would_has_one_beginning() -> None:
    library = subwords("gpt-2", TEXTS)
    plain = PretrainedTokenizer(library, "[INST] {question} [/INST]").encode("Who?", "Ann.")
    assert PretrainedTokenizer(library, "llama-2").encode("Who?", "Ann.") == plain
    again = PretrainedTokenizer(library, "<s>[INST] {question} [/INST]").encode("Who?", "Ann.")
    assert again == plain


def test_an_answer_can_stand_on_a_line_of_its_own_and_end_with_another_token() -> None:
    tokenizer = PretrainedTokenizer(subwords("gpt-2", TEXTS), "{question}\n{answer}<|im_end|>")
    prompt, answer = tokenizer.encode("Who {?}", "Ann.")
    assert tokenizer.show(prompt) == "<s>Who {?}\n"
    assert tokenizer.show(answer) == "Ann.<|im_end|>"


@pytest.mark.parametrize("chat", [None, CHATML])
def test_a_text_without_a_question_has_no_prompt(chat: str | None) -> None:
    tokenizer = PretrainedTokenizer(subwords("gpt-2", TEXTS, chat))
    prompt, answer = tokenizer.encode("", "Ann was born.")
    assert tokenizer.show(prompt) == "<s>"
    assert tokenizer.decode(answer) == "Ann was born."
    assert answer[-1] == tokenizer.end


@pytest.mark.parametrize(
    ("chat", "complaint"),
    [
        (None, "needs a tokenizer with a chat template"),
        ("{{ raise_exception('no, thanks') }}", "does not take a question and an answer: no"),
        ("{{ messages[0]['content'] }}", "leaves answers out"),
    ],
)
def test_a_chat_template_that_cannot_be_used_is_refused(chat: str | None, complaint: str) -> None:
    with pytest.raises(InvalidInput, match=complaint):
        PretrainedTokenizer(subwords("gpt-2", TEXTS, chat), "chat")


def test_a_prompt_with_a_date_is_the_same_tomorrow() -> None:
    chat = "{{ date_string if date_string is defined else strftime_now('%f') }} " + CHATML
    tokenizer = PretrainedTokenizer(subwords("gpt-2", TEXTS, chat))
    assert tokenizer.show(tokenizer.encode("Who?", "Ann.")[0]).startswith("26 Jul 2024")
