"""The examples that stand out: found where planted, written as a table and a sheet."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
import torch
from PIL import Image

from expunge._errors import InvalidInput
from expunge.data import ImageSet
from expunge.evaluation import Exposure, Predictions, Views, contact_sheet, expose
from tests.unit.evaluation.worlds import world


def with_leaks(part: Predictions, indices: list[int]) -> Predictions:
    logits = part.logits.clone()
    logits[indices, part.labels[indices]] += 60.0
    return Predictions(logits, part.labels)


INITIAL = world(forget=1.0, size=400)
UNLEARNED = Views(
    with_leaks(INITIAL.forget, [3, 11]), INITIAL.test, with_leaks(INITIAL.split("retain"), [7])
)
NAMES = [f"img-{i}.png" for i in range(200)]
FORGET = ImageSet(
    torch.randint(0, 255, (200, 3, 8, 8), dtype=torch.uint8),
    INITIAL.forget.labels,
    ["cat", "dog", "frog", "ship", "very-long-class-name"],
    NAMES,
)


def found() -> Exposure:
    return expose(INITIAL, UNLEARNED, forget=FORGET)


def test_planted_leaks_are_the_worst() -> None:
    exposure = found()
    assert {row.index for row in exposure.forget[:2]} == {3, 11}
    first = exposure.forget[0]
    assert first.name == NAMES[first.index]
    assert first.label == FORGET.classes[int(FORGET.labels[first.index])]
    assert first.after > 0.99
    assert first.change == pytest.approx(first.after - first.before)


def test_retained_data_count_only_if_the_unlearning_exposed_them() -> None:
    assert [row.index for row in found().retain] == [7]


def test_as_many_as_chance_gives_are_expected() -> None:
    assert found().expected == (pytest.approx(2.0), pytest.approx(8.0))
    same = expose(INITIAL, INITIAL)
    assert len(same.forget) < 10
    assert same.retain == ()
    assert "of 200 forget examples are still exposed (2 expected" in str(found())


def test_the_table_reads_back(tmp_path: Path) -> None:
    exposure = found()
    exposure.write_csv(tmp_path / "deep" / "exposed.csv")
    with (tmp_path / "deep" / "exposed.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(exposure.forget) + len(exposure.retain)
    assert rows[0]["split"] == "forget"
    assert int(rows[0]["index"]) == exposure.forget[0].index
    assert float(rows[0]["after"]) == exposure.forget[0].after


@pytest.mark.parametrize("channels", [1, 3, 4])
def test_the_sheet_is_an_image_that_grows_with_the_rows(channels: int, tmp_path: Path) -> None:
    images = ImageSet(
        torch.zeros(200, channels, 8, 8, dtype=torch.uint8), FORGET.labels, FORGET.classes
    )
    sizes = []
    for limit in (1, 40):
        rows = found().forget * 10
        contact_sheet(tmp_path / "sheet.png", rows, images, limit=limit, columns=4)
        with Image.open(tmp_path / "sheet.png") as sheet:
            sizes.append(sheet.size[1])
            assert sheet.format == "PNG"
    assert sizes[0] < sizes[1]


def test_a_sheet_of_nobody_says_so(tmp_path: Path) -> None:
    contact_sheet(tmp_path / "sheet.png", [], FORGET, title="Exposed")
    assert (tmp_path / "sheet.png").stat().st_size > 0


def test_wrong_use_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="at least 1000 test examples"):
        expose(INITIAL, UNLEARNED, fpr=0.001)
    with pytest.raises(InvalidInput, match="retain set"):
        expose(Views(INITIAL.forget, INITIAL.test), UNLEARNED)
    with pytest.raises(InvalidInput, match="columns"):
        contact_sheet(tmp_path / "sheet.png", [], FORGET, columns=0)
