"""What is compiled ahead."""

import importlib

import pytest

from oda_rl import warm


def test_every_part_can_be_compiled(monkeypatch):
    work = warm.find_work()
    assert {"ODAPartition", "environments"} <= work.keys()
    assert warm.timed(*work["ODAPartition"]) > 0.0
    pytest.importorskip("oda_rl.agents", reason="the agents are not installed")
    assert "TwoTimescaleAC on oda_rl/CartPole-v1" in work
    monkeypatch.setattr(warm, "STEPS", 50)
    assert warm.timed(*work["TwoTimescaleQ on FrozenLake-v1"]) > 0.0


def test_what_is_not_there(capsys):
    with pytest.raises(SystemExit):
        warm.main(["--only", "nothing"])
    assert "--only must be the beginning of a part's name" in capsys.readouterr().err


def test_where_nothing_is_compiled_nothing_can_be_compiled_ahead(monkeypatch, capsys):
    monkeypatch.setattr(warm, "DISABLED", True)
    with pytest.raises(SystemExit):
        warm.main([])
    assert "NUMBA_DISABLE_JIT is set" in capsys.readouterr().err


def test_what_cannot_be_stored_is_no_success(tmp_path, monkeypatch, capsys):
    code = "from oda_rl._jit import kernel\n@kernel\ndef double(x):\n    return 2 * x\ndouble(1)\n"
    (tmp_path / "lone_kernel.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(warm, "find_work", lambda: {"lone": (importlib.import_module, ("lone_kernel",))})
    monkeypatch.setenv("HOME", str(tmp_path / "lone_kernel.py"))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    (tmp_path / "__pycache__").write_text("a file in place of a folder")
    assert warm.main(["--jobs", "1"]) == 1
    printed = capsys.readouterr()
    assert f"cannot be stored in {tmp_path / '__pycache__'} (" in printed.err
    assert "NUMBA_CACHE_DIR" in printed.err
    assert "Compiled in" not in printed.out
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "cache"))
    assert warm.main(["--jobs", "1"]) == 0
    assert "Compiled in" in capsys.readouterr().out
