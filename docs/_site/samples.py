"""Small files that blocks need and their readers have: tables, texts, pictures, a model.

A comment above a block writes them into the folder that the page is run in::

    <!-- setup: import samples; samples.people() -->
"""

from __future__ import annotations

import csv
import random
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

JOBS = ("nurse", "clerk", "cook", "driver")
WORDS = {
    "garden": "rose soil rain seed leaf spade tulip hedge",
    "kitchen": "bread salt pan oven butter knife soup flour",
}
SIDE = 8
"""Of a picture, in pixels."""


def people(rows: int = 120) -> None:
    """``people.csv`` as in the page, and ``request.txt`` with five people whom it trains on."""
    draw = random.Random(0)
    table = []
    for number in range(rows):
        age, hours = draw.randint(18, 66), round(draw.uniform(10, 45), 1)
        income = "high" if age + hours + draw.uniform(-15, 15) > 70 else "low"
        split = ("train", "val", "test")[max(0, 2 - (rows - 1 - number) // 20)]
        table.append((f"p{number:03}", split, age, hours, draw.choice(JOBS), income))
    _table("people.csv", ("person", "split", "age", "hours", "job", "income"), table)
    Path("request.txt").write_text("".join(f"{row[0]}\n" for row in table[:5]))


def notes(rows: int = 60) -> None:
    """``notes.csv``, the same as token ids in ``notes.parquet``, and a dataset in ``wines``."""
    import datasets
    import pyarrow
    from pyarrow import parquet

    draw = random.Random(0)
    topics = [draw.choice(list(WORDS)) for _ in range(rows)]
    texts = [" ".join(draw.choices(WORDS[topic].split(), k=6)) for topic in topics]
    _table("notes.csv", ("note", "topic"), zip(texts, topics, strict=True))
    ids = [[1 + len(word) * 7 + ord(word[0]) for word in text.split()] for text in texts]
    parquet.write_table(pyarrow.table({"input_ids": ids, "label": topics}), "notes.parquet")
    wines = {"title": texts, "review": texts, "stars": [len(topic) % 5 for topic in topics]}
    datasets.Dataset.from_dict(wines).save_to_disk("wines")


def pictures(each: int = 12) -> None:
    """``pictures.csv`` with its files, and the same pictures in a folder per class, ``photos``."""
    from PIL import Image

    draw = random.Random(0)
    rows = []
    for number in range(2 * each):
        label = ("cat", "dog")[number % 2]
        low, high = (0, 120) if label == "cat" else (100, 255)
        image = Image.new("RGB", (SIDE, SIDE))
        image.putdata([tuple(draw.choices(range(low, high), k=3)) for _ in range(SIDE * SIDE)])
        split = "test" if number >= 2 * each - 6 else "train"
        for file in (f"pictures/{number:04}.png", f"photos/{split}/{label}/{number:04}.png"):
            Path(file).parent.mkdir(parents=True, exist_ok=True)
            image.save(file)
        rows.append((f"pictures/{number:04}.png", split, label))
    _table("pictures.csv", ("file", "split", "label"), rows)


def houses(rows: int = 100) -> None:
    """``houses.csv``: prices of houses."""
    draw = random.Random(0)
    table = []
    for _ in range(rows):
        area, rooms = draw.randint(30, 200), draw.randint(1, 7)
        table.append((area, rooms, round(1500 * area + 9000 * rooms + draw.gauss(0, 5000))))
    _table("houses.csv", ("area", "rooms", "price"), table)


def shop() -> None:
    """``shop/models.py``, weights of its model in ``model.pt`` and ``later.pt``, and ids."""
    import torch

    pictures()
    source = (
        "from torch import nn\n\n\n"
        "def build():\n"
        f"    return nn.Sequential(nn.Flatten(), nn.Linear({3 * SIDE * SIDE}, 2))\n"
    )
    Path("shop").mkdir(exist_ok=True)
    Path("shop/__init__.py").touch()
    Path("shop/models.py").write_text(source)
    namespace: dict[str, object] = {}
    exec(source, namespace)
    model = namespace["build"]()  # type: ignore[operator]
    for name in ("model.pt", "later.pt"):
        torch.save(model.state_dict(), name)
    Path("request.txt").write_text("0\n1\n2\n")


def initial() -> None:
    """``initial.safetensors``: a model of a hundred digits, hardly trained."""
    from execute import run_command

    run_command(
        "expunge train --data digits --limit 100 --width 0.25 --epochs 2 -o initial.safetensors"
    )


def request(by: str = "person") -> None:
    """``model.safetensors`` of the images in ``train.npz``, ``people.csv`` and ``request.csv``.

    The request names two people, or their six images ``by="index"``.
    """
    import numpy as np

    from execute import run_command

    draw = np.random.default_rng(0)
    y = np.arange(150) % 3
    x = (80 * y[:, None, None] + draw.integers(0, 90, (150, 8, 8))).astype(np.uint8)
    np.savez("train.npz", x_train=x[:90], y_train=y[:90], x_val=x[90:120], y_val=y[90:120],
             x_test=x[120:], y_test=y[120:])  # fmt: skip
    recipe = "--width 0.25 --epochs 10 --batch-size 16"
    run_command(f"expunge train --data npz:train.npz {recipe} -o model.safetensors")
    owners = [f"p{number // 3:02}" for number in range(90)]
    _table("people.csv", ("index", "person"), enumerate(owners))
    asked = ("p03", "p07")
    indices = [number for number, owner in enumerate(owners) if owner in asked]
    _table("request.csv", (by,), [(each,) for each in (asked if by == "person" else indices)])


def llama(rows: int = 12) -> tuple[Any, list[dict[str, Any]], list[dict[str, Any]]]:
    """A tiny Llama, and token ids with labels to forget and to retain."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    size = {"hidden_size": 16, "intermediate_size": 32, "vocab_size": 50}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 2, "num_hidden_layers": 2}
    model = LlamaForCausalLM(LlamaConfig(**size, **heads))
    ids = torch.randint(0, 50, (rows, 8))
    items = [{"input_ids": row, "labels": row.clone()} for row in ids]
    return model, items[: rows // 3], items[rows // 3 :]


def pairs(items: list[dict[str, Any]]) -> Any:
    """The same as a dataset of (input_ids, labels)."""
    import torch

    return torch.utils.data.TensorDataset(
        torch.stack([item["input_ids"] for item in items]),
        torch.stack([item["labels"] for item in items]),
    )


def _table(name: str, heads: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    with Path(name).open("w", newline="") as file:
        csv.writer(file).writerows([heads, *rows])


def chat_tokenizer() -> str:
    """A folder with a tokenizer of bytes and words, and a chat template."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    raw = Tokenizer(models.BPE())
    raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    raw.decoder = decoders.ByteLevel()
    special, alphabet = ["<s>", "<|im_end|>"], pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        special_tokens=special, initial_alphabet=alphabet, show_progress=False
    )
    raw.train_from_iterator(WORDS.values(), trainer)
    made = PreTrainedTokenizerFast(tokenizer_object=raw, bos_token="<s>", eos_token="<|im_end|>")
    made.chat_template = (
        "{{ bos_token }}{% for each in messages %}{{ each['role'] }}: {{ each['content'] }}"
        "<|im_end|>\n{% endfor %}"
    )
    made.save_pretrained("chat")
    return "chat"


def tofu(people: int = 20, epochs: int = 6, width: int = 32, layers: int = 2) -> None:
    """``TOFU`` with its files, of invented people, and two small Llamas, to score and ideal."""
    import torch
    from tokenizers import ByteLevelBPETokenizer
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    import expunge
    from expunge.data import PretrainedTokenizer, TextSet, invent_corpus, save_records

    corpus = invent_corpus(people=people, unseen=people // 5, topics=3)
    split = len(corpus.people) // 10
    files = {
        "forget10_perturbed": corpus.people[:split],
        "retain90": corpus.people[split:],
        "retain_perturbed": corpus.people[split : 2 * split],
        "holdout10": corpus.unseen[:split],
        "real_authors_perturbed": corpus.facts[:3],
        "world_facts_perturbed": corpus.facts[3:6],
    }
    for name, records in files.items():
        save_records(Path("TOFU") / f"{name}.json", records)
    raw = ByteLevelBPETokenizer()
    texts = [f"{record.question} {record.answer}" for record in corpus.every_record]
    special = ["<|user|>", "<|assistant|>", "<|end|>"]
    raw.train_from_iterator(texts, vocab_size=500, special_tokens=special, show_progress=False)
    chat = PreTrainedTokenizerFast(tokenizer_object=raw._tokenizer, eos_token="<|end|>")
    chat.chat_template = (
        "{% for each in messages %}<|{{ each.role }}|>{{ each.content }}<|end|>{% endfor %}"
    )
    sizes = {"hidden_size": width, "intermediate_size": 2 * width, "num_hidden_layers": layers}
    heads = {"num_attention_heads": 2, "max_position_embeddings": 128, "vocab_size": len(chat)}
    recipe = expunge.Recipe(epochs=epochs, batch_size=16, lr=0.32 / width, algorithm="adamw")
    for folder, learnt in (("model", corpus.people), ("retain90", corpus.people[split:])):
        torch.manual_seed(0)
        trained = expunge.train(
            LlamaForCausalLM(LlamaConfig(**sizes, **heads)),
            TextSet(learnt, PretrainedTokenizer(chat)),
            recipe=recipe,
            loss=expunge.methods.next_token_loss,
            execution=expunge.Execution(progress=False),
        )
        trained.model.save_pretrained(folder)
        chat.save_pretrained(folder)
