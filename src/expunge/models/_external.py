"""Models of transformers and of the user: hf:PATH, package.module:factory.

Their weights keep the names that they have there. Images come to them as floats x / 255.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from expunge._errors import DataError, InvalidInput
from expunge._factory import call_factory, has_module
from expunge._lazy import import_extra
from expunge.models._build import unknown_model

HF_HEADS = ("ForSequenceClassification", "ForImageClassification")
"""Endings of architectures that classify; ``AutoModel`` with one of them builds it."""


def build_external(name: str, options: dict[str, Any]) -> nn.Module:
    """The model that ``name`` stands for, with the weights that it is made with."""
    if name.startswith("hf:"):
        return _build_hf(name.removeprefix("hf:"), options)
    if not has_module(name):
        raise unknown_model(name)
    return make_module(name, options)


def make_module(factory: str, options: dict[str, Any]) -> nn.Module:
    """The model that a factory makes, which should be a module."""
    model = call_factory(factory, "model", **options)
    if not isinstance(model, nn.Module):
        raise InvalidInput(
            f"The model factory {factory} should return a torch.nn.Module. "
            f"(got {type(model).__name__})"
        )
    return model


def bytes_to_unit(_: nn.Module, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """A hook that hands images over as floats x / 255 where they come as bytes."""
    return tuple(
        x.float() / 255 if isinstance(x, Tensor) and x.dtype == torch.uint8 else x for x in inputs
    )


def _build_hf(path: str, options: dict[str, Any]) -> nn.Module:
    """A classifier of the transformers library from the configuration in a folder."""
    library = import_extra("transformers", "transformers", "Models of transformers")
    place = Path(path).expanduser()
    if not (place / "config.json").is_file():
        raise InvalidInput(
            f"hf:PATH should be a folder that save_pretrained wrote, with a config.json. (got "
            f"{place})"
        )
    try:
        config = library.AutoConfig.from_pretrained(place, **options)
        architecture = (config.architectures or [""])[0]
        head = next(filter(architecture.endswith, HF_HEADS), None)
        if head is None:
            raise InvalidInput(
                f"hf:PATH should be a model that classifies: {', '.join(HF_HEADS)}. (got "
                f"{architecture or 'none'} in {place})"
            )
        model: nn.Module = getattr(library, f"AutoModel{head}").from_config(config)
    except InvalidInput:
        raise
    except Exception as error:  # a damaged configuration, or one that needs code of its own
        raise InvalidInput(f"transformers cannot make the model in {place}: {error}") from error
    images = architecture.endswith("ForImageClassification")
    padding = 0 if getattr(config, "pad_token_id", None) is None else config.pad_token_id
    model.register_forward_pre_hook(partial(_by_name, images, padding), with_kwargs=True)
    model.register_forward_hook(_logits_alone)
    return model


def _by_name(
    images: bool, padding: int, _: nn.Module, inputs: tuple[Any, ...], named: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Hand inputs over by name, with an attention mask; padding 0 becomes the model's own."""
    if not inputs:
        return inputs, named
    if images:
        (values,) = bytes_to_unit(_, inputs)
        return (), named | {"pixel_values": values}
    ids = inputs[0]
    there = ids != 0
    tokens = ids if padding == 0 else ids.masked_fill(~there, padding)
    return (), named | {"input_ids": tokens, "attention_mask": there.long()}


def _logits_alone(_: nn.Module, __: tuple[Any, ...], output: Any) -> Any:
    return getattr(output, "logits", output)


def load_causal_model(source: str | Path, **options: Any) -> nn.Module:
    """A causal language model of transformers in eval mode, from its folder or by its name.

    ``options`` are those of ``AutoModelForCausalLM.from_pretrained``, such as ``dtype``. Weights
    are read from safetensors only, so that nothing is unpickled. ``expunge[transformers]`` installs
    what it needs. A folder with adapters of PEFT is read with the model that they belong to: they
    may move, and what is below them is frozen.
    """
    library = import_extra("transformers", "transformers", "Pretrained models")
    if (Path(source) / "adapter_config.json").is_file():
        return _load_adapters(Path(source), options)
    try:
        if library.AutoConfig.from_pretrained(str(source)).is_encoder_decoder:
            raise InvalidInput(
                f"{source} is an encoder-decoder model, which reads its prompt apart from the "
                "answer. Give a causal language model, such as Llama or GPT-2."
            )
        model: Any = library.AutoModelForCausalLM.from_pretrained(
            str(source), **({"use_safetensors": True} | options)
        )
    except InvalidInput:
        raise
    except (OSError, ValueError) as error:
        raise DataError(f"{source} is not a pretrained causal language model: {error}") from error
    tokens = torch.arange(8)[None] % model.get_input_embeddings().num_embeddings
    causal: nn.Module = model.eval()
    check_is_causal(causal, tokens)
    return causal


def _load_adapters(folder: Path, options: dict[str, Any]) -> nn.Module:
    peft = import_extra("peft", "peft", "Adapters")
    if not (folder / "adapter_model.safetensors").is_file():
        raise DataError(f"{folder} should have its adapters in adapter_model.safetensors.")
    try:
        below = peft.PeftConfig.from_pretrained(str(folder)).base_model_name_or_path
        base = load_causal_model(below, **options)
        adapted: nn.Module = peft.PeftModel.from_pretrained(base, str(folder), is_trainable=True)
    except (OSError, ValueError, TypeError, RuntimeError) as error:
        raise DataError(f"PEFT cannot read the adapters in {folder}: {error}") from error
    return adapted.eval()


def has_adapters(model: nn.Module) -> bool:
    """Whether what may move are adapters of PEFT, above frozen weights."""
    return hasattr(model, "peft_config") and not all(p.requires_grad for p in model.parameters())


def with_frozen(model: nn.Module, state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The weights of adapters, as PEFT names them in files, with those of the model below them."""
    if not has_adapters(model):
        return dict(state)
    peft = import_extra("peft", "peft", "Adapters")
    whole = model.state_dict()
    places = {tensor.data_ptr(): name for name, tensor in whole.items()}
    files = peft.get_peft_model_state_dict(model)
    if not state.keys() <= files.keys():
        return dict(state)
    return whole | {places[files[name].data_ptr()]: value for name, value in state.items()}


@torch.inference_mode()
def check_is_causal(model: nn.Module, tokens: Tensor) -> None:
    """Refuse a model whose outputs at the first of ``tokens`` [1, T] depend on the last one."""
    if len(tokens[0]) < 2:
        return
    other = tokens.clone()
    other[0, -1] = tokens[0, 0] if tokens[0, -1] != tokens[0, 0] else (tokens[0, 0] + 1) % 2
    first, second = (_logits_alone(model, (), model(each))[0, :-1] for each in (tokens, other))
    if (first - second).abs().max() > 1e-4 * first.std():
        raise InvalidInput(
            "The model reads what comes after a token, as masked language models such as BERT do, "
            "so that it cannot be asked for answers. Give a causal language model, such as Llama "
            f"or GPT-2. (got {type(model).__name__})"
        )
