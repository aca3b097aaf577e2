from __future__ import annotations

import io
import os
import pickle
import struct
import tarfile

import numpy as np
import pytest

from expunge._errors import DataError
from expunge.data import _cifar as cifar
from expunge.data import _cifar10 as cifar10
from expunge.data._cifar10 import TEST, TRAIN, load_cifar10

RECORDS = 7


@pytest.fixture(autouse=True)
def small_batches(monkeypatch):
    monkeypatch.setattr(cifar10, "RECORDS", RECORDS)


def batch_of(name):
    rng = np.random.default_rng(len(name) + ord(name[-1]))
    return rng.integers(0, 256, (RECORDS, 3072), np.uint8), rng.integers(0, 10, RECORDS).tolist()


def binary(name):
    pixels, labels = batch_of(name)
    return np.column_stack((np.array(labels, np.uint8), pixels)).tobytes()


def python3(name):
    pixels, labels = batch_of(name)
    names = [f"{name}_{i}.png" for i in range(RECORDS)]
    content = {b"data": pixels, b"labels": labels, b"filenames": names}
    return pickle.dumps(content, protocol=2)


def python2(name):
    """The opcodes of the official files: written by Python 2 and numpy 1, protocol 2."""

    def string(value):
        return b"T" + struct.pack("<i", len(value)) + value

    pixels, labels = batch_of(name)
    array = (
        b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R"
        b"(K\x01K" + bytes([RECORDS]) + b"M\x00\x0c\x86"
        b"cnumpy\ndtype\nU\x02u1K\x00K\x01\x87R(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
        b"\x89" + string(pixels.tobytes()) + b"tb"
    )
    names = b"".join(string(f"{name}_{i}.png".encode()) for i in range(RECORDS))
    items = {
        b"data": array,
        b"labels": b"](" + b"".join(b"K" + bytes([label]) for label in labels) + b"e",
        b"filenames": b"](" + names + b"e",
    }
    pairs = b"".join(string(key) + value for key, value in items.items())
    return b"\x80\x02}(" + pairs + b"u."


VERSIONS = {
    "binary": (binary, ".bin", "cifar-10-batches-bin", "cifar-10-binary.tar.gz"),
    "python2": (python2, "", "cifar-10-batches-py", "cifar-10-python.tar.gz"),
    "python3": (python3, "", "cifar-10-batches-py", "cifar-10-python.tar.gz"),
}


def files_of(version):
    write, suffix, folder, _ = VERSIONS[version]
    return {f"{folder}/{name}{suffix}": write(name) for name in TRAIN + TEST}


def unpack(root, version):
    for name, data in files_of(version).items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return path.parent


def pack(root, version, extra=()):
    path = root / VERSIONS[version][3]
    with tarfile.open(path, "w:gz") as archive:
        for name, data in [*files_of(version).items(), *extra]:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return path


def assert_read(pair):
    train, test = pair
    assert len(train) == 5 * RECORDS
    pixels, labels = batch_of("data_batch_2")
    assert train.labels[RECORDS : 2 * RECORDS].tolist() == labels
    assert train.images[RECORDS].numpy().tobytes() == pixels[0].tobytes()
    assert test.labels.tolist() == batch_of("test_batch")[1]
    assert train.shape == (3, 32, 32)
    assert train.classes[3] == "cat"


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("make", [unpack, pack])
def test_every_official_form_is_read_from_itself_or_the_folder_around_it(tmp_path, make, version):
    place = make(tmp_path, version)
    assert_read(load_cifar10(place))
    assert_read(load_cifar10(tmp_path))


def test_only_the_python_version_has_names(tmp_path):
    train, _ = load_cifar10(pack(tmp_path, "python2"))
    assert train.names[RECORDS] == "data_batch_2_0.png"
    assert load_cifar10(pack(tmp_path, "binary"))[0].names is None


def test_truncated_batch_is_named(tmp_path):
    batch = unpack(tmp_path, "binary") / "data_batch_3.bin"
    batch.write_bytes(batch.read_bytes()[:-5])
    size = RECORDS * 3073
    with pytest.raises(DataError, match=rf"data_batch_3\.bin should be {size} .*got {size - 5}"):
        load_cifar10(tmp_path)


