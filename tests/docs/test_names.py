"""Every name in the pages of the documentation and the README exists, and takes the values told."""

import functools
import importlib
import inspect
import re
from pathlib import Path

import pytest

import oda_rl

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "ARCHITECTURE.md", *sorted((ROOT / "docs").rglob("*.md"))]
# Packages whose public names are in the reference.
PACKAGES = (
    "oda_rl",
    "oda_rl.agents",
    "oda_rl.agents.callbacks",
    "oda_rl.agents.explain",
    "oda_rl.agents.export",
    "oda_rl.envs",
    "oda_rl.explain",
    "oda_rl.multiresolution",
    "oda_rl.plotting",
    "oda_rl.papers",
    "oda_rl.quantization",
    "oda_rl.resolutions",
)


def name_of(page):
    return str(page.relative_to(ROOT))


def code_in(page):
    """What the text of a page has as code, between single backticks."""
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    return re.findall(r"`([^`\n]+)`", text)


def find(name):
    """What a dotted name stands for."""
    parts = name.split(".")
    for n in range(len(parts), 0, -1):
        try:
            thing = importlib.import_module(".".join(parts[:n]))
        except ModuleNotFoundError:
            continue
        return functools.reduce(getattr, parts[n:], thing)
    raise AttributeError(name)


@functools.cache
def public():
    """Public names of all packages, and what they stand for."""
    found = {}
    for package in map(find, PACKAGES):
        found |= {name: getattr(package, name) for name in getattr(package, "__all__", ())}
    return found


def told_of(thing, name):
    """What a docstring tells of the type of a parameter or attribute, or None."""
    line = rf"^(?:\w+, )*{name}(?:, \w+)* : (.*)$"
    found = re.search(line, inspect.cleandoc(thing.__doc__ or ""), re.MULTILINE)
    return found and found[1]


def has(cls, name):
    """Whether a class has an attribute, or its docstring tells that its objects have it."""
    return hasattr(cls, name) or any(told_of(base, name) is not None for base in cls.__mro__)


def takes(thing, name, value):
    """Whether a function or class has a parameter that may have a value, as its docstring tells."""
    fields = getattr(getattr(thing, "config_class", thing), "__dataclass_fields__", {})
    try:
        parameters = inspect.signature(thing).parameters
    except ValueError:  # an exception
        parameters = {}
    choices = re.search(r"\{(.*?)\}", told_of(thing, name) or "")
    known = choices is None or value in re.findall(r"[\w.]+", choices[1])
    return known and (name in fields or name in parameters)


def methods(name):
    """The methods of this name of public classes."""
    found = (getattr(thing, name, None) for thing in public().values() if inspect.isclass(thing))
    return [method for method in found if inspect.isroutine(method)]


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_dotted_names_exist(page):
    for name in code_in(page):
        if re.fullmatch(r"oda_rl(\.\w+)+", name):
            find(name)
        owner, *attributes = name.split("(")[0].split(".")
        if len(attributes) == 1 and inspect.isclass(public().get(owner)):
            assert has(public()[owner], attributes[0]), name


def test_places_in_the_architecture_exist():
    """Such as `codebook/learning.anneal`, in whichever of the packages."""
    found = 0
    for code in code_in(ROOT / "ARCHITECTURE.md"):
        place = re.fullmatch(r"((?:\w+/)+)(\w+)((?:\.\w+)*)", code)
        if place is None:
            continue
        folder, module, names = place.groups()
        homes = [home for home in ("", "oda_rl/", "agents/") if (ROOT / home / folder).is_dir()]
        assert homes, code
        package = folder if homes[0] == "oda_rl/" or folder.startswith("oda_rl/") else homes[0] + folder
        find("oda_rl." + package.removeprefix("oda_rl/").replace("/", ".") + module + names)
        found += 1
    assert found > 20


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_parameters_take_the_values_that_are_told(page):
    for code in code_in(page):
        for name, value in re.findall(r'(?<![\w-])(\w+)="?([\w.]+)"?', code):
            called = re.match(r"\w+(?=\()", code)
            own = public().get(called[0]) if called else None
            things = [own]
            if own is None or "**" in str(inspect.signature(own)):
                within = (called[0],) if called else ("learn", "load")
                things = [*public().values(), *(method for name in within for method in methods(name))]
            assert any(takes(thing, name, value) for thing in things if callable(thing)), (
                f"{name}={value}"
            )


def test_the_reference_has_every_public_name():
    listed = set()
    for page in (ROOT / "docs" / "api").glob("*.rst"):
        module = ""
        for line in page.read_text().splitlines():
            if line.startswith(".. currentmodule::"):
                module = line.split()[-1]
            elif re.fullmatch(r"   \w+", line):
                listed.add(id(find(f"{module}.{line.strip()}")))
    missing = [name for name, thing in public().items() if id(thing) not in listed]
    assert not missing


def test_a_name_that_is_gone_is_found():
    with pytest.raises(AttributeError):
        find("oda_rl.codebook.learning.nothing")
    assert has(oda_rl.ODAPartition, "codevectors_")
    assert not has(oda_rl.ODAPartition, "predict_proba")
    assert takes(oda_rl.ODAClassifier, "mode", "lvq")
    assert not takes(oda_rl.ODAClassifier, "mode", "nonsense")
    assert not takes(oda_rl.ODAClassifier, "strategy", "lvq")
