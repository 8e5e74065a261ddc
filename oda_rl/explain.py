"""The public path of reading models: text, rules, tables and pictures."""

from oda_rl.inspect import (
    CellReport,
    Explanation,
    Step,
    errors,
    explain,
    plot_path,
    plot_tree,
    report,
    rules,
    rules_text,
    table,
    to_csv,
    to_pandas,
    tree_text,
)

__all__ = [
    "CellReport",
    "Explanation",
    "Step",
    "errors",
    "explain",
    "plot_path",
    "plot_tree",
    "report",
    "rules",
    "rules_text",
    "table",
    "to_csv",
    "to_pandas",
    "tree_text",
]
