"""Names of cells: the numbers of the children on the way from the root, such as 0.2.1."""

from typing import Any

from oda_rl.estimators.tree.tree import Cell, Tree


def name_of(tree: Tree, cell: Cell) -> str:
    """The name of a cell: "0" for the root, "0.2" for its third child.

    (Section V-A of Mavridis and Baras, "Multi-Resolution Online Deterministic Annealing", names nodes by
    their unique paths from the root.)
    """
    return ".".join(str(number) for number in (0, *tree.numbers(cell)))


def cell_of(tree: Tree, name: Any) -> Cell:
    """The cell of a name; raises a ValueError that says where the way ends.

    Parameters
    ----------
    tree : Tree
        The cells.
    name : str, Cell or sequence of int
        Such as "0.2.1", or the numbers after the root.
    """
    if isinstance(name, Cell):
        numbers = tree.numbers(name) if _exists(tree, name) else None
    elif isinstance(name, str):
        parts = name.split(".")
        valid = parts[0] == "0" and all(part.isdigit() for part in parts)
        numbers = tuple(int(part) for part in parts[1:]) if valid else None
    else:
        numbers = tuple(int(number) for number in name)
    if numbers is None:
        raise ValueError(f"cell must be a name such as '0' or '0.2.1', got {name!r}.")
    cell = Cell(0, 0)
    for number in numbers:
        children = tree.children(cell)
        if not 0 <= number < len(children):
            raise ValueError(
                f"there is no cell {name!r}: {name_of(tree, cell)} has {len(children)} children."
            )
        cell = children[number]
    return cell


def _exists(tree: Tree, cell: Cell) -> bool:
    return 0 <= cell.layer < len(tree.layers) and 0 <= cell.number < len(tree.layers[cell.layer])
