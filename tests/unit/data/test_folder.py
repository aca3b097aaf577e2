from __future__ import annotations

import io
import struct
import zlib

import numpy as np
import pytest
from PIL import Image

from expunge._errors import DataError
from expunge.data import load
from expunge.data._folder import load_folder


def paint(path, colour=(10, 20, 30), size=(6, 4), mode="RGB"):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new(mode, size, colour).save(path)


def plant(root):
    """Two classes under train and test; pixels tell the images apart."""
    for part, count in (("train", 3), ("test", 1)):
        for label, name in enumerate(("ant", "bee")):
            for number in range(count):
                paint(root / part / name / f"{number}.png", (number, label, 99))
    return root


def test_folders_are_classes_and_paths_are_names(tmp_path):
    train, test, _ = load_folder(plant(tmp_path))
    assert train.classes == test.classes == ("ant", "bee")
    assert train.labels.tolist() == [0, 0, 0, 1, 1, 1]
    assert train.names[4] == "train/bee/1.png"
    assert train.shape == (3, 4, 6)
    assert train.images[4, :, 0, 0].tolist() == [1, 1, 99]
    assert test.names == ("test/ant/0.png", "test/bee/0.png")


def test_without_parts_a_fifth_of_every_class_is_test(tmp_path):
    for name in ("ant", "bee"):
        for number in range(10):
            paint(tmp_path / name / f"{number}.png")
    assert load_folder(tmp_path)[1:] == (None, None)
    splits = load(f"folder:{tmp_path}", val_fraction=0.0)
    train, test = splits.train, splits.test
    assert (len(train), len(test)) == (16, 4)
    assert test.labels.tolist() == [0, 0, 1, 1]
    assert not set(train.names) & set(test.names)
    assert load(f"folder:{tmp_path}").test.names == test.names


@pytest.mark.parametrize("suffix", ["jpg", "jpeg", "PNG", "bmp", "webp", "gif", "ppm"])
def test_the_usual_formats_are_read(tmp_path, suffix):
    paint(tmp_path / "train" / "a" / f"x.{suffix}", (200, 100, 50))
    paint(tmp_path / "test" / "a" / f"x.{suffix}", (200, 100, 50))
    train, *_ = load_folder(tmp_path)
    assert np.abs(train.images[0, :, 0, 0].numpy().astype(int) - [200, 100, 50]).max() < 6


def test_all_images_take_the_size_of_the_first_of_train(tmp_path):
    plant(tmp_path)
    paint(tmp_path / "train" / "bee" / "9.png", size=(20, 30))
    paint(tmp_path / "test" / "ant" / "0.png", size=(20, 30))
    assert load_folder(tmp_path)[0].shape == (3, 4, 6)
    assert load_folder(tmp_path)[1].shape == (3, 4, 6)


def test_grey_stays_grey_only_if_all_are(tmp_path):
    for part in ("train", "test"):
        paint(tmp_path / part / "a" / "x.png", 77, mode="L")
    train, *_ = load_folder(tmp_path)
    assert train.shape == (1, 4, 6)
    assert train.images.unique().tolist() == [77]
    paint(tmp_path / "test" / "a" / "y.png")
    train, *_ = load_folder(tmp_path)
    assert train.images[0, :, 0, 0].tolist() == [77, 77, 77]


def test_deep_grey_is_scaled_and_not_clipped(tmp_path):
    for part in ("train", "test"):
        (tmp_path / part / "a").mkdir(parents=True)
        deep = np.full((4, 6), 0x8000, np.uint16)
        Image.fromarray(deep).save(tmp_path / part / "a" / "x.png")
    assert load_folder(tmp_path)[0].images.unique().tolist() == [0x80]


def test_palettes_and_transparency_are_flattened(tmp_path):
    for part in ("train", "test"):
        paint(tmp_path / part / "a" / "x.png", (9, 8, 7, 255), mode="RGBA")
        image = Image.new("RGB", (6, 4), (9, 8, 7)).quantize(4)
        image.save(tmp_path / part / "a" / "y.png", transparency=b"\x80\x80\x80\x80")
    train, *_ = load_folder(tmp_path)
    assert train.images[:, :, 0, 0].tolist() == [[9, 8, 7]] * 2