def test_missing_batch_is_named(tmp_path):
    (unpack(tmp_path, "binary") / "test_batch.bin").unlink()
    with pytest.raises(DataError, match="lacks the batch test_batch"):
        load_cifar10(tmp_path)


def test_a_label_beyond_nine_is_damage(tmp_path):
    batch = unpack(tmp_path, "binary") / "data_batch_1.bin"
    batch.write_bytes(b"\x0c" + batch.read_bytes()[1:])
    with pytest.raises(DataError, match="got 12 at index 0"):
        load_cifar10(tmp_path)


class Malicious:
    def __init__(self, call, *arguments):
        self.answer = call, arguments

    def __reduce__(self):
        return self.answer


@pytest.mark.parametrize(
    "payload",
    [
        Malicious(os.system, "touch {}"),
        Malicious(eval, "open('{}', 'w')"),
        Malicious(open, "{}", "w"),
        Malicious(np.save, "{}", 1),
    ],
)
@pytest.mark.parametrize("protocol", [0, 2, 4])
def test_a_malicious_pickle_is_refused_before_it_runs(tmp_path, payload, protocol):
    mark = tmp_path / "mark"
    call, arguments = payload.answer
    filled = [a.format(mark) if isinstance(a, str) else a for a in arguments]
    batch = unpack(tmp_path, "python2") / "data_batch_1"
    batch.write_bytes(pickle.dumps({"data": Malicious(call, *filled)}, protocol))
    with pytest.raises(DataError, match=r"data_batch_1 .*which no official batch does"):
        load_cifar10(tmp_path)
    assert not list(tmp_path.glob("mark*"))


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"not a pickle",
        pickle.dumps([1, 2]),
        pickle.dumps({"labels": [1]}),
        pickle.dumps({"data": np.zeros((7, 3072), np.uint16), "labels": [0] * 7}, protocol=2),
        pickle.dumps({"data": np.zeros((7, 3000), np.uint8), "labels": [0] * 7}, protocol=2),
        pickle.dumps({"data": np.zeros((7, 3072), np.uint8), "labels": [0] * 6}, protocol=2),
        python3("data_batch_1")[:-200],
        b"\x80\x02c_codecs\nencode\nX\x01\x00\x00\x00aX\x05\x00\x00\x00rot13\x86R.",
        b"\x80\x02K\x01Q.",
    ],
)
def test_a_damaged_python_batch_is_named(tmp_path, content):
    (unpack(tmp_path, "python2") / "data_batch_1").write_bytes(content)
    with pytest.raises(DataError, match="data_batch_1"):
        load_cifar10(tmp_path)


def test_an_archive_cut_short_is_damage(tmp_path):
    path = pack(tmp_path, "binary")
    path.write_bytes(path.read_bytes()[:20000])
    with pytest.raises(DataError, match="Get a fresh copy"):
        load_cifar10(path)


def test_other_members_of_the_archive_are_not_read(tmp_path):
    bait = ("elsewhere/data_batch_1.bin", b"short")
    assert_read(load_cifar10(pack(tmp_path, "binary", [bait])))


def test_a_folder_without_cifar_says_what_it_should_hold(tmp_path):
    with pytest.raises(DataError, match=r"cifar-10-batches-bin.*cifar-10-python\.tar\.gz"):
        load_cifar10(tmp_path)


def test_without_a_root_the_cache_is_searched(tmp_path, monkeypatch):
    monkeypatch.setenv("EXPUNGE_CACHE", str(tmp_path))
    pack(tmp_path, "python2")
    assert_read(load_cifar10())


def test_without_a_copy_the_binary_archive_is_fetched(tmp_path, monkeypatch):
    asked = []

    def fetch(url, path, md5):
        asked.append((url, md5))
        return pack(path.parent, "binary")

    monkeypatch.setenv("EXPUNGE_CACHE", str(tmp_path))
    monkeypatch.setattr(cifar, "fetch", fetch)
    assert_read(load_cifar10())
    url = "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz"
    assert asked == [(url, "c32a1d4ab5d03f1284b67883e8d87530")]
