"""A tokenizer of transformers that needs no download."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any


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


CHATML = (
    "{{ bos_token }}{% for message in messages %}<|im_start|>{{ message['role'] }}\n"
    "{{ message['content'] | trim }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def subwords(kind: str, texts: Sequence[str], chat: str | None = None, size: int = 300) -> Any:
    """A BPE tokenizer trained on the spot, with a token that begins every text.

    ``gpt-2`` splits bytes, and a word takes the blank before it; ``llama-2`` puts a blank before
    the whole text, so that an answer by itself has other tokens than behind its prompt.
    """
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
    from tokenizers.trainers import BpeTrainer
    from transformers import PreTrainedTokenizerFast

    special = ["<s>", "</s>", "<unk>", "<|im_start|>", "<|im_end|>"]
    if kind == "gpt-2":
        raw = Tokenizer(models.BPE())
        raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        raw.decoder = decoders.ByteLevel()
        alphabet = pre_tokenizers.ByteLevel.alphabet()
    else:
        raw = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True))
        raw.normalizer = normalizers.Sequence(
            [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
        )
        raw.pre_tokenizer = pre_tokenizers.Sequence(  # no token reaches over a blank
            [pre_tokenizers.Split("▁", "merged_with_next"), pre_tokenizers.Split("\n", "isolated")]
        )
        raw.decoder = decoders.Sequence(
            [decoders.Replace("▁", " "), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
        )
        alphabet = list("\n:?#[]/QA")
    trainer = BpeTrainer(
        vocab_size=size, special_tokens=special, initial_alphabet=alphabet, show_progress=False
    )
    raw.train_from_iterator(texts, trainer)
    raw.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 0)])
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=raw, bos_token="<s>", eos_token="</s>", unk_token="<unk>"
    )
    tokenizer.chat_template = chat
    return tokenizer
