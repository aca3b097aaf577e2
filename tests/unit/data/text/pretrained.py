"""A tokenizer of transformers that needs no download."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path


def word_level_folder(folder: Path, words: Sequence[str]) -> Path:
    """A folder that ``AutoTokenizer`` loads: a token per word."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    vocabulary = {word: k for k, word in enumerate(("<pad>", "<end>", "<unk>", *words))}
    raw = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    raw.pre_tokenizer = pre_tokenizers.Whitespace()
    fast = PreTrainedTokenizerFast(
        tokenizer_object=raw, pad_token="<pad>", eos_token="<end>", unk_token="<unk>"
    )
    fast.save_pretrained(folder)
    return folder
