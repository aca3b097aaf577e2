"""Questions and answers for causal language models: records, tokens, and an invented corpus."""

from typing import TYPE_CHECKING

from expunge._lazy import lazy_exports

if TYPE_CHECKING:  # expunge.data lists what is public
    from expunge.data.text._benchmarks import read_text_splits
    from expunge.data.text._text_examples import (
        TextExamples,
        is_given_by_retained,
        question_tokens,
        stratify,
    )
    from expunge.data.text._text_set import IGNORED, TextSet, row_lengths
    from expunge.data.text._tokenizer import CHAT, TEMPLATES
else:
    __getattr__, __dir__, __all__ = lazy_exports(__name__)
