"""Pretrained causal language models, through transformers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from expunge._errors import DataError, InvalidInput

if TYPE_CHECKING:
    from torch import nn


def load_causal_model(source: str | Path, **options: Any) -> nn.Module:
    """A causal language model of transformers in eval mode, from its folder or by its name.

    ``options`` are those of ``AutoModelForCausalLM.from_pretrained``, such as ``dtype``. Weights
    are read from safetensors only, so that nothing is unpickled. ``expunge[transformers]`` installs
    what it needs.
    """
    try:
        from transformers import AutoModelForCausalLM
    except ImportError as error:
        raise InvalidInput(
            "Pretrained models need transformers: pip install 'expunge[transformers]'."
        ) from error
    try:
        model: nn.Module = AutoModelForCausalLM.from_pretrained(
            str(source), **({"use_safetensors": True} | options)
        )
    except (OSError, ValueError) as error:
        raise DataError(f"{source} is not a pretrained causal language model: {error}") from error
    return model.eval()
