"""Small models for images, vectors and text, and a small language model, each with a width."""

from typing import TYPE_CHECKING

from expunge._lazy import lazy_exports

if TYPE_CHECKING:
    from expunge.models._build import LANGUAGE_MODELS as LANGUAGE_MODELS
    from expunge.models._build import MODELS as MODELS
    from expunge.models._build import build_language_model as build_language_model
    from expunge.models._build import build_model as build_model
    from expunge.models._classifiers import MLP as MLP
    from expunge.models._classifiers import VGG16 as VGG16
    from expunge.models._classifiers import ReleasedVGG16 as ReleasedVGG16
    from expunge.models._classifiers import ResNet18 as ResNet18
    from expunge.models._classifiers import SmallCNN as SmallCNN
    from expunge.models._classifiers import TextBag as TextBag
    from expunge.models._external import load_causal_model as load_causal_model
    from expunge.models._normalise import Normalise as Normalise
    from expunge.models._normalise import channel_statistics as channel_statistics
    from expunge.models._transformer import SmallTransformer as SmallTransformer
if TYPE_CHECKING:  # for other packages of expunge
    from expunge.models._build import (
        RESERVED,
        check_model,
        inputs_of_model,
        is_external,
        read_model_spec,
    )
    from expunge.models._external import (
        build_external,
        check_is_causal,
        has_adapters,
        make_module,
        with_frozen,
    )
    from expunge.models._normalise import column_statistics
else:
    __getattr__, __dir__, __all__ = lazy_exports(__name__)
