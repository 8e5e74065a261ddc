"""The one table: text, Markdown, CSV, a data frame."""

import csv

import numpy as np
import pytest

from oda_rl.inspect.table import WIDTH, Table, numbers, percent


def test_numbers_have_the_decimals_that_their_column_needs():
    assert numbers([0.123456, -0.0001]) == ["0.123", "0.000"]
    assert numbers([1234.5, 2.0]) == ["1234", "2"]
    assert numbers([99.51, 99.52], size=0.01) == ["99.5100", "99.5200"]
    assert numbers([np.nan, 1e-16]) == ["", "0"]
    assert percent([0.25, np.nan]) == ["25.0 %", ""]


def test_names_of_columns_are_broken_only_where_the_page_is_too_narrow():
    narrow = str(Table("", {"pole velocity (rad/s)": [1.0]}))
    assert narrow.splitlines()[0] == "pole velocity (rad/s)"
    names = [f"a long name of column {i}" for i in range(9)]
    lines = str(Table("wide", {name: [float(i)] for i, name in enumerate(names)})).splitlines()
    assert max(map(len, lines)) <= WIDTH
    assert lines[0] == "wide"
    header = lines[1 : next(i for i, line in enumerate(lines) if line.startswith("─"))]
    words = sorted(" ".join(header).split())
    assert words == sorted(" ".join(names).split())


def test_words_stand_to_the_left_and_numbers_to_the_right():
    lines = str(Table("t", {"what": ["a", "long word"], "n": [5, 1000]})).splitlines()
    assert lines[3:] == ["a             5", "long word  1000"]


def test_html_and_line_breaks_are_text_in_markdown():
    text = Table("t", {"<b>": ["x & y", "x\ny"], "a\r\nb": ["a > 0", "<!--"]}).to_markdown()
    assert text.splitlines() == [
        "| &lt;b&gt; | a b |",
        "| --- | --- |",
        "| x &amp; y | a &gt; 0 |",
        "| x y | &lt;!-- |",
    ]


def test_markdown_escapes_and_a_table_without_rows():
    text = Table("t", {"a|b": ["x|y"], "n": [2]}).to_markdown()
    assert text.splitlines() == [r"| a\|b | n |", "| --- | ---: |", r"| x\|y | 2 |"]
    assert Table("t", {"a": []}).to_markdown() == "| a |\n| --- |"
    assert str(Table("t", {"a": []})) == "t\na\n─"


def test_files_have_all_digits(tmp_path):
    table = Table("t", {"x": np.array([1.0 / 3.0, 2.0]), "name": ["a", "b"]}, {"x": percent})
    assert table.rows[0] == ["33.3 %", "a"]
    with open(table.to_csv(tmp_path / "new" / "t.csv")) as file:
        rows = list(csv.DictReader(file))
    assert [float(row["x"]) for row in rows] == [1.0 / 3.0, 2.0]
    pytest.importorskip("pandas")
    assert table.to_pandas("name").loc["a", "x"] == 1.0 / 3.0


def test_the_first_rows():
    table = Table("t", {"x": [1, 2, 3]})
    assert table.head(2)["x"] == [1, 2]
    assert table.head(None, "other").title == "other"
    assert dict(table) == {"x": [1, 2, 3]}
