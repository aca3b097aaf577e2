"""Words as tokens."""

from __future__ import annotations

from pathlib import Path

import pytest

from expunge._errors import DataError, InvalidInput
from expunge.data.text import TextRecord, Tokenizer, WordTokenizer

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
