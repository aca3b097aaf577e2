"""Bundles that name code: checking one imports nothing, calls nothing and writes nothing."""

from __future__ import annotations

import shlex
import shutil
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from expunge import _tensors as tensors
from expunge._plugins import installed_plugins
from expunge.cli._main import build_app
from expunge.data import DATASETS
from expunge.ledger._ledger import Ledger
from expunge.ledger._purge import find_remnants, remnants_elsewhere
from expunge.methods import METHODS
from expunge.request._reload import verify_command
from expunge.request._verify import verify
from tests.unit.request.forgeries import change_job, redo_hashes, set_value
from tests.unit.request.jobs import JobMaker, carry_out_quietly
from tests.unit.test_plugins import install

EVIL = "import pathlib\npathlib.Path('PWNED').touch()\ndef make(**options): return 1\n"
DIGITS = 'data = "digits"'
HOSTILE = {
    "a command": ('model = "os:system"', 'model_options = {command = "touch PWNED"}', DIGITS),
    "a module for the model": ('model = "evil:make"', DIGITS),
    "a module for the data": ('model = "small-cnn"', 'data = "evil:make"'),
    "a dataset of the network": ('model = "small-cnn"', 'data = "hf:somebody/something"'),
    "a download": ('model = "small-cnn"', 'data = "cifar10"'),
    "another computer": ('model = "small-cnn"', 'data = "npz://elsewhere/share/x.npz"'),
    "a bare path, which any plug-in could read": ('model = "small-cnn"', 'data = "photos"'),
    "a plug-in for the data": ('model = "small-cnn"', 'data = "evil-data:x"'),
    "a plug-in for the method": ('model = "nothing"', 'method = "evil-method"', DIGITS),
    "a folder of transformers": ('model = "hf:somewhere"', DIGITS),
    "a language model": ('model = "causal:somebody/something"', 'data = "qa:somewhere"'),
}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A current folder with a module, and plug-ins in it, that leave a trace when imported."""
    folder = tmp_path / "here"
    folder.mkdir()
    for name in ("evil", "evil_plugin"):
        (folder / f"{name}.py").write_text(EVIL)
    entries = dict.fromkeys(("evil-data", "evil-method"), "evil_plugin:make")
    groups = {"expunge.data": "evil-data", "expunge.methods": "evil-method"}
    install(folder, "evil", {group: {name: entries[name]} for group, name in groups.items()})
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.chdir(folder)
    monkeypatch.setenv("EXPUNGE_CACHE", str(tmp_path / "cache"))
    installed_plugins.cache_clear()
    for registry in (DATASETS, METHODS):
        monkeypatch.setattr(registry, "_unread", True)
    yield folder
    installed_plugins.cache_clear()
    for registry, name in ((DATASETS, "evil-data"), (METHODS, "evil-method")):
        if name in registry:
            registry.remove(name)


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("the network was used")

    for name in ("connect", "connect_ex"):
        monkeypatch.setattr(socket.socket, name, refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


def bundle_with(two_requests: Path, folder: Path, lines: tuple[str, ...]) -> Path:
    """Two requests, the last of which has this job, weights without a card, and good hashes."""
    root = shutil.copytree(two_requests, folder)
    last = root / "0002"
    state, _ = tensors.load(last / "weights.safetensors")
    tensors.save(last / "weights.safetensors", state, {})
    (last / "job.toml").write_text("\n".join(lines) + "\n")
    redo_hashes(last)
    return root


def files_below(*folders: Path) -> dict[Path, bytes]:
    paths = (path for folder in folders for path in folder.rglob("*") if path.is_file())
    return {path: path.read_bytes() for path in paths if "__pycache__" not in path.parts}


@pytest.fixture(scope="module")
def _warm(two_requests: Path) -> None:
    """What verification itself needs is imported."""
    assert all(each.verified for each in verify(two_requests))


@pytest.mark.usefixtures("no_network", "_warm")
@pytest.mark.parametrize("case", HOSTILE)
def test_a_hostile_bundle_is_not_verified_and_imports_nothing(
    two_requests: Path, here: Path, tmp_path: Path, case: str
) -> None:
    root = bundle_with(two_requests, tmp_path / "requests", HOSTILE[case])
    modules, files = set(sys.modules), files_below(here, root, tmp_path)
    found = verify(root)
    ledger = Ledger.read(root)
    assert find_remnants(ledger)
    assert remnants_elsewhere(ledger)
    new = (name for name in set(sys.modules) - modules if not name.startswith("expunge."))
    assert list(new) == []
    assert files_below(here, root, tmp_path) == files
    assert all(each.ok and not each.verified for each in found)


def test_the_evidence_is_built_again_without_loading_the_method_that_it_names(
    two_requests: Path, here: Path, tmp_path: Path
) -> None:
    root = shutil.copytree(two_requests, tmp_path / "requests")
    change_job(root, "0002", "method", "evil-method")
    set_value(root, "0002", "config.method", "evil-method")
    redo_hashes(root / "0002", show=True)
    assert verify(root)[0].verified
    assert "evil" not in sys.modules
    assert not (here / "PWNED").exists()


def test_what_would_be_imported_is_said_and_trust_is_needed(
    two_requests: Path, here: Path, tmp_path: Path
) -> None:
    lines = ('model = "evil:make"', "model_options = {depth = 3}", DIGITS)
    root = bundle_with(two_requests, tmp_path / "requests", lines)
    words = "only the bundle names the model evil:make(depth=3), which is code and was not imported"
    assert words in verify(root)[0].not_verified
    assert f"`expunge verify {root} --model evil:make,depth=3`" in verify(root)[0].not_verified
    said: list[str] = []
    found = verify(root, trust_job=True, on_import=said.append)
    assert said == ["the model evil:make(depth=3)"]
    assert "evil:make should return a torch.nn.Module. (got int)" in found[0].not_verified
    assert (here / "PWNED").exists()
    sys.modules.pop("evil")


def test_the_command_to_type_runs_nothing_in_a_shell_that_a_bundle_says(
    two_requests: Path, here: Path, tmp_path: Path
) -> None:
    lines = (
        'model = "evil:make; touch PWNED"',
        'data = "evil:$(touch PWNED)"',
        'id_key = "/keys/id.key; touch PWNED"',
    )
    root = bundle_with(two_requests, tmp_path / "requests", lines)
    command = shlex.split(verify_command(Ledger.read(root)))
    assert command[:3] == ["expunge", "verify", str(root)]
    assert dict(zip(command[3::2], command[4::2], strict=True)) == {
        "--model": "evil:make; touch PWNED",
        "--data": "evil:$(touch PWNED)",
        "--id-key": "/keys/id.key; touch PWNED",
    }
    assert not (here / "PWNED").exists()


def test_nothing_is_loaded_where_hashes_do_not_hold(
    two_requests: Path, here: Path, tmp_path: Path
) -> None:
    root = bundle_with(two_requests, tmp_path / "requests", ('model = "evil:make"', DIGITS))
    (root / "0001" / "report.html").write_text("")
    found = verify(root, trust_job=True)
    assert not found[0].ok
    assert {each.not_verified for each in found} == {
        "hashes, signatures or the chain of requests do not hold"
    }
    assert not (here / "PWNED").exists()


def test_the_first_request_names_the_original_weights(
    weights: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    carry_out_quietly(JobMaker(weights, tmp_path)([1], max_epochs=1))
    left = tmp_path / "out" / "0001" / "weights.safetensors"
    carry_out_quietly(JobMaker(left, tmp_path)([2], max_epochs=1))
    monkeypatch.chdir(tmp_path)
    found = verify("out")
    assert [each.problems for each in found] == [[], []]
    assert [each.not_verified for each in found] == ["", ""]


def test_the_command_says_that_it_did_not_verify_and_exits_with_4(
    two_requests: Path, here: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = bundle_with(two_requests, tmp_path / "requests", HOSTILE["a command"])
    with pytest.raises(SystemExit) as ending:
        build_app(["verify"])(["verify", str(root)])
    assert ending.value.code == 4
    shown = " ".join(capsys.readouterr().out.split())
    assert "Not verified: numbers were not recomputed (only the bundle names the model" in shown
    assert "os:system(command='touch PWNED')" in shown
    assert "holds." not in shown
    assert not (here / "PWNED").exists()


def test_the_next_request_in_a_folder_imports_nothing_that_its_bundles_name(
    two_requests: Path, here: Path, tmp_path: Path, weights: Path
) -> None:
    lines = ('model = "evil:make"', 'data = "evil:make"', 'method = "evil-method"')
    root = bundle_with(two_requests, tmp_path / "out", lines)
    carry_out_quietly(JobMaker(weights, tmp_path)([20], max_epochs=1))
    assert (root / "0003").is_dir()
    assert not (here / "PWNED").exists()
