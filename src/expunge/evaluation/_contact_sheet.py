"""A contact sheet: the images of the examples that stand out most, each with its label."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont

from expunge._files import atomic
from expunge._kinds import Count, check_arguments
from expunge.data import ImageSet
from expunge.evaluation._exposure import Exposed

_CELL, _CAPTION, _GAP = 96, 36, 8


def contact_sheet(
    path: str | Path,
    rows: Sequence[Exposed],
    images: ImageSet,
    *,
    title: str = "",
    limit: Count = 40,
    columns: Count = 8,
) -> None:
    """Write a PNG of the first ``limit`` rows; below each image its index, class and exposure.

    ``images`` is the split that the rows' indices count in.
    """
    check_arguments(contact_sheet, locals())
    shown = list(rows)[:limit]
    columns = min(columns, max(len(shown), 3))
    lines = max(1, -(-len(shown) // columns))
    head = 28
    width = _GAP + columns * (_CELL + _GAP)
    sheet = Image.new("RGB", (width, head + lines * (_CELL + _CAPTION + _GAP)), "white")
    draw = ImageDraw.Draw(sheet)
    font = ImageFont.load_default(size=11)
    text = title or "Examples that stand out, the worst first"
    draw.text((_GAP, 8), text if shown else f"{text}: none", fill="black", font=font)
    for place, row in enumerate(shown):
        x = _GAP + place % columns * (_CELL + _GAP)
        y = head + place // columns * (_CELL + _CAPTION + _GAP)
        sheet.paste(_picture(images, row.index), (x, y))
        caption = f"{row.name or f'#{row.index}'} {row.label}"
        draw.text((x, y + _CELL + 2), _fit(draw, caption, font), fill="black", font=font)
        draw.text(
            (x, y + _CELL + 16), f"{row.before:.3f} to {row.after:.3f}", fill="#555555", font=font
        )
    with atomic(path, private=True) as scratch:
        sheet.save(scratch, format="PNG")


def _picture(images: ImageSet, index: int) -> Image.Image:
    pixels = images.images[index].cpu()
    if pixels.shape[0] not in (1, 3):
        pixels = pixels[:1]
    array = pixels.permute(1, 2, 0).numpy()
    picture = Image.fromarray(array[:, :, 0] if array.shape[2] == 1 else array).convert("RGB")
    return picture.resize((_CELL, _CELL), Image.Resampling.NEAREST)


def _fit(
    draw: ImageDraw.ImageDraw, text: str, font: ImageFont.ImageFont | ImageFont.FreeTypeFont
) -> str:
    """``text``, cut where it would run into the next image."""
    while len(text) > 4 and draw.textlength(text, font=font) > _CELL:
        text = text[:-2] + "…"
    return text
