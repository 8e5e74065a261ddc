"""How Sphinx builds these pages: `make docs`. Nothing that a page shows comes from a network."""

import os
import re
from importlib.metadata import version as version_of
from pathlib import Path
from typing import Any

from numpydoc.docscrape_sphinx import SphinxDocString

# The pages that document the environments and the agents import them: no windows, no compiling ahead
os.environ.setdefault("SDL_VIDEODRIVER", "dummy")

project = "oda_rl"
author = "the maintainers of oda_rl"
release = version = version_of("oda_rl")
html_title = f"oda_rl {release}"
html_show_sphinx = False
html_show_copyright = False

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "sphinx.ext.mathjax",
    "sphinx.ext.viewcode",
    "sphinx-mathjax-offline",  # MathJax in the pages' own folder
    "sphinx_copybutton",
]
root_doc = "index"
source_suffix = {".md": "myst-nb", ".ipynb": "myst-nb", ".rst": "restructuredtext"}
exclude_patterns = ["_build"]
suppress_warnings = ["myst.header"]  # a part of the README begins with its own second level

myst_enable_extensions = ["dollarmath", "colon_fence", "deflist"]
myst_heading_anchors = 3

# Notebooks are run when they have changed; what they show is kept
nb_execution_mode = "cache"
nb_execution_cache_path = str(Path(__file__).parents[1] / "build" / "notebooks")
nb_execution_in_temp = True
nb_execution_raise_on_error = True
nb_execution_timeout = 600
nb_merge_streams = True

html_theme = "furo"
html_static_path = ["_static"]
html_css_files = ["wide.css"]
html_theme_options = {"sidebar_hide_name": False}
pygments_style = "tango"
pygments_dark_style = "monokai"
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

# Docstrings are numpydoc's sections around plain text, with `names` as code
default_role = "code"
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False
numpydoc_xref_param_type = False
autosummary_generate = True
autodoc_default_options = {"members": True, "inherited-members": True}
autodoc_member_order = "bysource"
autodoc_typehints = "none"  # types are in the docstrings, with shapes and units
autodoc_preserve_defaults = True
templates_path = ["_templates"]


process_param = SphinxDocString._process_param


def keep_description(self: Any, name: str, description: list[str], linked: bool) -> tuple[Any, Any]:
    """What the class says of an attribute, where numpydoc would take the first line of a property."""
    shown, summary = process_param(self, name, description, linked)
    return shown, description or summary


SphinxDocString._process_param = keep_description

MARKUP = re.compile(r"(?<=\w)_(?=[,)])|\*(?=\w[\w ]*\))|\|")


def drop_foreign(app: Any, kind: str, name: str, obj: Any, skip: bool, options: Any) -> bool | None:
    """Leave out what other packages' classes bring along, and fields that the class itself describes."""
    function = getattr(obj, "fget", obj)
    if type(function).__name__ == "_tuplegetter":
        return True
    if not callable(function):
        return None
    own = (getattr(function, "__module__", None) or "").split(".")[0] == "oda_rl"
    return None if own and hasattr(function, "__code__") else True


def escape_markup(app: Any, kind: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Take `n_features_in_`, `*shape` and `|` of plain text for what they are, not for markup."""
    for i, line in enumerate(lines):
        plain = re.split(r"(`[^`]*`)", line)
        plain[::2] = [MARKUP.sub(r"\\\g<0>", part) for part in plain[::2]]
        if not line.lstrip().startswith((">>>", "...")):
            lines[i] = "".join(plain)


def setup(app: Any) -> None:
    """What Sphinx calls."""
    app.connect("autodoc-skip-member", drop_foreign)
    app.connect("autodoc-process-docstring", escape_markup, priority=100)  # before numpydoc
