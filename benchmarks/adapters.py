"""How much memory do adapters save, and what does the initial model cost on top?

    python benchmarks/adapters.py            # some minutes; needs expunge[peft]
    python benchmarks/adapters.py --rates    # at which rate do they forget?

A freshly initialised GPT-2 takes two steps of the ``UnlearningTrainer`` with FOCUS, batches of two
sequences of 32 tokens, AdamW. Measured is the growth of the peak of the resident set, in a fresh
process each, from before the model is made; small activations, so that weights are what counts.
Beside it stands what the tensors add up to: weights, what is kept of the initial model, both
gradients, both moments, the state of AdamW.

Rates are measured on a Llama of two layers that knows 40 invented people by heart, three questions
about each: NPO and MATCH-LM forget the 24 records of eight of them, with all weights or with
adapters of rank 8 in every linear layer. A row has the share of the tokens that carry facts that
the model predicts, in percent.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROWS = (
    ("all weights", "gradient-difference"),
    ("all weights", "npo"),
    ("adapters", "gradient-difference"),
    ("adapters", "npo"),
    ("adapters, initial model copied", "npo"),
)
RANK = 8


def resident(field: str) -> int:
    """Bytes that the process holds now (VmRSS), or held at most (VmHWM)."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1]) * 1024
    raise RuntimeError(f"no {field} in /proc/self/status")


def make_model(width: int, layers: int) -> Any:
    from transformers import GPT2Config, GPT2LMHeadModel

    size = {"n_embd": width, "n_layer": layers, "n_head": 8, "n_positions": 32, "vocab_size": 4096}
    ends = {"bos_token_id": 0, "eos_token_id": 0, "pad_token_id": 0}
    return GPT2LMHeadModel(GPT2Config(**size, **ends))


def adapted(model: Any) -> Any:
    from peft import LoraConfig, get_peft_model

    layers = ["c_attn", "c_proj", "c_fc"]
    return get_peft_model(model, LoraConfig(r=RANK, target_modules=layers, fan_in_fan_out=True))


def take_steps(kind: str, method: str, width: int, layers: int, folder: str) -> Any:
    import copy

    import torch
    from transformers import TrainingArguments

    from expunge.integrations import UnlearningTrainer
    from expunge.methods import _problem

    if "copied" in kind:
        _problem.copy_of_moving = copy.deepcopy
    model = make_model(width, layers)
    if kind.startswith("adapters"):
        model = adapted(model)
    tokens = torch.randint(1, 4096, (8, 32), generator=torch.Generator().manual_seed(0))
    items = [{"input_ids": row, "labels": row} for row in tokens]
    arguments = TrainingArguments(
        folder,
        max_steps=2,
        per_device_train_batch_size=2,
        use_cpu=True,
        report_to=[],
        disable_tqdm=True,
        save_strategy="no",
    )
    trainer = UnlearningTrainer(
        model, arguments, forget=items[:4], retain=items[4:], method=method, addon="focus"
    )
    trainer.update.compile = False
    trainer.train()
    return model


def child(order: dict[str, Any]) -> None:
    import torch

    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        take_steps(order["kind"], order["method"], 64, 1, folder)  # loads what is loaded once
        before = resident("VmRSS")
        Path("/proc/self/clear_refs").write_text("5")
        model = take_steps(order["kind"], order["method"], order["width"], order["layers"], folder)
    counts = [
        [p.numel() for p in model.parameters() if p.requires_grad is moves]
        for moves in (True, False)
    ]
    moving, frozen = map(sum, counts)
    kept = {"npo": 4 * (moving + (frozen if "copied" in order["kind"] else 0))}.get(
        order["method"], 0
    )
    tensors = 4 * (moving + frozen) + kept + (8 + 8 + 8) * moving
    print(json.dumps({"bytes": resident("VmHWM") - before, "moving": moving, "tensors": tensors}))


def measure(kind: str, method: str, width: int, layers: int) -> dict[str, float]:
    order = {"kind": kind, "method": method, "width": width, "layers": layers}
    variables = os.environ | {"OMP_NUM_THREADS": "1", "MALLOC_MMAP_THRESHOLD_": "65536"}
    said = subprocess.run(
        [sys.executable, __file__, "--child", json.dumps(order)],
        env=variables,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    ).stdout
    answer: dict[str, float] = json.loads(said.splitlines()[-1])
    return answer


def print_rates() -> None:
    import copy

    import torch
    from peft import LoraConfig, get_peft_model
    from transformers import LlamaConfig, LlamaForCausalLM

    import expunge
    from expunge.data import TextSet, WordTokenizer, invent_corpus
    from expunge.engine import score_tokens
    from expunge.evaluation.text._measures import exact_memorisation, fact_tokens
    from expunge.methods import next_token_loss

    torch.set_num_threads(1)
    torch.manual_seed(0)
    corpus = invent_corpus(people=40, unseen=40, topics=3)
    words = WordTokenizer.of(corpus.every_record)
    people, unseen = TextSet(corpus.people, words), TextSet(corpus.unseen, words)
    sizes = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2}
    heads = {"num_attention_heads": 4, "num_key_value_heads": 4, "vocab_size": words.size}
    recipe = expunge.Recipe(epochs=30, batch_size=32, lr=3e-3, algorithm="adamw")
    quiet = expunge.Execution(progress=False)
    fresh = LlamaForCausalLM(LlamaConfig(**sizes, **heads))
    model = expunge.train(fresh, people, recipe=recipe, loss=next_token_loss, execution=quiet).model
    sets = {"forget": people.subset(range(24)), "retain": people.subset(range(24, len(people)))}

    def facts(model: Any, data: TextSet) -> str:
        scores = score_tokens(model, data)
        return f"{100 * exact_memorisation(scores.without(~fact_tokens(data))).mean():.0f}"

    print("| what moves | method | rate | forgotten | retained | unseen |")
    print("| --- | --- | ---: | ---: | ---: | ---: |")
    before = [facts(model, data) for data in (*sets.values(), unseen)]
    print("| | before | | " + " | ".join(before) + " |")
    for method in ("npo", "match-answers"):
        for kind, rates in (("all weights", (1e-4, 1e-3)), ("adapters", (1e-4, 1e-3, 1e-2))):
            for rate in rates:
                start = copy.deepcopy(model)
                if kind == "adapters":
                    every = LoraConfig(task_type="CAUSAL_LM", r=RANK, target_modules="all-linear")
                    start = get_peft_model(start, every)
                options = {"epochs": 20, "batch_size": 8, "lr": rate, "execution": quiet}
                result = expunge.unlearn(start, **sets, unseen=unseen, method=method, **options)
                found = [facts(result.model, data) for data in (*sets.values(), unseen)]
                cells = [kind, method, f"{rate:g}", *found]
                print("| " + " | ".join(cells) + " |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--width", type=int, default=1024)
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--rates", action="store_true", help="Rates, instead of memory.")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.child:
        child(json.loads(chosen.child))
        return
    if chosen.rates:
        print_rates()
        return
    print("| what moves | method | parameters that move | measured | tensors |")
    print("| --- | --- | ---: | ---: | ---: |")
    for kind, method in ROWS:
        found = measure(kind, method, chosen.width, chosen.layers)
        cells = [kind, method, f"{found['moving'] / 1e6:.2f} M"]
        cells += [f"{found[name] / 1e9:.2f} GB" for name in ("bytes", "tensors")]
        print("| " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
