import contextlib
import io
import json
import os
import zipfile

import numpy as np
import pytest
from model_files import rewritten, with_header

from oda_rl import (
    KernelSGDClassifier,
    KernelSGDRegressor,
    MultiResolutionODA,
    ODAClassifier,
    ODAPartition,
    ODARegressor,
    storage,
)
from oda_rl._schema import anything

STATE = {
    "gamma": 0.99,
    "big": 2**100,
    "nothing": None,
    "flag": True,
    "history": [[1, 2.5, "x"], {"q": np.arange(6.0).reshape(2, 3)}],
    "book": {"n": np.array([1, 2]), "empty": np.empty((0, 3)), "used": np.array([True, False])},
}


def save(path):
    return storage.save(path, "Thing", STATE)


def load(path, kind="Thing", schema=anything):
    return storage.load(path, kind, schema)


def test_round_trip(tmp_path):
    assert save(tmp_path / "deep" / "model") == tmp_path / "deep" / "model.npz"
    for name in ("model", "model.npz"):
        state = load(tmp_path / "deep" / name, "Thing")
        assert state.keys() == STATE.keys()
        assert [state[key] for key in ("big", "nothing", "flag")] == [2**100, None, True]
        assert state["history"][0] == [1, 2.5, "x"]
        np.testing.assert_array_equal(state["history"][1]["q"], STATE["history"][1]["q"])
        for key, array in STATE["book"].items():
            assert state["book"][key].dtype == array.dtype
            np.testing.assert_array_equal(state["book"][key], array)
    assert os.listdir(tmp_path / "deep") == ["model.npz"]


def test_arrays_keep_their_order_and_can_be_written(tmp_path):
    q = np.asfortranarray(np.arange(6.0).reshape(2, 3))
    state = load(storage.save(tmp_path / "x", "Thing", {"q": q, "cut": q[:, ::2]}), "Thing")
    assert state["q"].flags.f_contiguous
    assert state["q"].flags.writeable
    np.testing.assert_array_equal(state["q"], q)
    np.testing.assert_array_equal(state["cut"], q[:, ::2])


@pytest.mark.parametrize(
    "value",
    [
        (1, ("a", [2.5, (True,)])),
        slice(1, None, 2),
        {1: "one", False: 2, "x": {None: (3,)}},
        {"__tuple__": [1], "__array__": 2},
        np.array(["a", None, 3, True], dtype=object),
    ],
    ids=str,
)
def test_values_that_json_does_not_know(tmp_path, value):
    found = load(storage.save(tmp_path / "x", "Thing", {"value": value}), "Thing")["value"]
    assert type(found) is type(value)
    assert repr(found) == repr(value)


def test_arrays_in_tuples_and_under_numbers(tmp_path):
    state = {"pairs": (np.arange(2), np.arange(3)), "by number": {7: np.ones(1)}}
    found = load(storage.save(tmp_path / "x", "Thing", state), "Thing")
    np.testing.assert_array_equal(found["pairs"][1], [0, 1, 2])
    assert found["by number"][7] == 1.0


def test_numpy_reads_the_arrays_and_the_same_state_gives_the_same_bytes(tmp_path):
    path = save(tmp_path / "model")
    with np.load(path, allow_pickle=False) as content:
        np.testing.assert_array_equal(content["book/n"], [1, 2])
        assert json.loads(content["header.json"])["kind"] == "Thing"
    assert path.read_bytes() == save(tmp_path / "other").read_bytes()


def test_random_streams_go_on(tmp_path):
    rng, again = np.random.default_rng(3), np.random.default_rng()
    path = storage.save(tmp_path / "x", "Thing", {"rng": rng.bit_generator.state})
    again.bit_generator.state = load(path, "Thing")["rng"]
    assert again.random() == rng.random()


def test_kind_of(tmp_path):
    assert storage.kind_of(save(tmp_path / "model")) == "Thing"
    with pytest.raises(FileNotFoundError, match="no model file"):
        storage.kind_of(tmp_path / "nothing")


def test_binary_files():
    buffer = io.BytesIO()
    storage.save(buffer, "Thing", STATE)
    buffer.seek(0)
    assert storage.kind_of(buffer) == "Thing"
    assert load(buffer, "Thing")["gamma"] == 0.99


