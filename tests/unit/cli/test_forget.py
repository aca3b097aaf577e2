from __future__ import annotations

import hashlib
import io
import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from expunge import _tensors as tensors
from expunge.evidence._sections import Status
from expunge.request._job import make_job
from expunge.request._job_file import load_job
from expunge.request.loading._texts import load_text_model
from tests.unit.cli.conftest import Expunge
from tests.unit.report import fake
from tests.unit.request import text_worlds
from tests.unit.request.keys import PASSWORD, make_key_files
from tests.unit.request.llama_worlds import write_adapters, write_llama

QUICK = ("--max-epochs", "2", "--margin-test", "50")
BRIEF = ("--method", "SimNPO", "--max-epochs", "1")
"""For language models: one epoch."""


@pytest.fixture
def few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """The default method takes 320 steps or more: 16, where any verdict will do."""
    monkeypatch.setattr("expunge.request._forgetting.MIN_STEPS", 16)


def ids_file(folder: Path, *ids: int) -> Path:
    path = folder / f"ids-{len(ids)}-{ids[0]}.json"
    path.write_text(json.dumps(ids))
    return path


def test_a_job_file_to_fill_in_is_written_and_read(expunge: Expunge, tmp_path: Path) -> None:
    path = tmp_path / "job.toml"
    assert expunge("forget", "--init", path).code == 0
    assert load_job(path).method == "refresh"
    again = expunge("forget", "--init", path)
    assert again.code == 2
    assert "--force" in again.err


def test_missing_options_and_unknown_ids_are_refused(
    expunge: Expunge, trained: Path, tmp_path: Path
) -> None:
    nothing = expunge("forget")
    assert nothing.code == 2
    assert "Missing --out" in nothing.err
    ids = ids_file(tmp_path, 3, 99_999)
    unknown = expunge("forget", "--weights", trained, "--ids", ids, "-o", tmp_path / "out")
    assert unknown.code == 2
    assert "have no training record: '99…'" in unknown.err
    assert "99999" not in unknown.err
    absent = expunge("forget", "--weights", trained, "--ids", tmp_path / "no", "-o", tmp_path / "o")
    assert absent.code == 2, "1 is a verdict"


