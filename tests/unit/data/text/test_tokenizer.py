"""Words as tokens, and tokenizers of transformers, made here and loaded from a folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from expunge._errors import DataError, InvalidInput
from expunge.data.text import (
    PretrainedTokenizer,
    TextRecord,
    TextSet,
    Tokenizer,
    WordTokenizer,
)
from tests.unit.data.text.pretrained import word_level_folder

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


def test_a_tokenizer_from_a_folder_encodes_prompt_and_answer_apart(tmp_path: Path) -> None:
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
    ],
)
def test_a_template_has_a_question_and_no_other_braces(template: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"should contain \{question\}, .* in \{\{ and \}\}\. "):
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
