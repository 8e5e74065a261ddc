"""Reading models: trees as text, pictures, rules and tables; why a sample is told what it is told."""

from oda_rl.inspect.cells import CellReport, errors, report
from oda_rl.inspect.pictures import plot_path, plot_tree
from oda_rl.inspect.samples import Explanation, Step, explain
from oda_rl.inspect.tables import table, to_csv, to_pandas
from oda_rl.inspect.texts import rules, rules_text, tree_text

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
