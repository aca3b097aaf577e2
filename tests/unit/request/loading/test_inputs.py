"""How a model that is not built in gets images."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from expunge._errors import DataError, InvalidInput
from expunge.models import build_model
from expunge.request._job import InputForm
from expunge.request._job_file import load_job
from expunge.request._run import forget
from expunge.request._verify import verify
from expunge.request.loading._inputs import InputHook, choose_form
from expunge.request.loading._load import model_and_data_of
from tests.unit.request.worlds import Net, bytes_of, fitted, floats, job_of

MEAN, STD = 0.4, 0.2


class Watching(Net):
    """Keeps what it was given last; prepares nothing."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.given = x
        return super().forward(x)


class Normalising(Net):
    """Normalises by itself, as many do, and does not fail on bytes."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward((x - MEAN) / STD)


class OfBytes(Net):
    """Was trained on numbers from 0 to 255, and answers to no others."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(torch.exp(-self.first(x.flatten(1) / 64).square()))


@pytest.mark.parametrize(
    ("form", "prepare"),
    [
        ("bytes", lambda x: x.float()),
        ("fractions", lambda x: x.float() / 255),
        ("standardised", lambda x: (x / 255 - (x / 255).mean()) / (x / 255).std(correction=0)),
    ],
)
def test_bytes_and_fractions_become_the_form_that_was_asked_for(
    form: InputForm, prepare: Any, tmp_path: Path
) -> None:
    data = bytes_of(40, 1)
    job = job_of(tmp_path, inputs=form)
    loaded = model_and_data_of(Watching().eval(), (data, bytes_of(20, 2), bytes_of(20, 3)), job)
    assert loaded.input_form == form
    assert loaded.train.inputs.dtype == torch.uint8, "the data stay as they are"
    for given in (data.inputs, data.inputs.float() / 255):
        for model in (loaded.model, loaded.build()):
            model(given)
            assert isinstance(model.given, torch.Tensor)
            torch.testing.assert_close(model.given, prepare(data.inputs), rtol=1e-4, atol=1e-4)


def test_a_model_that_is_not_built_in_gets_fractions(tmp_path: Path) -> None:
    data = bytes_of(40, 1), bytes_of(20, 2), bytes_of(20, 3)
    loaded = model_and_data_of(Normalising().eval(), data, job_of(tmp_path))
    assert loaded.input_form == "fractions"
    assert loaded.notes == ("The model gets the images as fractions in [0, 1].",)
    again = model_and_data_of(loaded.with_inputs("bytes").model, data, job_of(tmp_path))
    assert again.input_form == "bytes", "a model keeps the form of an earlier request"
    (hook,) = [h for h in again.model._forward_pre_hooks.values() if isinstance(h, InputHook)]
    assert hook.form == "bytes"


@pytest.mark.parametrize(
    ("model", "data", "complaint"),
    [
        (build_model("small-cnn", in_channels=1, width=0.1), bytes_of(4, 1), "built-in models"),
        (Net(), floats(4, 1), "these are tensors, not images as bytes"),
    ],
)
def test_what_has_no_form_takes_none(model: nn.Module, data: Any, complaint: str) -> None:
    assert choose_form(model, data, None) is None
    with pytest.raises(InvalidInput, match=rf"{complaint}.*\(got 'bytes'\)"):
        choose_form(model, data, "bytes")


def request(model: nn.Module, out: Path, ids: list[int], **settings: Any) -> Any:
    data = bytes_of(240, 1), bytes_of(60, 2), bytes_of(80, 3)
    options = {"method": "SRL", "max_epochs": 1, "progress": False} | settings
    return forget(model=model, data=data, ids=ids, out=out, **options)


@pytest.fixture(scope="module")
def of_bytes() -> nn.Module:
    data = floats(240, 1)
    data.inputs *= 255
    return fitted(data, OfBytes(), steps=200)


def test_a_model_that_normalises_by_itself_fits(tmp_path: Path) -> None:
    model = fitted(floats(240, 1), Normalising())
    outcome = request(model, tmp_path, [1, 2, 3], dry_run=True)
    assert outcome.preflight.fits
    assert outcome.preflight.findings.fit.accuracy["train"].value > 90


def test_a_form_that_helps_is_named_and_kept_by_later_requests(
    tmp_path: Path, of_bytes: nn.Module
) -> None:
    with pytest.raises(DataError, match=r"inputs as floats in \[0, 255\].*\(--inputs bytes\)"):
        request(of_bytes, tmp_path, [1, 2, 3])
    first = request(of_bytes, tmp_path, [1, 2, 3], inputs="bytes")
    assert first.evidence.config["inputs"] == "bytes"
    assert first.evidence.metric("ta").before.value > 80
    second = request(of_bytes, tmp_path, [7, 8])
    assert second.evidence.config["inputs"] == "bytes", "as in the request before"
    data = bytes_of(240, 1), bytes_of(60, 2), bytes_of(80, 3)
    assert all(each.ok for each in verify(tmp_path, model=of_bytes, data=data))


def test_a_form_that_does_not_fit_is_reported(tmp_path: Path, of_bytes: nn.Module) -> None:
    outcome = request(of_bytes, tmp_path, [1, 2, 3], inputs="fractions", dry_run=True)
    assert not outcome.preflight.fits
    assert "(--inputs bytes)" in outcome.preflight.findings.warnings[0]


def test_the_form_is_in_the_job_of_the_bundle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, of_bytes: nn.Module
) -> None:
    (tmp_path / "own_inputs.py").write_text(
        "from tests.unit.request.loading.test_inputs import OfBytes, bytes_of\n"
        "net = OfBytes\n"
        "def data(): return bytes_of(240, 1), bytes_of(60, 2), bytes_of(80, 3)\n"
    )
    monkeypatch.chdir(tmp_path)
    torch.save(of_bytes.state_dict(), tmp_path / "w.pt")
    forget(
        model="own_inputs:net",
        data="own_inputs:data",
        weights="w.pt",
        ids=[1, 2, 3],
        inputs="bytes",
        out="out",
        method="SRL",
        max_epochs=1,
        progress=False,
    )
    assert load_job("out/0001/job.toml").inputs == "bytes"
