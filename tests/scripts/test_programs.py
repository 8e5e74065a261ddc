"""`scripts/benchmark.py programs`: what its table says of the runs that are kept."""

import json


def test_the_table_of_kept_runs(run, tmp_path):
    code, said = run("benchmark", "programs", "--only-kept", "--log-dir", tmp_path)
    assert code == 0
    assert "No runs are kept" not in said  # the published ones are there
    folder = tmp_path / "MountainCar-v0"
    folder.mkdir(exist_ok=True)
    for seed, (result, numbers) in enumerate([(-101.0, 30), (-99.0, 38), (-150.0, 30), (-100.0, 30)]):
        kept = {"told": {}, "result": result, "numbers": numbers}
        (folder / f"distilled-{seed}.json").write_text(json.dumps(kept))
    code, _ = run("benchmark", "programs", "--only-kept", "--log-dir", tmp_path)
    assert code == 0
    lines = (tmp_path / "programs.md").read_text().splitlines()
    line = next(line for line in lines if "MountainCar-v0 | distilled" in line)
    # the median and the most of the numbers, the mean of the middle half of the returns, the worst
    assert "| 4 | 30 | 38 | -100.5 | -150.0 |" in line
    assert (tmp_path / "programs.png").stat().st_size > 10_000
    assert run("benchmark", "programs", "--env-ids", "Nowhere-v0")[0] == 2
