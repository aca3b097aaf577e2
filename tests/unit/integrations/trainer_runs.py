"""Runs of the Trainer on tiny language models, by one process or by the processes of a team."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.utils.data import Dataset

WORDS = 12
LR = 1e-2


def gpt(dropout: float = 0.0, kind: str = "GPT2LMHeadModel", **options: Any) -> nn.Module:
    import transformers

    torch.manual_seed(0)
    drop = dict.fromkeys(("resid_pdrop", "embd_pdrop", "attn_pdrop"), dropout)
    size = {"n_embd": 16, "n_layer": 1, "n_head": 2, "n_positions": 8, "vocab_size": WORDS}
    ends = {"bos_token_id": 0, "eos_token_id": 0, "pad_token_id": 0}
    config = transformers.GPT2Config(**size | drop | ends | {"loss_type": "ForCausalLM"} | options)
    return getattr(transformers, kind)(config)  # type: ignore[no-any-return]


class Texts(Dataset[Any]):
    """Sequences whose prompts differ in length, so that shares differ in tokens."""

    def __init__(self, count: int, seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        self.tokens = torch.randint(1, WORDS, (count, 8), generator=generator)

    def __len__(self) -> int:
        return len(self.tokens)

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        labels = self.tokens[index].clone()
        labels[: 2 + index % 4] = -100
        mask = torch.ones_like(labels)
        return {"input_ids": self.tokens[index], "attention_mask": mask, "labels": labels}


FORGET, RETAIN = Texts(8, 1), Texts(10, 2)


def arguments(folder: Path, **options: Any) -> Any:
    import transformers

    chosen: dict[str, Any] = {"num_train_epochs": 2, "per_device_train_batch_size": 2}
    chosen |= {"learning_rate": LR, "lr_scheduler_type": "constant", "max_grad_norm": 0.0}
    chosen |= {"logging_steps": 1, "report_to": [], "use_cpu": True, "disable_tqdm": True}
    chosen |= {"save_strategy": "no"}
    return transformers.TrainingArguments(output_dir=str(folder), **chosen | options)


def trainer(folder: Path, model: nn.Module | None = None, **options: Any) -> Any:
    from expunge.integrations import UnlearningTrainer

    ours = (
        "forget",
        "retain",
        "unseen",
        "method",
        "addon",
        "aggregate",
        "eval_dataset",
        "model_init",
    )
    parts = {k: options.pop(k) for k in ours if k in options}
    parts = {"forget": FORGET, "retain": RETAIN} | parts
    kind = options.pop("kind", UnlearningTrainer)
    return kind(model or gpt(), arguments(folder, **options), **parts)


@contextmanager
def launched() -> Iterator[None]:
    """Within, Accelerate finds the processes of the team, as it finds those of ``torchrun``."""
    from accelerate.state import AcceleratorState

    rank, size = str(dist.get_rank()), str(dist.get_world_size())
    names = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": size, "LOCAL_WORLD_SIZE": size}
    names |= {"MASTER_ADDR": "localhost", "MASTER_PORT": "0"}
    os.environ.update(names)
    AcceleratorState._reset_state(True)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of other libraries about each other
            warnings.filterwarnings("error", module="expunge")
            yield
    finally:
        AcceleratorState._reset_state(True)
        for name in names:
            del os.environ[name]


def sharded_trainer(folder: Path, model: nn.Module | None = None, **options: Any) -> Any:
    """A trainer that shards by FSDP2 on the processor, which Accelerate does on GPUs alone."""
    from accelerate import PartialState
    from accelerate.utils import DistributedType, FullyShardedDataParallelPlugin

    from expunge.integrations import UnlearningTrainer

    class ShardedTrainer(UnlearningTrainer):
        def create_accelerator_and_postprocess(self) -> None:
            super().create_accelerator_and_postprocess()
            state = self.accelerator.state
            state.distributed_type = PartialState().distributed_type = DistributedType.FSDP
            state.fsdp_plugin = FullyShardedDataParallelPlugin(**self.args.fsdp_plugin_args)
            self.is_fsdp_enabled = True

    sharding = {"fsdp": True, "fsdp_config": {"transformer_layer_cls_to_wrap": "GPT2Block"}}
    return trainer(folder, model, kind=ShardedTrainer, **sharding | options)


def adapted(model: nn.Module, **options: Any) -> nn.Module:
    """The model with adapters of rank 2, and everything else frozen."""
    import peft

    torch.manual_seed(1)
    chosen: dict[str, Any] = {"r": 2, "target_modules": ["c_attn", "c_fc"], "fan_in_fan_out": True}
    config = peft.LoraConfig(**chosen | {"task_type": "CAUSAL_LM"} | options)
    return peft.get_peft_model(model, config)  # type: ignore[no-any-return]


def whole_state(model: nn.Module) -> dict[str, Tensor]:
    """The weights, gathered where they are sharded."""
    state = model.state_dict()
    return {k: v.full_tensor() if hasattr(v, "device_mesh") else v for k, v in state.items()}
