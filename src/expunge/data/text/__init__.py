"""Questions and answers for causal language models: records, tokens, and an invented corpus."""

from typing import TYPE_CHECKING

from expunge._lazy import lazy_exports

if TYPE_CHECKING:  # expunge.data lists what is public
    from expunge.data.text._benchmarks import read_text_splits
    from expunge.data.text._corpora import Corpus, invent_corpus
    from expunge.data.text._records import TextRecord, load_records, save_records
    from expunge.data.text._text_examples import (
        TextExamples,
        is_given_by_retained,
        question_tokens,
        stratify,
    )
    from expunge.data.text._text_set import IGNORED, TextSet, row_lengths
    from expunge.data.text._tokenizer import (
        CHAT,
        TEMPLATES,
        PretrainedTokenizer,
        Tokenizer,
        WordTokenizer,
    )
else:
    __getattr__, __dir__, __all__ = lazy_exports(__name__)
