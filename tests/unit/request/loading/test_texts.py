from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import expunge
from expunge._errors import DataError, InvalidInput
from expunge.data import save_records
from expunge.request._job import Job, make_job
from expunge.request.loading._load import load_model_and_data, model_and_data_of
from expunge.request.loading._texts import _with_tied
from tests.unit.request import text_worlds as world


@pytest.fixture
def job_of(tmp_path: Path) -> Any:
    weights = world.write_files(tmp_path)

    def make(**changes: Any) -> Job:
        values = {"model": "small-transformer", "data": f"qa:{tmp_path / 'texts'}"}
        return make_job(**({"weights": weights, "out": tmp_path / "out"} | values | changes))

    return make


def test_a_model_is_built_from_its_weights_and_half_of_the_unseen_records_are_val(
    job_of: Any,
) -> None:
    loaded = load_model_and_data(job_of())
    tokens = loaded.train.inputs[:4]
    assert torch.equal(loaded.model(tokens), world.memorised()(tokens))
    assert len(loaded.val) + len(loaded.test) == len(world.corpus().unseen)
    assert not set(loaded.val.names or ()) & set(loaded.test.names or ())
    assert loaded.train.names == tuple(record.id for record in world.corpus().people)
    assert any("strata" in note for note in loaded.notes)


def test_records_can_be_a_list_in_the_format_of_tofu(job_of: Any, tmp_path: Path) -> None:
    loaded = load_model_and_data(job_of())
    (tmp_path / "texts" / "train.jsonl").unlink()
    save_records(tmp_path / "texts" / "train.json", world.corpus().people)
    assert load_model_and_data(job_of()).data_digest == loaded.data_digest


def test_a_language_model_has_its_own_defaults(job_of: Any) -> None:
    job = job_of()
    assert (job.method, job.addon, job.procedure.schedule) == ("match-answers", "none", "linear")
    pushing = job_of(method="SimNPO", lr=0.1)
    assert (pushing.lr, pushing.addon, pushing.procedure.schedule) == (0.1, "FOCUS", "constant")


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"method": "MATCH"}, "should be one for language models"),
        ({"model": "resnet18"}, "as the data are texts"),
        ({"data": "qa:nowhere"}, "no file or folder"),
        ({"template": "q-a"}, "`template` goes with a model causal:FOLDER"),
    ],
)
def test_what_does_not_go_with_texts_is_refused(
    job_of: Any, changes: dict[str, Any], complaint: str
) -> None:
    with pytest.raises((InvalidInput, DataError), match=complaint):
        load_model_and_data(job_of(**changes))


def test_without_unseen_records_there_is_nothing_to_compare_with(
    job_of: Any, tmp_path: Path
) -> None:
    (tmp_path / "texts" / "unseen.jsonl").unlink()
    with pytest.raises(DataError, match=r"or train and unseen ones\. \(got train\)"):
        load_model_and_data(job_of())


def test_a_missing_tokenizer_is_named_with_what_writes_it(job_of: Any, tmp_path: Path) -> None:
    (tmp_path / "texts" / "tokenizer.json").unlink()
    with pytest.raises(DataError, match=r"no tokenizer\.json in .*`tokenizer\.save.*causal:FOLDER"):
        load_model_and_data(job_of())


def test_other_commands_say_that_they_take_no_texts(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="which `expunge forget` and `expunge evaluate` take"):
        expunge.data.load(f"qa:{tmp_path}")


def test_a_model_in_memory_that_reads_ahead_is_refused(job_of: Any) -> None:
    class Masked(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = torch.nn.Embedding(world.tokenizer().size, world.tokenizer().size)

        def forward(self, tokens: torch.Tensor) -> torch.Tensor:
            seen: torch.Tensor = self.table(tokens)
            return seen + seen.mean(dim=1, keepdim=True)

    with pytest.raises(InvalidInput, match="reads what comes after a token"):
        model_and_data_of(Masked(), world.data(), job_of())


def test_all_splits_in_memory_should_be_texts(job_of: Any) -> None:
    train, val, _ = world.data()
    images = torch.utils.data.TensorDataset(torch.zeros(2, 3), torch.zeros(2).long())
    with pytest.raises(InvalidInput, match="TensorDataset as test"):
        model_and_data_of(world.memorised(), (train, val, images), job_of())


def test_weights_that_a_file_leaves_out_are_those_that_they_are_tied_to() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Linear(3, 3))
    model[1].weight = model[0].weight
    state = {k: v for k, v in model.state_dict().items() if k != "1.weight"}
    assert torch.equal(_with_tied(model, state)["1.weight"], state["0.weight"])