@pytest.mark.usefixtures("few_steps")
def test_a_request_is_looked_at_carried_out_verified_and_listed(
    expunge: Expunge, trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "requests"
    arguments = ("--weights", trained, "--ids", ids_file(tmp_path, *range(12)), "-o", out)
    looked = expunge("forget", *arguments, *QUICK, "--force", "--dry-run")
    assert looked.code == 0
    assert "12 of 60 training records" in looked.out
    assert not (out / "0001").exists()
    done = expunge("forget", *arguments, *QUICK, "--force")
    status = json.loads((out / "0001" / "evidence.json").read_text())["verdict"]["status"]
    assert "  epoch " not in done.err, "nobody asked for a line per epoch"
    assert "s of processor time: " in done.err
    head = hashlib.sha256((out / "0001" / "evidence.sha256").read_bytes()).hexdigest()
    assert f"Head of the ledger: {head}" in done.err
    assert done.code == {"achieved": 0, "not achieved": 1, "inconclusive": 3}[status]
    assert status.upper() in done.out
    assert "forgotten data" in done.out
    assert done.out.index("What is to be forgotten") < done.out.index(status.upper())
    assert f"  expunge verify {out} --head {head}" in done.err.splitlines()
    verified = expunge("verify", out)
    assert verified.code == 0
    assert "everything that weights and data tell is as stated" in verified.out
    assert "not recomputed: times and costs, " in verified.out
    assert "Everything holds." in verified.out
    assert f"Request 1: {status.upper()}; everything holds" in verified.out
    assert f"Verdicts: 1 {status}." in verified.out
    assert f"Head of the ledger: {head}" in verified.out
    assert "unsigned: whoever can write here can rewrite it" in verified.out
    noted = expunge("verify", out, "--quick", "--head", head)
    assert noted.code == 0
    assert "the head that was noted is that of request 1" in noted.out
    other = expunge("verify", out, "--quick", "--head", "0" * 64)
    assert other.code == 1
    assert "No request has the hash" in other.err
    listed = expunge("ledger", out)
    assert listed.code == 0
    assert status in listed.out
    assert (
        f"{status.upper()}; accuracy on its 12 records" in expunge("ledger", out, "--find", 3).out
    )
    assert expunge("ledger", out, "--find", 40).code == 1
    (out / ".work").mkdir()
    (out / ".work" / "run.checkpoint").write_text("weights")
    found = expunge("purge", "requests", out, "--dry-run")
    assert "checkpoint of a request" in found.out
    assert f"remove it yourself: {trained}, the weights from before the first" in found.out
    assert (out / ".work").exists()
    with monkeypatch.context() as answered:
        answered.setattr(sys, "stdin", io.StringIO("n\n"))
        kept = expunge("purge", "requests", out)
    assert (kept.code, "Nothing was removed." in kept.err) == (1, True)
    assert (out / ".work").exists()
    assert expunge("purge", "requests", out, "--yes").code == 0
    assert not (out / ".work").exists()
    assert expunge("verify", out, "--quick").code == 0
    (out / "0001" / "letter.md").write_text("")
    broken = expunge("verify", out, "--quick")
    assert broken.code == 1
    assert "letter.md was changed" in broken.err


@pytest.mark.usefixtures("few_steps")
def test_people_who_asked_together_get_letters_of_their_own(
    expunge: Expunge, trained: Path, tmp_path: Path
) -> None:
    out, table, ids = tmp_path / "requests", tmp_path / "records.csv", tmp_path / "ids.txt"
    owners = ["anna"] * 5 + ["bert"] + ["carl"] * 54
    lines = [f"{index},{owner}\n" for index, owner in enumerate(owners)]
    table.write_text("index,person\n" + "".join(lines))
    ids.write_text("anna\nbert\n")
    people = ("--records", table, "--id-column", "person", "--received", "2026-01-31")
    done = expunge(
        "forget", "--weights", trained, "--ids", ids, *people, "-o", out, *QUICK, "--force"
    )
    assert done.code in (0, 1, 3), done.err
    bundle = "".join(path.read_text() for path in (out / "0001").glob("*.[!s]*"))
    assert "anna" not in bundle
    listed = expunge("ledger", out)
    assert "request 1: the answer is due on 2026-02-28" in listed.out
    folder = tmp_path / "letters"
    assert expunge("ledger", out, "--letters", folder, "--ids", ids).code == 0
    assert sorted(path.name for path in folder.iterdir()) == [
        "001.html", "001.md", "002.html", "002.md",
    ]  # fmt: skip
    anna, bert = (" ".join((folder / f"00{k}.md").read_text().split()) for k in (1, 2))
    assert "To: anna Request 1, received on 31 January 2026" in anna
    assert "You asked that your 5 records be removed" in anna
    assert "requests of 2 people together, 6 records in all" in anna
    assert "To: bert" in bert
    assert "You asked that your one record be removed" in bert
    (folder / "002.md").write_text("To: bert, by hand")
    (folder / "001.md").unlink()
    again = expunge("ledger", out, "--letters", folder, "--ids", ids)
    assert again.code == 2
    assert "001.html exists" in " ".join(again.err.split())
    assert (folder / "002.md").read_text() == "To: bert, by hand"
    ids.write_text("anna\nzoe\n")
    stranger = expunge("ledger", out, "--letters", tmp_path / "others", "--ids", ids)
    assert stranger.code == 2
    assert "line 2: no request in" in " ".join(stranger.err.split())
    assert not (tmp_path / "others").exists(), "nobody gets a letter if one of them is unknown"
    assert expunge("ledger", out, "--letters", folder).code == 2
    assert expunge("verify", out).code == 0


@pytest.mark.usefixtures("few_steps")
def test_a_signed_request_is_verified_with_the_public_key(
    expunge: Expunge, trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("securesystemslib", reason="needs expunge[sign]")
    files, out = make_key_files(tmp_path / "keys"), tmp_path / "requests"
    arguments = ("--weights", trained, "--ids", ids_file(tmp_path, *range(12)), "-o", out)
    arguments = (*arguments, *QUICK, "--force", "--sign", files.encrypted)
    locked = expunge("forget", *arguments)
    assert locked.code == 2
    assert "EXPUNGE_SIGN_PASSWORD" in locked.err
    assert not (out / "0001").exists(), "the key is read first"
    monkeypatch.setenv("EXPUNGE_SIGN_PASSWORD", PASSWORD)
    assert expunge("forget", *arguments).code in (0, 1, 3)
    names = {path.name for path in out.iterdir()} | {path.name for path in (out / "0001").iterdir()}
    assert {"bundle.dsse.json", "head.dsse.json", "letter.md"} <= names
    unchecked = expunge("verify", out, "--quick")
    assert unchecked.code == 0
    assert "not checked: the signature by key" in unchecked.out
    verified = expunge("verify", out, "--quick", "--key", files.public)
    assert verified.code == 0
    assert "holds: all requests that were signed are here" in verified.out
    other = make_key_files(tmp_path / "other")
    assert expunge("verify", out, "--quick", "--key", other.public).code == 1


@pytest.mark.parametrize(
    ("status", "code"), [("achieved", 0), ("not achieved", 1), ("inconclusive", 3)]
)
def test_every_verdict_has_its_exit_code(
    expunge: Expunge,
    trained: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    status: Status,
    code: int,
) -> None:
    evidence = fake.evidence(42, status=status)
    outcome = SimpleNamespace(
        evidence=evidence, folder=tmp_path, seconds=evidence.seconds, head="5ea1" * 16
    )
    monkeypatch.setattr("expunge.request.carry_out", lambda *_, **__: outcome)
    done = expunge(
        "forget", "--weights", trained, "--ids", ids_file(tmp_path, 1), "-o", tmp_path / "out"
    )
    assert done.code == code
    assert status.upper() in done.out
    assert ("What to try next" in done.out) == (status != "achieved")
    split = " ".join(done.err.split())
    assert "It took 13 s of processor time: 8 s gradient steps, 2 s audit, 1 s loading" in split
    assert "14 s of wall time" in split


def test_there_is_nothing_to_verify_in_an_empty_folder(expunge: Expunge, tmp_path: Path) -> None:
    for command in ("verify", "ledger"):
        ending = expunge(command, tmp_path)
        assert ending.code == 2
        assert "There are no requests" in ending.err


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a small language model, its records, and records that it never saw."""
    folder = tmp_path_factory.mktemp("texts")
    text_worlds.write_files(folder)
    return folder


def of_texts(folder: Path, out: Path, *ids: str) -> tuple[object, ...]:
    path = out.with_suffix(".txt")
    path.write_text("\n".join(ids))
    model = ("--model", "small-transformer", "--weights", folder / "model.safetensors")
    return ("forget", *model, "--data", f"qa:{folder / 'texts'}", "--ids", path, "-o", out)


def test_a_language_model_answers_about_forgotten_people_as_about_strangers(
    expunge: Expunge, texts: Path, tmp_path: Path
) -> None:
    out, ids = tmp_path / "requests", text_worlds.ids_of(8)
    margins = ("--margin-auc", "0.9", "--margin-records", "30", "--margin-test", "20")
    done = expunge(*of_texts(texts, out, *ids), "--lr", "1e-3", *margins, "--margin-of-class", "50")
    assert done.code == 0, done.out
    assert "ACHIEVED" in done.out
    evidence = json.loads((out / "0001" / "evidence.json").read_text())
    assert evidence["texts"]
    attacks = {row["name"] for row in evidence["checks"] if row["name"].startswith("auc_")}
    assert attacks == {"auc_loss", "auc_zlib", "auc_min_k", "auc_min_k_plus_plus", "auc_facts"}
    moments = {row["moment"] for row in evidence["checks"] if row["name"] == "facts"}
    attacked = {"after relearning a tenth", "with 4-bit weights", "in sampled answers"}
    assert moments == {"as delivered", "after benign steps"} | attacked
    verified = expunge("verify", out)
    assert verified.code == 0, verified.err
    assert "Verdicts: 1 achieved." in verified.out
    # Nothing that is written, the page and the letter included, has anything of the texts.
    forgotten = text_worlds.corpus().people[: len(ids)]
    for path in out.rglob("*"):
        content = path.read_bytes() if path.is_file() else b""
        for record in forgotten:
            for text in (record.id, record.answer, " ".join(record.question.split()[2:4])):
                assert text.encode() not in content, path


def test_of_a_single_record_of_a_language_model_nothing_can_be_told(
    expunge: Expunge, texts: Path, tmp_path: Path
) -> None:
    done = expunge(
        *of_texts(texts, tmp_path / "out", "p7-trade"), *BRIEF, "--max-epochs", "30", "--lr", "1e-3"
    )
    assert done.code == 3, done.out
    assert "INCONCLUSIVE" in done.out


def test_a_language_model_that_hardly_moved_is_left_as_it_was(
    expunge: Expunge, texts: Path, tmp_path: Path
) -> None:
    ids = text_worlds.ids_of(6)
    arguments = of_texts(texts, tmp_path / "out", *ids)
    done = expunge(*arguments, *BRIEF, "--lr", "1e-6")
    assert done.code == 1, done.out
    assert "NOT ACHIEVED" in done.out
    assert "--method match-answers" in done.out


def test_a_language_model_that_only_hides_is_left_as_it_was(
    expunge: Expunge, texts: Path, tmp_path: Path
) -> None:
    """NPO looks forgotten as delivered; what it suppressed comes back with further training."""
    out, ids = tmp_path / "out", text_worlds.ids_of(16)
    arguments = of_texts(texts, out, *ids)
    done = expunge(*arguments, "--method", "npo", "--lr", "1e-3", "--margin-auc", "0.75")
    assert done.code == 1, done.out
    evidence = json.loads((out / "0001" / "evidence.json").read_text())
    outside = {row["moment"] for row in evidence["checks"] if row["result"] == "outside"}
    assert outside == {"after benign steps", "after relearning a tenth"}
    assert evidence["hashes"]["weights_after"] == evidence["hashes"]["weights_before"]
    assert evidence["hashes"]["discarded"]


def test_ids_of_texts_that_are_not_there_are_refused(
    expunge: Expunge, texts: Path, tmp_path: Path
) -> None:
    unseen = text_worlds.corpus().unseen[0].id
    done = expunge(*of_texts(texts, tmp_path / "out", "nobody", unseen))
    assert done.code == 2
    assert "2 of 2 have no training record" in done.err
    assert "the model was not trained on them" in done.err


def test_single_records_of_people_are_compared_without_their_names(
    expunge: Expunge, texts: Path, tmp_path: Path
) -> None:
    """Other records still teach the model the names, which strangers' records cannot tell."""
    out, ids = tmp_path / "requests", text_worlds.ids_of(24)[:: text_worlds.TOPICS]
    done = expunge(*of_texts(texts, out, *ids), *BRIEF)
    assert "compared without the words of their questions" in " ".join(done.err.split())
    evidence = json.loads((out / "0001" / "evidence.json").read_text())
    assert any("without the words of their questions" in text for text in evidence["limits"])
    # The preflight reads whole answers, the comparison what questions do not give.
    whole = evidence["preflight"]["fit"]["accuracy"]["val"]["value"]
    compared = next(row for row in evidence["metrics"] if row["name"] == "va")
    assert compared["before"]["value"] > whole + 3
    verified = expunge("verify", out)
    assert verified.code == 0, verified.out + verified.err
    assert "Everything holds" in verified.out


def test_a_template_with_braces_of_its_own_is_an_error_of_usage(
    expunge: Expunge, tmp_path: Path
) -> None:
    folder = write_llama(tmp_path / "llama", "q-a", epochs=0)
    ids = tmp_path / "ids.txt"
    ids.write_text("p0-trade")
    model = ("--model", f"causal:{folder}", "--weights", folder / "model.safetensors")
    data = ("--data", f"qa:{folder / 'texts'}", "--ids", ids, "-o", tmp_path / "out")
    for template in ("{question} {", "{system} {question}", "Answer:", "chat"):
        done = expunge("forget", *model, *data, "--template", template)
        assert done.code == 2
        assert "`template`" in done.err
    done = expunge("forget", *model, *data, "--template", "{{ {question} }}", "--dry-run")
    assert done.code == 0
    assert "What the model reads" in done.out


def test_a_llama_is_trained_again_without_a_base(expunge: Expunge, tmp_path: Path) -> None:
    folder, out = write_llama(tmp_path / "llama", "q-a", epochs=1), tmp_path / "out"
    ids = tmp_path / "ids.txt"
    ids.write_text("\n".join(text_worlds.ids_of(4)))
    settings = {
        "model": f"causal:{folder}",
        "weights": folder / "model.safetensors",
        "template": "q-a",
        "data": f"qa:{folder / 'texts'}",
        "ids": ids,
        "out": out,
    }
    job = tmp_path / "job.toml"
    lines = ["exact = true", *(f"{name} = '{value}'" for name, value in settings.items())]
    recipe = ("[recipe]", "epochs = 1", "batch_size = 32", "lr = 1e-3")
    job.write_text("\n".join((*lines, *recipe)))
    done = expunge("forget", "--job", job, "--force")
    assert done.code in (0, 1, 3), done.out + done.err
    stopped = json.loads((out / "0001" / "evidence.json").read_text())["stopped"]
    assert stopped["epoch"] == 1, "it was trained, and no parameter was left as it was"


def test_adapters_of_peft_come_to_a_verdict_above_a_model_that_stays(
    expunge: Expunge, tmp_path: Path
) -> None:
    pytest.importorskip("peft")
    base = write_llama(tmp_path / "base", "q-a", epochs=5)
    adapters = write_adapters(tmp_path / "adapters", base, "q-a", epochs=5)
    ids = tmp_path / "ids.txt"
    ids.write_text("\n".join(text_worlds.ids_of(8)))
    model = ("--model", f"causal:{adapters}", "--template", "q-a")
    data = ("--data", f"qa:{base / 'texts'}")
    weights = adapters / "adapter_model.safetensors"
    out = tmp_path / "out"
    request = ("--weights", weights, "--ids", ids, "-o", out, "--lr", "1e-3")
    done = expunge("forget", *model, *data, *request, *BRIEF)
    assert done.code in (0, 1, 3), done.out + done.err
    evidence = json.loads((out / "0001" / "evidence.json").read_text())
    assert evidence["verdict"]["status"] in ("achieved", "not achieved", "inconclusive")
    after = tensors.load(out / "0001" / "weights.safetensors")[0]
    below = tensors.load(base / "model.safetensors")[0]
    layer = "model.layers.1.mlp.up_proj"
    frozen = after[f"base_model.model.{layer}.base_layer.weight"]
    assert torch.equal(frozen, below[f"{layer}.weight"])
    # What was written is read again, as the weights of the next request are.
    job = make_job(
        weights=out / "0001" / "weights.safetensors",
        model=f"causal:{adapters}",
        data=f"qa:{base / 'texts'}",
        out=out,
    )
    again, _, _ = load_text_model(job)
    assert all(torch.equal(value, after[name]) for name, value in again.state_dict().items())
