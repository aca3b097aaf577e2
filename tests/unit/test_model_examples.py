"""The examples that need an extra: language models, and Lightning."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tiny import bits, same
from tests.unit.test_examples import load_example

# Lightning's own use of a name that torch has renamed, and its advice on loaders.
quiet = pytest.mark.filterwarnings(
    "ignore:.*LeafSpec.*:FutureWarning", "ignore:.*does not have many workers"
)


def test_a_language_model_forgets_codes(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("transformers")
    table = load_example("forget_text").main(seeds=1, people=10, alphas=(0.2,))
    said = capsys.readouterr().out
    assert "α=0.2 NPO-FOCUS" in said
    assert "seed by seed" in said
    initial, retrained = table.pop("initial")[0], table.pop("retrained without")[0]
    assert (initial[1], initial[3]) == (100, 100)
    assert (retrained[1], retrained[3]) == (0, 100)
    assert len(table) == 4
    for forget_loss, forget_out, retain_loss, _, _ in (rows[0] for rows in table.values()):
        assert forget_out == 0
        assert forget_loss > 2.3
        assert retain_loss < forget_loss / 2


@quiet
def test_lightning_forgets_and_keeps(
    capsys: pytest.CaptureFixture[str], one_thread: None, tmp_path: Path
) -> None:
    pytest.importorskip("lightning")
    example = load_example("lightning_loop")
    whole = example.run(epochs=6).lightning_module
    example.run(epochs=3).save_checkpoint(tmp_path / "half.ckpt")
    again = example.run(epochs=6, resume=tmp_path / "half.ckpt").lightning_module
    assert same(bits(whole), bits(again))
    assert whole.update.state.step == again.update.state.step == 24
    _, forget, retain = example.world()
    away, kept = (example.mean_square(whole.net, d.tensors).item() for d in (forget, retain))
    assert away > 2 * kept
    assert capsys.readouterr().out.count("feasible") == 3
