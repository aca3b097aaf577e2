"""Questions and answers for causal language models: records, tokens, and an invented corpus."""

from typing import TYPE_CHECKING

from expunge._lazy import lazy_exports

if TYPE_CHECKING:
    from expunge.data.text._invented_people import Corpus as Corpus
    from expunge.data.text._invented_people import invent_corpus as invent_corpus
    from expunge.data.text._pretrained import PretrainedTokenizer as PretrainedTokenizer
    from expunge.data.text._records import TextRecord as TextRecord
    from expunge.data.text._records import load_records as load_records
    from expunge.data.text._records import save_records as save_records
    from expunge.data.text._text_set import TextSet as TextSet
    from expunge.data.text._tokenizer import Tokenizer as Tokenizer
    from expunge.data.text._tokenizer import WordTokenizer as WordTokenizer
if TYPE_CHECKING:  # for other packages of expunge
    from expunge.data.text._pretrained import TEMPLATE
    from expunge.data.text._question_tokens import is_given_by_retained, question_tokens
    from expunge.data.text._text_examples import TextExamples, stratify
    from expunge.data.text._text_set import IGNORED
else:
    __getattr__, __dir__, __all__ = lazy_exports(__name__)
