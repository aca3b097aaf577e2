from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from expunge._errors import DataError, InvalidInput
from expunge._files import check_weights_file
from expunge.engine._artifact import read_weights
from expunge.engine._weights import without_prefix


class Evil:
    """Makes a file where it is unpickled."""

    def __init__(self, trace: Path) -> None:
        self.trace = trace

    def __reduce__(self):
        return (open, (str(self.trace), "w"))


@pytest.fixture
def net() -> nn.Module:
    return nn.Linear(3, 2)


@pytest.mark.parametrize(
    "wrap",
    [
        lambda s: s,
        lambda s: {"state_dict": s, "epoch": 3},
        lambda s: {"model": s, "optimizer": {}},
        lambda s: {"model_state_dict": s},
        lambda s: {"model": {"state_dict": s, "arch": "linear"}},
        lambda s: {f"module.{k}": v for k, v in s.items()},
        lambda s: {"state_dict": {f"module.{k}": v for k, v in s.items()}},
        lambda s: {f"module._orig_mod.{k}": v for k, v in s.items()},
    ],
)
def test_a_state_dict_is_found_wherever_it_is(tmp_path, net, wrap):
    path = tmp_path / "w.pt"
    torch.save(wrap(net.state_dict()), path)
    state, card = read_weights(path)
    state = without_prefix(state, net)
    assert card is None
    assert state.keys() == net.state_dict().keys()
    assert all(torch.equal(state[k], v) for k, v in net.state_dict().items())


@pytest.mark.parametrize(
    ("wrap", "keys"),
    [
        (lambda s: {"model": s, "ema": s}, ("model", "ema")),
        (lambda s: {"state_dict": s, "state_dict_ema": s}, ("state_dict", "state_dict_ema")),
        (lambda s: {"model": s, "ema": {"module": s, "decay": 0.9}}, ("model", "ema")),
        (lambda s: {"ema": s, "epoch": 3, "net": {"state_dict": s}}, ("net", "ema")),
        (lambda s: {"state_dict": s, "model": s}, ("state_dict", "model")),
    ],
)
def test_weights_that_are_there_twice_are_refused(tmp_path, net, wrap, keys):
    path = tmp_path / "w.pt"
    torch.save(wrap(net.state_dict()), path)
    with pytest.raises(InvalidInput, match=rf"under '{keys[0]}' and '{keys[1]}'.*\['{keys[1]}'\]"):
        read_weights(path)


@pytest.mark.filterwarnings("ignore::UserWarning")  # of sparse and quantized tensors, in torch
@pytest.mark.parametrize(
    ("change", "kind"),
    [
        (lambda w: w.to_sparse(), "a sparse or nested tensor"),
        (lambda w: w.to_sparse_csr(), "a sparse or nested tensor"),
        (lambda w: torch.quantize_per_tensor(w, 0.1, 0, torch.qint8), "a quantized tensor"),
        (lambda w: w.to("meta"), "a meta tensor, without values,"),
        (lambda w: w.to(torch.float8_e4m3fn), "torch.float8_e4m3fn"),
    ],
)
def test_tensors_that_no_model_can_run_with_are_refused(tmp_path, net, change, kind):
    path = tmp_path / "w.pt"
    torch.save({"bias": net.bias.detach(), "weight": change(net.weight.detach())}, path)
    with pytest.raises(InvalidInput, match=rf"\(got {kind} in {path}, weight\)"):
        read_weights(path)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64, torch.uint8])
def test_numbers_of_other_sizes_are_read(tmp_path, dtype):
    path = tmp_path / "w.pt"
    torch.save({"weight": torch.ones(2, dtype=dtype)}, path)
    assert read_weights(path)[0]["weight"].dtype is dtype


def test_a_prefix_that_the_model_has_itself_stays():
    class Wrapped(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.module = nn.Linear(3, 2)

    model = Wrapped()
    assert without_prefix(model.state_dict(), model).keys() == model.state_dict().keys()


def test_safetensors_without_a_card_are_read(tmp_path, net):
    save_file(net.state_dict(), tmp_path / "w.safetensors")
    state, card = read_weights(tmp_path / "w.safetensors")
    assert card is None
    assert torch.equal(state["weight"], net.weight)


@pytest.mark.parametrize("kind", ["module", "nested", "evil"])
def test_a_pickled_object_is_refused_and_never_run(tmp_path, net, kind):
    path, trace = tmp_path / "w.pt", tmp_path / "trace"
    torch.save({"module": net, "nested": {"model": net}, "evil": Evil(trace)}[kind], path)
    with pytest.raises(InvalidInput, match=r"not opened\. Save the weights alone, torch\.save\(mo"):
        read_weights(path)
    assert not trace.exists()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_script_is_refused(tmp_path, net):
    torch.jit.script(net).save(tmp_path / "w.pt")
    with pytest.raises(InvalidInput, match="more than tensors"):
        read_weights(tmp_path / "w.pt")


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ({"epoch": 3, "acc": 0.5}, r"should hold a state dict.*got a dict of 'epoch', 'acc'"),
        ([torch.zeros(1)], r"got list"),
        ({}, r"got a dict of nothing"),
    ],
)
def test_a_file_without_a_state_dict_is_refused(tmp_path, content, complaint):
    torch.save(content, tmp_path / "w.pt")
    with pytest.raises(InvalidInput, match=complaint):
        read_weights(tmp_path / "w.pt")


def test_damaged_missing_and_foreign_files_are_refused(tmp_path, net):
    path = tmp_path / "w.pth"
    torch.save(net.state_dict(), path)
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(DataError, match="truncated or not a torch file"):
        read_weights(path)
    for missing in (tmp_path / "none.pt", tmp_path / "none.safetensors"):
        with pytest.raises(DataError, match="There is no"):
            read_weights(missing)
    (tmp_path / "w.safetensors").write_bytes(b"nonsense")
    with pytest.raises(DataError, match="not a safetensors file"):
        read_weights(tmp_path / "w.safetensors")


def test_weights_are_known_by_their_endings(tmp_path):
    (tmp_path / "w.h5").write_bytes(b"")
    with pytest.raises(InvalidInput, match=r"should end in \.safetensors, \.pt.*got w\.h5"):
        check_weights_file(tmp_path / "w.h5")
    with pytest.raises(DataError, match="no weights file"):
        check_weights_file(tmp_path / "none.pt")