def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch):
    path = save(tmp_path / "model")
    before = path.read_bytes()

    def fail(*args, **kwargs):
        raise OSError("disk full")

    monkeypatch.setattr(np.lib.format, "write_array", fail)
    with pytest.raises(OSError, match="disk full"):
        save(path)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["model.npz"]


@pytest.mark.parametrize(
    "value", [np.array([{}]), {1, 2}, object(), np.zeros(2, "M8[s]"), np.array([["a"]], dtype=object)]
)
def test_only_plain_values_are_stored(tmp_path, value):
    with pytest.raises(TypeError, match="'part/bad'"):
        storage.save(tmp_path / "x", "Thing", {"part": {"bad": value}})
    assert not os.listdir(tmp_path)


def test_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError, match="no model file"):
        load(tmp_path / "nothing", "Thing")


@pytest.mark.parametrize("fraction", [0.0, 0.3, 0.6, 0.99])
def test_truncated_file(tmp_path, fraction):
    path = save(tmp_path / "model")
    content = path.read_bytes()
    path.write_bytes(content[: int(fraction * len(content))])
    with pytest.raises(ValueError, match="damaged, perhaps truncated"):
        load(path, "Thing")


def test_no_flipped_bit_changes_what_is_read(tmp_path):
    path = save(tmp_path / "model")
    content = bytearray(path.read_bytes())
    rng = np.random.default_rng(0)
    for place in rng.integers(8 * len(content), size=300):
        content[place // 8] ^= 1 << place % 8
        path.write_bytes(bytes(content))
        with contextlib.suppress(ValueError):  # anything else would be an error of the gate
            state = load(path, "Thing")
            np.testing.assert_array_equal(state["history"][1]["q"], np.arange(6.0).reshape(2, 3))
            assert state["big"] == 2**100
        content[place // 8] ^= 1 << place % 8


def test_foreign_files(tmp_path):
    text = tmp_path / "notes.npz"
    text.write_text("hello, this is not a model")
    archive = tmp_path / "sb3.zip"
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("data", "{}")
    plain = tmp_path / "plain.npz"
    np.savez(plain, q=np.zeros(3))
    other = with_header(save(tmp_path / "other"), lambda header: {"format": "else"})
    listed = with_header(save(tmp_path / "listed"), lambda header: [header])
    for path in (text, archive, plain, other, listed):
        with pytest.raises(ValueError, match="not a model file of oda_rl"):
            load(path, "Thing")


def test_pickles_are_not_read(tmp_path):
    header = {"format": "oda_rl", "version": storage.VERSION, "kind": "Thing"}
    header["state"] = {"q": {"__array__": ["|O", [1]]}}
    path = tmp_path / "evil.npz"
    np.savez(path, q=np.array([{"run": "me"}], dtype=object))
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("header.json", json.dumps(header))
    with pytest.raises(ValueError, match=r"damaged.*'q' is declared as an invalid array"):
        load(path, "Thing")


@pytest.mark.parametrize(
    ("version", "message"),
    [
        (storage.VERSION + 1, "cannot be loaded: .* newer version of oda_rl: upgrade"),
        (storage.VERSION - 1, "cannot be loaded: .* earlier version of oda_rl: train the model again"),
    ]
    + [(value, "invalid format version") for value in (0, -1, True, "2", 2.0, None)],
)
def test_versions_are_exact(tmp_path, version, message):
    path = with_header(save(tmp_path / "x"), lambda header: header | {"version": version})
    with pytest.raises(ValueError, match=message):
        load(path, "Thing")


def test_files_of_version_1_are_refused_with_a_word(tmp_path):
    header = {"format": "oda_rl", "version": 1, "kind": "Thing", "config": {}}
    path = tmp_path / "old.npz"
    np.savez(path, header=np.frombuffer(json.dumps(header).encode(), dtype=np.uint8))
    with pytest.raises(
        ValueError, match=r"old\.npz .*version is 1 instead of .* from an earlier version"
    ):
        load(path, "Thing")


def test_other_kind(tmp_path):
    path = save(tmp_path / "model")
    with pytest.raises(ValueError, match="contains a Thing, not a Gadget"):
        load(path, "Gadget")


@pytest.mark.parametrize("state", [None, [], 3])
def test_a_header_without_a_state(tmp_path, state):
    path = with_header(save(tmp_path / "x"), lambda header: header | {"state": state})
    with pytest.raises(ValueError, match=r"x\.npz is damaged"):
        load(path, "Thing")


def test_deep_nesting_is_refused(tmp_path):
    def nest(entries):
        head = entries["header.json"].split(b'"state": ')[0]
        entries["header.json"] = head + b'"state": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"

    path = rewritten(save(tmp_path / "x"), nest)
    with pytest.raises(ValueError, match=r"x\.npz .*nested too deep"):
        load(path, "Thing")


def test_missing_and_unknown_entries(tmp_path):
    missing = rewritten(save(tmp_path / "a"), lambda entries: entries.pop("book/n.npy") and None)
    with pytest.raises(ValueError, match=r"a\.npz .*no entry book/n\.npy"):
        load(missing, "Thing")
    more = rewritten(save(tmp_path / "b"), lambda entries: entries | {"more.npy": b""})
    with pytest.raises(ValueError, match=r"b\.npz .*more\.npy"):
        load(more, "Thing")


@pytest.mark.parametrize("shape", [[10**10], [3, 3], [-2, -3], [True, 6], 6, ["2", 3]])
def test_claims_of_other_shapes_are_refused(tmp_path, shape):
    def claim(header):
        header["state"]["history"][1]["q"]["__array__"][1] = shape
        return header

    path = with_header(save(tmp_path / "x"), claim)
    with pytest.raises(ValueError, match=r"x\.npz is damaged.*history/1/q"):
        load(path, "Thing")


def test_giant_claims_are_refused_before_anything_is_allocated(tmp_path):
    forged = io.BytesIO()
    giant = (10**9,)
    np.lib.format.write_array_header_1_0(
        forged, {"descr": "<f8", "fortran_order": False, "shape": giant}
    )

    def claim(entries):
        header = json.loads(entries["header.json"])
        header["state"]["history"][1]["q"]["__array__"][1] = giant
        entries["header.json"] = json.dumps(header).encode()
        entries["history/1/q.npy"] = forged.getvalue()

    path = rewritten(save(tmp_path / "x"), claim)
    with pytest.raises(ValueError, match=r"x\.npz is damaged.*history/1/q does not have the size"):
        load(path, "Thing")


def test_what_unpacks_to_too_much_is_neither_written_nor_read(tmp_path, monkeypatch):
    path = storage.save(tmp_path / "x", "Thing", {"zeros": np.zeros(10_000)})
    monkeypatch.setattr("oda_rl._archive.MAX_BYTES", 50_000)
    with pytest.raises(ValueError, match=r"x\.npz .*claims 8\d+ bytes"):
        load(path, "Thing")
    monkeypatch.setattr(storage, "MAX_BYTES", 50_000)
    with pytest.raises(ValueError, match="at most 50000 bytes"):
        storage.save(path, "Thing", {"zeros": np.zeros(10_000)})


def test_truth_values_are_zero_or_one(tmp_path):
    def edit(entries):
        entries["book/used.npy"] = entries["book/used.npy"][:-1] + b"\x07"

    path = rewritten(save(tmp_path / "x"), edit)
    with pytest.raises(ValueError, match="booleans"):
        load(path, "Thing")


def test_keys_that_would_make_a_dictionary_slow_are_refused(tmp_path):
    path = storage.save(
        tmp_path / "weights", "Thing", {"class_weight": dict.fromkeys(range(20000), 1.0)}
    )
    assert len(load(path)["class_weight"]) == 20_000
    alike = [[i * (2**61 - 1), 1.0] for i in range(20_000)]  # all have the hash 0
    edited = {"class_weight": {"__pairs__": alike}}
    with pytest.raises(storage.ModelFileError, match="'class_weight' is an invalid __pairs__"):
        load(with_header(path, lambda header: {**header, "state": edited}))


WITHOUT = [
    (ODAPartition(6, random_state=0), "fitted/n_distinct"),
    (ODAPartition(6, random_state=0), "counted"),
    (ODAPartition(6, random_state=0), "watch/fitted"),
    (ODAClassifier(6, random_state=0), "session/n_fitted"),
    (ODAClassifier(6, random_state=0), "session/weights"),
    (ODAClassifier(6, random_state=0), "session/mixing"),
    (ODAClassifier(6, random_state=0), "session/choice/power"),
    (ODARegressor(6, random_state=0), "run/n_fitted"),
    (MultiResolutionODA(ODARegressor(6), random_state=0), "session/power"),
    (MultiResolutionODA(ODARegressor(6), random_state=0), "session/bounds"),
    (MultiResolutionODA(ODARegressor(6), random_state=0), "session/layers/0/predicted_loss"),
    (KernelSGDClassifier(random_state=0), "bandwidth"),
    (KernelSGDRegressor(random_state=0), "outputs/center"),
    (KernelSGDRegressor(random_state=0), "outputs/unit"),
]


@pytest.mark.parametrize(("model", "place"), WITHOUT)
def test_a_file_without_an_entry_that_is_always_written_is_refused(model, place, tmp_path):
    """Files of earlier versions, which had other entries, are refused by their version already."""
    X = np.random.default_rng(0).normal(size=(300, 2))
    model.fit(X, np.arange(300) % 2)

    def edit(header):
        *around, name = place.split("/")
        part = header["state"]
        for one in around:
            part = part[int(one) if isinstance(part, list) else one]
        del part[name]
        return header

    path = with_header(model.save(tmp_path / "model"), edit)
    with pytest.raises(storage.ModelFileError, match=f"{place}' is missing"):
        type(model).load(path)


def test_a_stream_that_would_never_go_on_is_refused(tmp_path):
    X = np.random.default_rng(0).normal(size=(300, 2))
    model = ODAClassifier(6, random_state=0).partial_fit(X, X[:, 0] > 0.0)

    def edit(header):
        header["state"]["session"]["rescale_at"] = 7
        return header

    path = with_header(model.save(tmp_path / "model"), edit)
    with pytest.raises(storage.ModelFileError, match=r"rescale_at' is 7; .* n_measured, 300"):
        ODAClassifier.load(path)


def test_a_header_cannot_expand_without_end(tmp_path):
    path = storage.save(tmp_path / "model", "Thing", {"x": [0] * 500_000})
    assert len(load(path)["x"]) == 500_000  # it was not packed
    with zipfile.ZipFile(path) as archive:
        header = archive.read("header.json")
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("header.json", header)
    with pytest.raises(storage.ModelFileError, match=f"header.json claims {len(header)} bytes"):
        load(path)


def test_texts_are_of_letters(tmp_path):
    path = storage.save(tmp_path / "model", "Thing", {"classes": np.array(["left", "right"])})

    def edit(entries):
        letters = entries["classes.npy"]
        entries["classes.npy"] = letters[:-4] + (0x110000).to_bytes(4, "little")

    with pytest.raises(storage.ModelFileError, match="array classes has invalid Unicode"):
        load(rewritten(path, edit))


def test_a_link_stays_one_and_what_is_no_file_is_not_replaced(tmp_path):
    (tmp_path / "link.npz").symlink_to(tmp_path / "model.npz")
    save(tmp_path / "link.npz")
    assert (tmp_path / "link.npz").is_symlink()
    assert load(tmp_path / "model")["big"] == 2**100
    os.mkfifo(tmp_path / "pipe.npz")
    (tmp_path / "folder.npz").mkdir()
    for name in ("pipe.npz", "folder.npz"):
        with pytest.raises(FileExistsError, match=rf"cannot be replaced by one: '.*{name}'"):
            save(tmp_path / name)
    assert len(list(tmp_path.iterdir())) == 4


def test_any_legal_name_can_be_written_and_loops_of_links_are_an_error_of_the_system(tmp_path):
    for name in ("x" * 250 + ".npz", "é" * 125 + ".npz", "x." + "y" * 250):
        assert load(save(tmp_path / name))["big"] == 2**100
    (tmp_path / "loop.npz").symlink_to(tmp_path / "loop.npz")
    with pytest.raises(OSError, match=r"levels of symbolic links: '.*loop\.npz'"):
        save(tmp_path / "loop.npz")
    assert (tmp_path / "loop.npz").is_symlink()
    assert len(list(tmp_path.iterdir())) == 4


def test_the_folder_above_has_no_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for path in (".", "..", tmp_path / ".."):
        with pytest.raises(ValueError, match=r"path must end with the name of a file, got '.*\.?'"):
            save(path)
        with pytest.raises(FileNotFoundError, match="is a folder, not a model file"):
            load(path)
    assert not list(tmp_path.iterdir())


def test_a_pipe_cannot_be_read():
    reading, writing = os.pipe()
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        for read in (load, storage.kind_of):
            with pytest.raises(TypeError, match="path must be a file that can seek, unlike a pipe, got"):
                read(pipe)
