"""What is compiled ahead."""

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
