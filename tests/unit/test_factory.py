from __future__ import annotations

import sys

import pytest

from expunge._errors import InvalidInput
from expunge._factory import call_factory, is_factory
from expunge.data._formats import is_data_factory

CODE = {
    "inputs_plain": "def make(n=1): return n\nnumber = 3\n",
    "inputs_broken": "import no_such_thing\n",
    "inputs_raising": "raise RuntimeError('no licence')\n",
    "inputs_leaving": "import sys; sys.exit(3)\n",
    "inputs_failing": "def make(): raise KeyError('x')\n",
    "inputs_stopping": "class Stop(BaseException): pass\ndef make(): raise Stop('x')\n",
    "inputs_stopped": "raise GeneratorExit('x')\n",
    "inputs_lazy": "def make():\n    import inputs_beside\n    return inputs_beside.value\n",
    "inputs_beside": "value = 7\n",
    "inputs_borrowed": "import os\nfrom os import system\nfrom pathlib import Path\nrun = eval\n",
}


@pytest.fixture(autouse=True)
def _here(tmp_path, monkeypatch):
    for name, code in CODE.items():
        (tmp_path / f"{name}.py").write_text(code)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [p for p in sys.path if p])
    yield
    for name in CODE:
        sys.modules.pop(name, None)


def test_a_module_of_the_current_directory_is_found_and_the_path_put_back():
    before = list(sys.path)
    assert call_factory("inputs_plain:make", "model", n=5) == 5
    assert sys.path == before


def test_a_factory_may_import_its_neighbours_when_it_is_called():
    assert call_factory("inputs_lazy:make", "data") == 7


@pytest.mark.parametrize(
    ("spec", "complaint"),
    [
        ("inputs_none:make", r"no module 'inputs_none', neither installed nor in the current dir"),
        ("inputs_none.deep:make", r"no module 'inputs_none'"),
        ("inputs_broken:make", r"importing inputs_broken failed: .*'no_such_thing'"),
        ("inputs_raising:make", r"importing inputs_raising failed: RuntimeError: no licence"),
        ("inputs_leaving:make", r"importing inputs_leaving failed: SystemExit: 3"),
        ("inputs_failing:make", r"inputs_failing:make failed: KeyError: 'x'"),
        ("inputs_stopping:make", r"inputs_stopping:make failed: Stop: x"),
        ("inputs_stopped:make", r"importing inputs_stopped failed: GeneratorExit: x"),
        ("inputs_plain:mak", r"inputs_plain has no 'mak'\. Did you mean 'make'\?"),
        ("inputs_plain:number", r"should be a function or a class\. \(got int\)"),
        ("os:system", r"a function or class of your code\. \(got one of Python's own module 'os'"),
        ("builtins:eval", r"Python's own module 'builtins'"),
        ("subprocess:run", r"Python's own module 'subprocess'"),
        ("inputs_borrowed:os.system", r"Python's own module 'posix|nt'"),
        ("inputs_borrowed:system", r"Python's own module 'posix|nt'"),
        ("inputs_borrowed:Path.home", r"Python's own module 'pathlib"),
        ("inputs_borrowed:run", r"Python's own module 'builtins'"),
        ("inputs_plain.py:make", r"should leave out `\.py`: inputs_plain:make\. \(got 'inputs_pl"),
        ("inputs_plain", r"should read package\.module:factory\. \(got 'inputs_plain'\)"),
    ],
)
def test_a_factory_that_does_not_work_is_explained(spec, complaint):
    with pytest.raises(InvalidInput, match=complaint):
        call_factory(spec, "model")


def test_wrong_options_are_explained():
    with pytest.raises(InvalidInput, match=r"failed: TypeError: .*'width'"):
        call_factory("inputs_plain:make", "model", width=2)


@pytest.mark.parametrize(
    ("spec", "answer"),
    [
        ("a.b:c", True),
        ("a:c.d", True),
        ("digits", False),
        ("folder:photos", False),
        ("csv:people", False),
        ("a:b/c", False),
    ],
)
def test_a_factory_is_told_from_a_data_set(spec, answer):
    assert is_data_factory(spec) is answer
    assert is_factory(spec) or not answer
