"""What an ``UnlearningTrainer`` refuses, and what it warns of."""

from __future__ import annotations

from pathlib import Path

import pytest

from expunge import InvalidInput

pytest.importorskip("transformers")

from tests.unit.integrations.trainer_runs import FORGET, gpt, trainer


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
