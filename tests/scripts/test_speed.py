"""The table that compares the flat codebook with the tree."""

from pathlib import Path

from rich.console import Console

ROOT = Path(__file__).parents[2]


def test_flat_against_tree(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    from benchmarks.speed import Speed, tree_table

    console = Console(width=100, record=True)
    console.print(tree_table(Speed(total_timesteps=500, tree_cells=(200,))))
    rows = [line.split("│") for line in console.export_text().splitlines() if "│" in line]
    assert [row[1].strip() for row in rows] == ["linear", "constant"]
    for row in rows:
        cells, distances, _, cells_on_tree, distances_on_tree = (float(n) for n in _numbers(row[2:7]))
        assert cells == distances
        assert abs(cells_on_tree - cells) < 20
        assert 10 < distances_on_tree < 0.5 * cells_on_tree


def _numbers(texts):
    return [text.strip().replace(",", "") for text in texts]