def test_other_files_are_passed_over(tmp_path):
    plant(tmp_path)
    (tmp_path / "README.md").write_text("hello")
    (tmp_path / "train" / "ant" / ".hidden.png").write_text("no image")
    assert len(load_folder(tmp_path)[0]) == 6


def test_links_to_images_are_followed_and_links_to_nowhere_refused(tmp_path):
    plant(tmp_path / "here")
    (tmp_path / "here/train/ant/linked.png").symlink_to(tmp_path / "here/train/bee/0.png")
    (tmp_path / "here/train/ant/notes").symlink_to(tmp_path / "nowhere")
    assert len(load_folder(tmp_path / "here")[0]) == 7
    for name in ("ant/gone.png", "bee/lost.png"):
        (tmp_path / "here/train" / name).symlink_to(tmp_path / "nowhere.png")
    complaint = r"got .*train/ant/gone\.png, a link to .*nowhere\.png, and 1 more such\)"
    with pytest.raises(DataError, match=complaint):
        load_folder(tmp_path / "here")


def test_a_class_that_is_a_link_to_a_folder_is_not_left_out(tmp_path):
    plant(tmp_path / "here")
    (tmp_path / "here/train/cat").symlink_to(tmp_path / "here/train/ant")
    with pytest.raises(DataError, match=r"train/cat, a link to .*ant, and 0 more such"):
        load_folder(tmp_path / "here")


def test_a_validation_folder_is_read_if_there_is_one(tmp_path):
    plant(tmp_path)
    assert load_folder(tmp_path)[2] is None
    paint(tmp_path / "val" / "bee" / "0.png", size=(9, 9))
    val = load_folder(tmp_path)[2]
    assert val.labels.tolist() == [1]
    assert val.shape == (3, 4, 6)


def test_a_class_that_only_test_has_is_named(tmp_path):
    paint(plant(tmp_path) / "test" / "wasp" / "0.png")
    with pytest.raises(DataError, match="'wasp' that train lacks"):
        load_folder(tmp_path)


@pytest.mark.parametrize("damage", [b"", b"no image at all"])
def test_a_broken_image_is_named(tmp_path, damage):
    (plant(tmp_path) / "train" / "bee" / "1.png").write_bytes(damage)
    with pytest.raises(DataError, match=r"train/bee/1\.png is not a readable image"):
        load_folder(tmp_path)


def test_a_truncated_image_is_named(tmp_path):
    path = plant(tmp_path) / "train" / "bee" / "1.png"
    noise = np.random.default_rng(0).integers(0, 256, (40, 40, 3), np.uint8)
    Image.fromarray(noise).save(path)
    path.write_bytes(path.read_bytes()[:-1000])
    with pytest.raises(DataError, match=r"train/bee/1\.png is not a readable image"):
        load_folder(tmp_path)


@pytest.mark.filterwarnings("ignore")  # the guard must not hang on the caller's filters
@pytest.mark.parametrize("side", [12_000, 60_000])
def test_an_image_that_would_explode_is_named(tmp_path, side):
    def chunk(kind, data):
        return (
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        )

    header = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    bomb = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b""))
    (plant(tmp_path) / "train" / "bee" / "1.png").write_bytes(bomb)
    with pytest.raises(DataError, match=r"train/bee/1\.png would unpack to more pixels"):
        load_folder(tmp_path)


@pytest.mark.parametrize("other", ["TIFF", "PCX", "ICO"])
def test_another_format_posing_as_an_image_is_refused(tmp_path, other):
    buffer = io.BytesIO()
    Image.new("RGB", (16, 16)).save(buffer, other)
    (plant(tmp_path) / "train" / "bee" / "1.png").write_bytes(buffer.getvalue())
    with pytest.raises(DataError, match="not a readable image"):
        load_folder(tmp_path)


def test_a_tree_of_another_shape_is_refused(tmp_path):
    with pytest.raises(DataError, match="There are no images"):
        load_folder(tmp_path)
    paint(tmp_path / "stray.png")
    with pytest.raises(DataError, match=r"stray\.png should be in the folder of its class"):
        load_folder(tmp_path)
    (tmp_path / "stray.png").unlink()
    paint(tmp_path / "train" / "ant" / "0.png")
    with pytest.raises(DataError, match=r"train, test and possibly val\. \(got train\)"):
        load_folder(tmp_path)
    with pytest.raises(DataError, match=r"nowhere should be a folder of images"):
        load_folder(tmp_path / "nowhere")
