"""Unlearning inside the real Hugging Face Trainer, on the processor."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import expunge
from expunge import Batch, Diverged, InvalidInput, Problem, Update
from expunge.data import TextSet
from expunge.methods import NPO
from tests.tiny import bits, same

transformers = pytest.importorskip("transformers")

from tests.unit.integrations.trainer_runs import (  # noqa: E402
    FORGET,
    LR,
    RETAIN,
    Texts,
    gpt,
    trainer,
)

pytestmark = pytest.mark.usefixtures("one_thread")
thorough = pytest.mark.thorough


@dataclass(frozen=True)
class Seen(NPO):
    """NPO that remembers its batches."""

    pairs: list[tuple[Batch, Batch]] = field(default_factory=list, repr=False, compare=False)

    def objective(self, problem: Problem, forget: Batch, retain: Batch) -> Any:
        self.pairs.append((forget, retain))
        return super().objective(problem, forget, retain)


def by_hand(
    pairs: list[tuple[Batch, Batch]], addon: str, kind: Any = torch.optim.AdamW
) -> nn.Module:
    """The loop that the Trainer should amount to, on batches seen before."""
    problem, update = Problem(gpt().train()), Update(addon)
    options = {"fused": True} if kind is torch.optim.AdamW else {}  # the Trainer's choice
    optimizer = kind(problem.parameters, lr=LR, weight_decay=0.0, **options)
    for pair in pairs:
        optimizer.zero_grad()
        update.backward(
            objective=NPO().objective(problem, *pair),
            constraint=NPO().constraint(problem, *pair),
            params=problem.parameters,
        )
        optimizer.step()
    return problem.model


def joined(pairs: list[tuple[Batch, Batch]]) -> tuple[Batch, Batch]:
    """Micro-batches as one batch."""
    both = []
    for side in zip(*pairs, strict=True):
        inputs = {k: torch.cat([b.inputs[k] for b in side]) for k in side[0].inputs}
        both.append(Batch(inputs, torch.cat([b.targets for b in side]), side[0].split))
    return both[0], both[1]


@pytest.mark.parametrize("addon", ["none", "focus"])
def test_the_trainer_takes_the_steps_of_a_loop_by_hand(tmp_path: Path, addon: str) -> None:
    method = Seen()
    own = trainer(tmp_path, method=method, addon=addon)
    own.train()
    assert len(method.pairs) == 8  # two passes over the forget set
    forgotten = torch.cat([forget.inputs["input_ids"] for forget, _ in method.pairs[:4]])
    assert sorted(forgotten.tolist()) == sorted(FORGET.tokens.tolist())
    kept = torch.cat([retain.inputs["input_ids"] for _, retain in method.pairs[:5]])
    assert sorted(kept.tolist()) == sorted(RETAIN.tokens.tolist())
    assert same(bits(own.model), bits(by_hand(method.pairs, addon)))


@pytest.mark.parametrize(
    "addon", ["focus", *(pytest.param(name, marks=thorough) for name in ("none", "and"))]
)
def test_accumulated_gradients_are_averaged_before_they_are_weighed(
    tmp_path: Path, addon: str
) -> None:
    method = Seen()
    parts = {"method": method, "addon": addon, "optim": "sgd"}
    own = trainer(tmp_path, gradient_accumulation_steps=3, **parts)
    own.train()
    assert own.state.global_step == 4
    pairs = iter(method.pairs)
    steps = [[next(pairs) for _ in range(size)] for size in (3, 1, 3, 1)]
    whole = by_hand([joined(step) for step in steps], addon, torch.optim.SGD)
    for one, other in zip(own.model.parameters(), whole.parameters(), strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize(
    ("addon", "step"),
    [
        ("bernoulli", 3),
        pytest.param("focus", 4, marks=thorough),
        pytest.param("prob", 6, marks=thorough),
    ],
)
def test_a_resumed_run_ends_as_one_undisturbed(tmp_path: Path, addon: str, step: int) -> None:
    options = {"addon": addon, "lr_scheduler_type": "linear", "logging_steps": 2}
    saved = {"save_strategy": "steps", "save_steps": step}
    first = trainer(tmp_path, gpt(dropout=0.1), **options, **saved)
    first.train()
    again = trainer(tmp_path / "again", gpt(dropout=0.1), **options)
    again.train(resume_from_checkpoint=str(tmp_path / f"checkpoint-{step}"))
    assert same(bits(first.model), bits(again.model))
    assert first.update.state.step == again.update.state.step == 8
    last = [run.state.log_history[-2] for run in (first, again)]
    assert last[0] == last[1]


def test_a_checkpoint_of_another_model_is_refused(tmp_path: Path) -> None:
    trainer(tmp_path, max_steps=2, save_strategy="steps", save_steps=2).train()
    other = gpt()
    with torch.no_grad():
        other.lm_head.weight.add_(1.0)
    with pytest.raises(InvalidInput, match=r"belongs to another run \(it differs in model"):
        trainer(tmp_path, other).train(resume_from_checkpoint=True)
    with pytest.raises(expunge.DataError, match="no checkpoint to resume from"):
        trainer(tmp_path / "empty").train(resume_from_checkpoint=True)


def test_forget_becomes_unlikely_and_the_log_says_how(tmp_path: Path) -> None:
    both = {"forget": FORGET, "retain": RETAIN}
    own = trainer(tmp_path, num_train_epochs=8, eval_dataset=both, logging_steps=4)
    before, _, after = own.evaluate(), own.train(), own.evaluate()
    assert after["eval_forget_loss"] > before["eval_forget_loss"] + 0.5
    assert after["eval_retain_loss"] < before["eval_retain_loss"]
    rows = [row for row in own.state.log_history if "objective" in row]
    assert len(rows) == 8
    for row in rows:
        assert {"loss", "constraint", "cosine", "moved", "learning_rate"} <= set(row)
        assert 0 < row["agreement"] < 1
        assert 0 <= row["feasible"] <= 1
        assert row["loss"] == pytest.approx(row["objective"], rel=1e-5)
    assert rows[-1]["objective"] < rows[0]["objective"]


def test_bf16_autocast_holds_for_the_model_and_its_reference(tmp_path: Path) -> None:
    own = trainer(tmp_path, bf16=True, max_steps=2, method="npo")
    types: set[tuple[str, torch.dtype]] = set()
    for name, model in (("model", own.model), ("reference", own.problem.initial)):
        layer = model.transformer.h[0].mlp.c_fc
        layer.register_forward_hook(
            lambda module, inputs, output, name=name: types.add((name, output.dtype))
        )
    own.train()
    assert types == {("model", torch.bfloat16), ("reference", torch.bfloat16)}
    assert {p.dtype for p in own.model.parameters()} == {torch.float32}


@pytest.mark.parametrize("method", ["scrub", pytest.param("random-label", marks=thorough)])
def test_a_classifier_works_with_the_methods_of_classifiers(tmp_path: Path, method: str) -> None:
    class Labelled(Texts):
        def __getitem__(self, index: int) -> dict[str, Tensor]:
            return {"input_ids": self.tokens[index], "labels": torch.tensor(index % 3)}

    model = gpt(kind="GPT2ForSequenceClassification", num_labels=3)
    before = bits(model)
    data = {"forget": Labelled(6, 1), "retain": Labelled(8, 2)}
    own = trainer(tmp_path, model, method=method, **data)
    own.train()
    assert not same(bits(own.model), before)


def test_the_last_good_weights_are_kept_when_it_diverges(tmp_path: Path) -> None:
    class Broken(NPO):
        def objective(self, problem: Problem, forget: Batch, retain: Batch) -> Any:
            return super().objective(problem, forget, retain).loss * float("nan")

    own = trainer(tmp_path, method=Broken())
    before = bits(own.model)
    with pytest.raises(Diverged, match="Diverged at step 1: a loss or gradient is not finite"):
        own.train()
    assert same(bits(own.model), before)


def test_preferred_answers_reach_the_method_and_not_the_evaluation(tmp_path: Path) -> None:
    data = expunge.data.PreferredAnswers(FORGET, Texts(8, 5))
    own = trainer(tmp_path, forget=data, method="dpo", eval_dataset={"forget": data})
    before, _, after = own.evaluate(), own.train(), own.evaluate()
    assert after["eval_forget_loss"] > before["eval_forget_loss"]


def test_rmu_moves_what_it_is_told_to_and_leaves_the_rest_trainable(tmp_path: Path) -> None:
    model = gpt()
    before = bits(model)
    method = expunge.methods.RMU("transformer.h.0", parameters=r"mlp\.c_proj")
    own = trainer(tmp_path, model, method=method, weight_decay=0.1)
    own.train()
    after = bits(own.model)
    moved = {name for name in before if not torch.equal(before[name], after[name])}
    assert moved == {"transformer.h.0.mlp.c_proj.weight", "transformer.h.0.mlp.c_proj.bias"}
    assert all(p.requires_grad for p in own.model.parameters())


def test_without_transformers_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    import expunge.integrations as integrations

    monkeypatch.delitem(vars(integrations), "UnlearningTrainer")  # as before its first use
    monkeypatch.delitem(sys.modules, "expunge.integrations._hf_trainer")
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(InvalidInput, match=r"pip install 'expunge\[transformers\]'"):
        integrations.UnlearningTrainer  # noqa: B018
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        integrations.Nothing  # noqa: B018


def test_what_it_cannot_do_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="does not take `label_smoothing_factor`"):
        trainer(tmp_path, label_smoothing_factor=0.1)
    with pytest.raises(InvalidInput, match="Retrain trains on the retain set alone"):
        trainer(tmp_path, method="retrain")
    with pytest.raises(InvalidInput, match="`method` should be a name or a method"):
        trainer(tmp_path, method=3)
    with pytest.raises(InvalidInput, match="should not overlap"):
        trainer(tmp_path, retain=FORGET)


@pytest.mark.filterwarnings("ignore:None of the inputs have requires_grad")
def test_activations_are_recomputed_without_reentering_the_graph(tmp_path: Path) -> None:
    """Frozen below, so that nothing that enters a block requires a gradient."""
    model = gpt()
    for name, p in model.named_parameters():
        p.requires_grad_("c_fc" in name or "ln_f" in name)
    options = {"gradient_checkpointing": True, "max_steps": 1}
    reentrant = {"gradient_checkpointing_kwargs": {"use_reentrant": True}}
    with pytest.raises(InvalidInput, match="use_reentrant=False"):
        trainer(tmp_path, model, **options, **reentrant).train()
    for name, p in model.named_parameters():
        p.requires_grad_("c_fc" in name)
    own = trainer(
        tmp_path, model, **options, gradient_checkpointing_kwargs={"use_reentrant": False}
    )
    own.train()
    assert own.state.log_history[0]["moved"] == 1.0


def text_sets() -> dict[str, TextSet]:
    """Records to forget and to retain, and unseen ones, each set in rows of its own width."""
    corpus = expunge.data.invent_corpus(people=4, unseen=3, topics=2)
    words = expunge.data.WordTokenizer.of(corpus.every_record)
    parts = {"forget": corpus.people[:3], "retain": corpus.people[3:], "unseen": corpus.unseen}
    return {name: TextSet(part, words) for name, part in parts.items()}


def small_gpt(data: TextSet) -> nn.Module:
    return gpt(vocab_size=data.tokenizer.size, n_positions=40)


def test_text_sets_are_padded_to_the_longest_row_of_a_batch(tmp_path: Path) -> None:
    method, sets = Seen(), text_sets()
    data = {name: sets[name] for name in ("forget", "retain")}
    own = trainer(tmp_path, small_gpt(data["forget"]), method=method, eval_dataset=data, **data)
    before, _, after = own.evaluate(), own.train(), own.evaluate()
    assert after["eval_retain_loss"] < before["eval_retain_loss"]
    widths = {int(pair[0].targets.shape[1]) for pair in method.pairs}
    assert max(widths) == int(sets["forget"].lengths.max())
    for forget, _ in method.pairs:  # nothing but padding is cut off
        assert (forget.targets != -100).any(dim=0)[-1]


def test_rows_of_different_lengths_are_padded_without_a_collator(tmp_path: Path) -> None:
    class Uneven(Texts):
        def __getitem__(self, index: int) -> dict[str, Tensor]:
            return {
                name: part[: 5 + index % 4] for name, part in super().__getitem__(index).items()
            }

    method = Seen()
    trainer(tmp_path, method=method, forget=Uneven(4, 1), retain=Uneven(5, 2)).train()
    masks = torch.cat([pair[0].inputs["attention_mask"].sum(dim=1) for pair in method.pairs[:2]])
    assert sorted(masks.tolist()) == [5, 6, 7, 8]


def test_match_lm_takes_the_steps_that_unlearn_takes(tmp_path: Path) -> None:
    """One batch per epoch, so that both see the same batches; the order within one is their own."""
    sets = text_sets()
    model = small_gpt(sets["forget"])
    parts = {"method": "match-answers", "addon": "none", "aggregate": expunge.WeightedSum(0.2, 0.8)}
    procedure = expunge.Procedure(**parts, epochs=3, batch_size=8, lr=1e-2)
    result = expunge.unlearn(
        model,
        **sets,
        method=procedure,
        optimizer=lambda params: torch.optim.AdamW(params, lr=1e-2, weight_decay=0.0),
        execution=expunge.Execution(progress=False),
    )
    run = {"num_train_epochs": 3, "per_device_train_batch_size": 8, "learning_rate": 1e-2}
    own = trainer(tmp_path, model, **sets, **run, **parts)
    own.train()
    for one, other in zip(own.model.parameters(), result.model.parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-5)


def test_match_lm_resumes_with_its_targets(tmp_path: Path) -> None:
    sets = text_sets()
    options = {"method": "match-answers", **sets}
    saved = {"save_strategy": "steps", "save_steps": 3}
    first = trainer(tmp_path, small_gpt(sets["forget"]), **options, **saved)
    first.train()  # two steps per epoch
    again = trainer(tmp_path / "again", small_gpt(sets["forget"]), **options)
    again.train(resume_from_checkpoint=str(tmp_path / "checkpoint-3"))
    assert same(bits(first.model), bits(again.model))


def test_match_lm_says_what_it_needs(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="never saw: give `unseen`"):
        trainer(tmp_path, method="match-answers")
    with pytest.raises(InvalidInput, match="asks about whole sets of texts"):
        trainer(tmp_path, method="match-answers", unseen=Texts(4, 3)).train()
