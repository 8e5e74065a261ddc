import io
import json
import os
import zipfile

import numpy as np
import pytest

from oda_rl import storage

CONFIG = {"gamma": 0.99, "history": [[1, 2.5, "x"]], "big": 2**100}
ARRAYS = {"q": np.arange(6.0).reshape(2, 3), "n": np.array([1, 2])}


def save(path):
    return storage.save(path, "Thing", CONFIG, ARRAYS)


def test_round_trip(tmp_path):
    written = save(tmp_path / "deep" / "model")
    assert written == tmp_path / "deep" / "model.npz"
    for name in ("model", "model.npz"):
        config, arrays = storage.load(tmp_path / "deep" / name, "Thing")
        assert config == CONFIG
        assert arrays.keys() == ARRAYS.keys()
        for key in ARRAYS:
            np.testing.assert_array_equal(arrays[key], ARRAYS[key])
    assert os.listdir(tmp_path / "deep") == ["model.npz"]


def test_kind_of(tmp_path):
    assert storage.kind_of(save(tmp_path / "model")) == "Thing"
    with pytest.raises(FileNotFoundError, match="no model file"):
        storage.kind_of(tmp_path / "nothing")


def test_binary_files():
    buffer = io.BytesIO()
    storage.save(buffer, "Thing", CONFIG, ARRAYS)
    buffer.seek(0)
    assert storage.load(buffer, "Thing")[0] == CONFIG


def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch):
    path = save(tmp_path / "model")
    before = path.read_bytes()

    def fail(*args, **kwargs):
        raise OSError("disk full")

    monkeypatch.setattr(np, "savez_compressed", fail)
    with pytest.raises(OSError, match="disk full"):
        save(path)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["model.npz"]


def test_objects_are_not_stored(tmp_path):
    with pytest.raises(TypeError, match="'bad' holds Python objects"):
        storage.save(tmp_path / "x", "Thing", {}, {"bad": np.array([{}], dtype=object)})


def test_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError, match="no model file"):
        storage.load(tmp_path / "nothing", "Thing")


@pytest.mark.parametrize("fraction", [0.0, 0.3, 0.6, 0.99])
def test_truncated_file(tmp_path, fraction):
    path = save(tmp_path / "model")
    content = path.read_bytes()
    path.write_bytes(content[: int(fraction * len(content))])
    with pytest.raises(ValueError, match="damaged, perhaps truncated"):
        storage.load(path, "Thing")


def test_damaged_file(tmp_path):
    path = save(tmp_path / "model")
    content = bytearray(path.read_bytes())
    content[60:90] = bytes(30)
    path.write_bytes(bytes(content))
    with pytest.raises(ValueError, match="damaged"):
        storage.load(path, "Thing")


def test_foreign_files(tmp_path):
    text = tmp_path / "notes.npz"
    text.write_text("hello, this is not a model")
    archive = tmp_path / "sb3.zip"
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("data", "{}")
    plain = tmp_path / "plain.npz"
    np.savez(plain, q=np.zeros(3))
    other = tmp_path / "other.npz"
    np.savez(other, header=np.frombuffer(b'{"format": "else"}', dtype=np.uint8))
    for path in (text, archive, plain, other):
        with pytest.raises(ValueError, match="not a model file of oda_rl"):
            storage.load(path, "Thing")


def test_pickles_are_not_read(tmp_path):
    path = tmp_path / "evil.npz"
    np.savez(path, header=np.array([{"format": "oda_rl"}], dtype=object))
    with pytest.raises(ValueError, match="not a model file of oda_rl"):
        storage.load(path, "Thing")


def test_newer_file(tmp_path):
    header = {"format": "oda_rl", "version": storage.VERSION + 1, "kind": "Thing", "config": {}}
    path = tmp_path / "new.npz"
    np.savez(path, header=np.frombuffer(json.dumps(header).encode(), dtype=np.uint8))
    with pytest.raises(ValueError, match="newer version of oda_rl"):
        storage.load(path, "Thing")


def test_other_kind(tmp_path):
    path = save(tmp_path / "model")
    with pytest.raises(ValueError, match="holds a Thing, not a Gadget"):
        storage.load(path, "Gadget")
