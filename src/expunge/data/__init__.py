"""Datasets in memory, their splits, and the scenarios that pick what to forget."""

from typing import TYPE_CHECKING

from expunge._lazy import lazy_exports

if TYPE_CHECKING:
    from expunge.data._augment import Augment as Augment
    from expunge.data._download import cache_dir as cache_dir
    from expunge.data._download import fetch as fetch
    from expunge.data._examples import Examples as Examples
    from expunge.data._examples import ImageSet as ImageSet
    from expunge.data._formats import DATASETS as DATASETS
    from expunge.data._formats import Format as Format
    from expunge.data._formats import load as load
    from expunge.data._preferred_answers import PreferredAnswers as PreferredAnswers
    from expunge.data._preferred_answers import pad_sequences as pad_sequences
    from expunge.data._scenario import SCENARIOS as SCENARIOS
    from expunge.data._scenario import ClassForget as ClassForget
    from expunge.data._scenario import IdsForget as IdsForget
    from expunge.data._scenario import PeopleForget as PeopleForget
    from expunge.data._scenario import RandomForget as RandomForget
    from expunge.data._scenario import Scenario as Scenario
    from expunge.data._scenario import absolute_spec as absolute_spec
    from expunge.data._scenario import parse_scenario as parse_scenario
    from expunge.data._splits import Division as Division
    from expunge.data._splits import Selection as Selection
    from expunge.data._splits import Splits as Splits
    from expunge.data._splits import divide as divide
    from expunge.data._splits import hold_out as hold_out
    from expunge.data.text._corpora import CORPORA as CORPORA
    from expunge.data.text._corpora import Corpus as Corpus
    from expunge.data.text._corpora import TextDivision as TextDivision
    from expunge.data.text._corpora import TextSplits as TextSplits
    from expunge.data.text._corpora import divide_texts as divide_texts
    from expunge.data.text._corpora import invent_corpus as invent_corpus
    from expunge.data.text._corpora import load_corpus as load_corpus
    from expunge.data.text._records import TextRecord as TextRecord
    from expunge.data.text._records import load_records as load_records
    from expunge.data.text._records import save_records as save_records
    from expunge.data.text._text_set import TextSet as TextSet
    from expunge.data.text._tokenizer import PretrainedTokenizer as PretrainedTokenizer
    from expunge.data.text._tokenizer import Tokenizer as Tokenizer
    from expunge.data.text._tokenizer import WordTokenizer as WordTokenizer
if TYPE_CHECKING:  # for other packages of expunge
    from expunge.data._batches import (
        Batch,
        Data,
        Split,
        as_arrays,
        as_batch,
        batch_of,
        check_sized,
        labels_of,
        read_items,
        row_hashes,
        rows_of,
    )
    from expunge.data._csv_file import read_table
    from expunge.data._download import no_downloads
    from expunge.data._formats import find_data, is_data_factory, looks_like_path
    from expunge.data._id_file import COLUMNS, Id, abbreviated, as_id, as_number, read_placed_ids
    from expunge.data._preferred_answers import POSITION, PREFIX, Numbered, named, split_preferred
    from expunge.data._read_dataset import read_splits
    from expunge.data._sources import (
        LoaderSource,
        Source,
        Stream,
        as_source,
        seed_of,
        stop_augmenting,
    )
    from expunge.data._splits import draw_val, thin_out
else:
    __getattr__, __dir__, __all__ = lazy_exports(__name__)
