"""Tables, texts, regressions and weights of any origin, from training to a request."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import samples
from expunge.data import TextSet, save_records
from expunge.engine._artifact import load_artifact, save_artifact
from expunge.evaluation import evaluate_text
from tests.unit.cli.conftest import Ending, Expunge
from tests.unit.data.tables import people, write_csv
from tests.unit.integrations import test_lm_eval
from tests.unit.request import text_worlds
from tests.unit.request.llama_worlds import write_llama

TRAIN = ("--epochs", "4", "--batch-size", "16", "--lr", "0.05", "--width", "0.1", "--quiet")
UNLEARN = ("--epochs", "1", "--batch-size", "16", "--addon", "none", "--quiet", "--json")


def ok(ending: Ending) -> Any:
    """The JSON that a command printed."""
    assert ending.code == 0, ending.err
    assert all(line.startswith("Wrote ") for line in ending.err.splitlines()), ending.err
    return json.loads(ending.out) if ending.out else None


@pytest.fixture
def table(tmp_path: Path) -> str:
    return f"csv:{write_csv(tmp_path / 'people.csv', people(160))},label=income"


def test_a_table_passes_through_all_commands(
    expunge: Expunge, table: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EXPUNGE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("EXPUNGE_ID_KEY", str(tmp_path / "id.key"))
    initial, ideal, done = (tmp_path / f"{k}.safetensors" for k in ("initial", "ideal", "done"))
    assert ok(expunge("train", "--data", table, *TRAIN, "-o", initial)) is None
    card = load_artifact(initial).card
    assert (card.model.name, card.model.num_classes, card.model.in_channels) == ("mlp", 2, 6)
    assert [row["as"] for row in card.data.encoding or ()] == ["number", "number", "category"]
    assert "nurse" not in card.model_dump_json()
    ok(expunge("retrain", initial, "-f", "random:0.2", "-o", ideal, "--quiet"))

    unlearned = ok(
        expunge("unlearn", initial, "-f", "random:0.2", "-m", "SRL", *UNLEARN,
                "--ideal", ideal, "-o", done)
    )  # fmt: skip
    assert unlearned["file"] == str(done)
    assert {*unlearned["scores"]} == {"initial", "unlearned", "ideal"}
    scored = ok(expunge("evaluate", done, "--ideal", ideal, "--initial", initial, "--json"))
    assert scored["unlearned"] == unlearned["scores"]["unlearned"]
    assert 0 <= scored["unlearned"]["ta"] <= 100

    audit = expunge("audit", done, "--initial", initial, "-o", tmp_path / "audit", "--json",
                    "--quiet")  # fmt: skip
    found = ok(audit)
    assert found["scores"]["unlearned"]["ua"] == scored["unlearned"]["ua"]

    (tmp_path / "ids.txt").write_text("\n".join(load_card_names(initial)[:4]))
    looked = ok(
        expunge("forget", "--weights", initial, "--ids", tmp_path / "ids.txt", "--dry-run",
                "-o", tmp_path / "requests", "--json", "--quiet")
    )  # fmt: skip
    assert looked["status"] is None
    assert looked["preflight"]["ids"]["asked"] == 4


def test_a_request_on_a_table_is_carried_out(
    expunge: Expunge, table: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EXPUNGE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("EXPUNGE_ID_KEY", str(tmp_path / "id.key"))
    initial, out = tmp_path / "initial.safetensors", tmp_path / "requests"
    ok(expunge("train", "--data", table, *TRAIN, "-o", initial))
    names = load_card_names(initial)
    (tmp_path / "ids.txt").write_text("\n".join(names[:20]))
    ending = expunge(
        "forget", "--weights", initial, "--ids", tmp_path / "ids.txt", "-o", out, "-m", "SRL",
        "--max-epochs", "1", "--force", "--json", "--quiet",
    )  # fmt: skip
    assert ending.code in (0, 1, 3), ending.err
    assert ending.err.startswith("Wrote ")
    found = json.loads(ending.out)
    assert found["status"] in ("achieved", "not achieved", "inconclusive")
    assert {0: "achieved", 1: "not achieved", 3: "inconclusive"}[ending.code] == found["status"]
    assert (out / "0001" / "report.html").is_file()
    written = "".join(path.read_text() for path in (out / "0001").glob("*.json"))
    assert names[0] not in written
    listed = ok(expunge("ledger", out, "--json"))
    assert listed["requests"][0]["status"] == found["status"]
    assert listed["head"] == found["head"]
    checked = ok(expunge("verify", out, "--quick", "--json"))
    assert checked["ok"] is True


def load_card_names(path: Path) -> list[str]:
    from expunge.engine._artifact import load_card_data

    return list(load_card_data(load_artifact(path).card).train.names or ())


def test_a_text_classifier_passes_through(expunge: Expunge, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    topics = {"wine": ["grape", "oak", "dry"], "ship": ["sail", "mast", "keel"]}
    lines = []
    for number in range(80):
        topic = ("wine", "ship")[number % 2]
        text = " ".join([*rng.choice(topics[topic], 3), *rng.choice(["the", "a", "old"], 2)])
        lines.append(f"{number},{text},{topic}")
    path = write_csv(tmp_path / "notes.csv", lines, "id,note,label")
    initial, done = tmp_path / "initial.safetensors", tmp_path / "done.safetensors"
    data = f"csv:{path},text=note,vocabulary=200"
    ok(expunge("train", "--data", data, *TRAIN, "-o", initial))
    assert load_artifact(initial).card.model.name == "text-bag"
    said = ok(expunge("unlearn", initial, "-f", "random:0.2", "-m", "SRL", *UNLEARN, "-o", done))
    assert said["scores"]["initial"]["ta"] > 90


def test_a_regression_is_unlearned_and_scored_by_its_errors(
    expunge: Expunge, tmp_path: Path
) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(150, 2))
    y = 500 + 80 * x[:, 0] - 30 * x[:, 1]
    lines = [f"{a},{b},{c}" for (a, b), c in zip(x, y, strict=True)]
    data = f"csv:{write_csv(tmp_path / 'prices.csv', lines, 'a,b,price')},label=price"
    data += ",task=regression"
    initial, done = tmp_path / "initial.safetensors", tmp_path / "done.safetensors"
    ok(expunge("train", "--data", data, *TRAIN, "-o", initial))
    arguments = ("unlearn", initial, "-f", "random:0.2", "-o", done)
    refused = expunge(*arguments, "-m", "SRL", *UNLEARN)
    assert refused.code == 2
    assert "For a regression, take a method that needs its loss alone" in refused.err.replace(
        "\n", " "
    )
    said = ok(expunge(*arguments, "-m", "NGPlus", *UNLEARN))
    assert said["scores"]["initial"]["test_rmse"] < 60
    assert "a regression has none" in said["scores"]["left_out"]["ua"]
    shown = expunge("evaluate", done)
    assert shown.code == 0, shown.err
    assert "RMSE forget" in shown.out
    assert "No UA, RA, TA" in shown.out
    assert "they are of classes, and a regression has none" in shown.out
    audit = expunge("audit", done, "-o", tmp_path / "audit")
    assert audit.code == 2
    assert "expunge evaluate" in audit.err
    (tmp_path / "ids.txt").write_text("0\n1\n")
    named = ("--ids", tmp_path / "ids.txt", "-o", tmp_path / "requests")
    request = expunge("forget", "--weights", initial, *named)
    assert request.code == 2
    assert "Requests are for classifiers" in request.err


def test_weights_of_any_origin_are_unlearned_scored_and_retrained(
    expunge: Expunge, trained: Path, tmp_path: Path
) -> None:
    mine, done, ideal = (tmp_path / name for name in ("mine.pt", "done.pt", "ideal.safetensors"))
    torch.save(load_artifact(trained).model.state_dict(), mine)
    named = ("--model", "small-cnn,width=0.1", "--data", "digits")
    lacking = expunge("unlearn", mine, "-f", "random:0.2", *UNLEARN, "-o", ideal)
    assert lacking.code == 2
    assert "Give --model" in lacking.err
    out = tmp_path / "done.safetensors"
    said = ok(expunge("unlearn", mine, "-f", "random:0.1", *named, *UNLEARN, "-o", out))
    # What expunge wrote says itself what it is of; as a torch file it needs to be told again.
    torch.save(load_artifact(out).model.state_dict(), done)
    scored = ok(expunge("evaluate", done, "-f", "random:0.1", *named, "--json"))
    assert scored["unlearned"] == ok(expunge("evaluate", out, "--json"))["unlearned"]
    assert scored["unlearned"] == said["scores"]["unlearned"]
    unknown = expunge("retrain", mine, "-f", "random:0.1", *named, "-o", ideal)
    assert unknown.code == 2
    assert "--epochs, --batch-size and --lr" in unknown.err
    ok(expunge("retrain", mine, "-f", "random:0.1", *named, "--epochs", "1", "-o", ideal, "-q"))
    compared = ok(expunge("evaluate", out, "--ideal", ideal, "--json"))
    assert "rua" in compared["unlearned"]
    other = expunge("evaluate", out, "-f", "random:0.3")
    assert other.code == 2
    assert "Leave --forget out" in " ".join(other.err.split())


def test_weights_are_written_as_a_torch_file_where_the_name_says_so(
    expunge: Expunge, trained: Path, tmp_path: Path
) -> None:
    out, same = tmp_path / "done.pt", tmp_path / "same.safetensors"
    arguments = ("unlearn", trained, "-f", "random:0.1", *UNLEARN)
    said = ok(expunge(*arguments, "-o", out))
    ok(expunge(*arguments, "-o", same))
    state, twin = torch.load(out, weights_only=True), load_artifact(same).model.state_dict()
    assert state.keys() == twin.keys()
    assert all(torch.equal(state[name], twin[name]) for name in twin)
    # The card beside it says what it is of: nothing has to be told again.
    assert ok(expunge("evaluate", out, "--json"))["unlearned"] == said["scores"]["unlearned"]
    # A card that is there already is somebody's.
    out.unlink()
    again = expunge(*arguments, "-o", out)
    assert again.code == 2
    assert "done.card.json exists" in again.err


def test_an_audit_does_not_import_the_method_that_a_card_names(
    expunge: Expunge, trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "evil_method.py").write_text("import pathlib; pathlib.Path('PWNED').touch()")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    found, path = load_artifact(trained), tmp_path / "unlearned.safetensors"
    method = {"part": "evil_method:Push", "fields": {}}
    procedure = {"part": "expunge.engine.procedure:Procedure", "fields": {"method": method}}
    update = {"stage": "unlearned", "scenario": "random:0.1", "scenario_seed": 0}
    card = found.card.model_copy(update=update | {"procedure": procedure})
    save_artifact(path, found.model, card)
    audit = expunge("audit", path, "--shadows", "4", "-o", tmp_path / "audit")
    assert audit.code == 2
    assert "names code, evil_method:Push, which was not imported" in audit.err
    assert not (tmp_path / "PWNED").exists()


def test_a_language_model_is_scored_on_texts(expunge: Expunge, tmp_path: Path) -> None:
    weights = text_worlds.write_files(tmp_path)
    ids = tmp_path / "ids.txt"
    ids.write_text("\n".join(text_worlds.ids_of(5)))
    data = f"qa:{tmp_path / 'texts'}"
    given = (weights, "--model", "small-transformer", "--data", data)
    scores = ok(expunge("evaluate", *given, "--forget", f"ids:{ids}", "--ideal", weights, "--json"))
    train = text_worlds.data()[0]
    forget, retain = train.subset(range(15)), train.subset(range(15, len(train)))
    unseen = TextSet(text_worlds.corpus().unseen, text_worlds.tokenizer())
    wanted = evaluate_text(text_worlds.memorised(), forget=forget, retain=retain, test=unseen)
    assert scores["ideal"] == pytest.approx(wanted.as_dict())
    assert scores["unlearned"]["forget_quality"] == pytest.approx(1.0)
    assert scores["unlearned"]["gap_auc_loss"] == 0.0

    nothing = expunge("evaluate", *given)
    assert nothing.code == 2
    assert "does not say what was to be forgotten. Give --forget" in nothing.err
    misplaced = expunge("evaluate", weights, "--data", "digits", "--template", "q-a")
    assert misplaced.code == 2
    assert "`template` goes with texts" in misplaced.err


def test_a_benchmark_says_itself_what_is_forgotten(expunge: Expunge, tmp_path: Path) -> None:
    weights, learnt = text_worlds.write_files(tmp_path), text_worlds.corpus().people
    folder = tmp_path / "texts"
    save_records(folder / "forget10.jsonl", learnt[:12])
    save_records(folder / "retain90.jsonl", learnt[12:])
    given = ("--model", "small-transformer", "--data", f"tofu:{folder}")
    scores = ok(expunge("evaluate", weights, *given, "--json"))["unlearned"]
    assert scores["retain_exact_memorisation"] > 0.9
    assert not any(name.startswith("auc_") for name in scores)  # nothing unseen to compare with


def test_a_checkpoint_of_subwords_has_its_table_of_tofu(expunge: Expunge, tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    model, learnt = write_llama(tmp_path / "model", "q-a", epochs=4), text_worlds.corpus()
    files = {
        "forget10_perturbed": learnt.people[:6],
        "retain_perturbed": learnt.people[6:12],
        "retain90": learnt.people[6:],
        "holdout10": learnt.unseen[:6],
        "real_authors_perturbed": learnt.facts[:3],
        "world_facts_perturbed": learnt.facts[3:6],
    }
    for name, records in files.items():
        save_records(tmp_path / "TOFU" / f"{name}.json", records)
    weights = model / "model.safetensors"
    given = (
        "--model",
        f"causal:{model}",
        "--template",
        "q-a",
        "--data",
        f"tofu:{tmp_path / 'TOFU'}",
    )
    published = ("--definitions", "open-unlearning")
    done = expunge("evaluate", weights, *given, "--ideal", weights, *published, "--json")
    assert done.code == 0, done.err
    scores = json.loads(done.out)
    assert {"exact_memorisation", "model_utility", "forget_quality"} <= scores["unlearned"].keys()
    assert scores["unlearned"]["forget_quality"] == pytest.approx(1.0)
    assert scores["ideal"]["general_probability"] > 0.1  # of few options
    wrong = expunge("evaluate", weights, *given, "--definitions", "tofu")
    assert wrong.code == 2
    assert "`definitions` should be one of expunge, open-unlearning" in wrong.err


@pytest.mark.thorough
def test_the_recipe_of_tofu_takes_a_llama_of_millions_of_weights(
    expunge: Expunge, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("transformers")
    monkeypatch.chdir(tmp_path)
    samples.tofu(width=256, layers=5, epochs=2)
    page = (Path(samples.__file__).parents[1] / "how-to" / "tofu.md").read_text(encoding="utf-8")
    command = re.findall(r"^expunge (evaluate model/.*)$", page, re.M)[0].split()
    done = expunge(*command, "--json")
    assert done.code == 0, done.err
    scores = json.loads(done.out)
    assert Path("model/model.safetensors").stat().st_size > 4 * 3_000_000
    known = {"model_utility", "forget_quality", "extraction_strength"}
    assert known <= scores["unlearned"].keys()
    assert "model_utility" in scores["ideal"]
    assert scores["unlearned"]["general_probability"] > 0.1  # of few options


def test_a_task_of_the_harness_goes_with_a_model_of_transformers_alone(
    expunge: Expunge, tmp_path: Path
) -> None:
    weights = text_worlds.write_files(tmp_path)
    for given, problem in {
        ("--model", "small-transformer"): "`lm_eval` goes with a model causal:FOLDER",
        ("--data", f"qa:{tmp_path}"): "has records and prompts of its own: leave `data`",
        ("--definitions", "open-unlearning"): "has records and prompts of its own",
    }.items():
        refused = expunge("evaluate", weights, "--lm-eval", "arc_easy", *given)
        assert refused.code == 2
        assert problem in " ".join(refused.err.split())


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore")  # of the harness
def test_a_task_of_the_harness_is_a_table(expunge: Expunge, tmp_path: Path) -> None:
    pytest.importorskip("lm_eval")
    model, tokenizer = test_lm_eval.write_llama(tmp_path / "model")
    weights, task = tmp_path / "model" / "model.safetensors", test_lm_eval.write_task(tmp_path)
    given = (weights, "--initial", weights, "--model", f"causal:{tmp_path / 'model'}")
    done = expunge("evaluate", *given, "--lm-eval", task, "--json")
    assert done.code == 0, done.err
    wanted = test_lm_eval.accuracy(model, tokenizer)
    scores = json.loads(done.out)
    assert [scores[name]["places acc"] for name in ("unlearned", "initial")] == [wanted] * 2
    shown = expunge("evaluate", *given, "--lm-eval", task)
    assert ["places", "acc", f"{wanted:.3f}", f"{wanted:.3f}"] in map(
        str.split, shown.out.splitlines()
    )
