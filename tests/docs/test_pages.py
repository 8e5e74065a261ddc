"""The pages of the documentation and the README tell what works: code, commands, pictures."""

import contextlib
import functools
import io
import json
import re
import runpy
import shlex
import shutil
import sys
import warnings
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
from matplotlib import pyplot as plt
from sybil import Sybil
from sybil.evaluators.python import PythonEvaluator
from sybil.parsers.markdown import CodeBlockParser, SkipParser

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
# Examples are run as they stand, but for how long agents are trained: until each of those of SB3 has
# learned once, or in some until there is a history or an evaluation.
FEW_STEPS = 1_300
MORE_STEPS = {"training.md": 2_500, "compare_with_ppo.ipynb": 2_500}
# Scripts with commands, and those that need a package which not everybody has
WITH_COMMANDS = ("scripts/benchmark.py", "scripts/zoo.py")
NEEDED = {"scripts/zoo.py": "rl_zoo3", "scripts/tune.py": "optuna"}


def name_of(page):
    return str(page.relative_to(ROOT))


def with_code(language):
    return [page for page in PAGES if f"```{language}\n" in page.read_text()]


def shorten(code, most=FEW_STEPS):
    """The code with `total_timesteps=200_000` or `.learn(200_000)` made short."""

    def fewer(found):
        return found[1] + str(min(int(found[2].replace("_", "")), most))

    return re.sub(r"(total_timesteps=|\.learn\()([\d_]+)", fewer, code)


class ShortRuns(PythonEvaluator):
    def __init__(self, most):
        super().__init__()
        self.most = most

    def __call__(self, example):
        example.parsed = type(example.parsed)(
            shorten(str(example.parsed), self.most), example.parsed.offset, example.parsed.line_offset
        )
        return super().__call__(example)


@pytest.fixture
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("page", with_code("python"), ids=name_of)
def test_examples_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # logs and model files of examples
    plt.switch_backend("Agg")
    parsers = [CodeBlockParser("python", ShortRuns(MORE_STEPS.get(page.name, FEW_STEPS))), SkipParser()]
    copy = tmp_path / page.name  # compiled code is kept next to its source
    shutil.copy(page, copy)
    document = Sybil(parsers, path=str(tmp_path)).parse(copy)
    document.namespace["__name__"] = "__main__"
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore", UserWarning)  # runs too short for what they are asked
        n_run = sum(1 for example in document.examples() if example.evaluate() is None)
    plt.close("all")
    assert n_run >= page.read_text().count("```python")


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("path", sorted((ROOT / "docs" / "notebooks").glob("*.ipynb")), ids=name_of)
def test_notebooks_run(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    plt.switch_backend("Agg")
    cells, namespace = json.loads(path.read_text())["cells"], {}
    most = MORE_STEPS.get(path.name, FEW_STEPS)
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore", UserWarning)  # runs too short for what they are asked
        for cell in cells:
            assert not cell.get("outputs"), "outputs are made by the build of the pages"
            if cell["cell_type"] == "code":
                code = "".join(cell["source"])
                exec(
                    code if '"oda_rl/' in code else shorten(code, most), namespace
                )  # compiled: a second
    plt.close("all")


def test_training_is_shortened_and_nothing_else_changed():
    assert (
        shorten("a.learn(total_timesteps=200_000, n=5)") == f"a.learn(total_timesteps={FEW_STEPS}, n=5)"
    )
    assert shorten("a.learn(300_000)") == f"a.learn({FEW_STEPS})"
    assert shorten("a.learn(10); b = 200_000") == "a.learn(10); b = 200_000"


def commands():
    """All (page, words) of the shell blocks that concern this repository."""
    found = []
    for page in with_code("bash"):
        for block in re.findall(r"```bash\n(.*?)```", page.read_text(), re.DOTALL):
            for line in block.splitlines():
                words = shlex.split(line, comments=True)
                if words and words[0] in ("python", "make"):
                    found.append((page, words))
    return found


@functools.cache
def run_script(script, *arguments):
    """Exit code and output of a script, run in this process, which has torch already."""
    path, before, printed = list(sys.path), list(sys.argv), io.StringIO()
    sys.argv = [script, *arguments]
    sys.path.insert(0, str((ROOT / script).parent))
    try:
        with contextlib.redirect_stdout(printed), pytest.raises(SystemExit) as ended:
            runpy.run_path(str(ROOT / script), run_name="__main__")
    finally:
        sys.path[:], sys.argv[:] = path, before
    return ended.value.code, printed.getvalue()


def test_scripts_and_their_options_exist():
    asked = [(page, words) for page, words in commands() if words[0] == "python"]
    assert len(asked) > 10
    for page, (_, script, *arguments) in asked:
        assert (ROOT / script).is_file(), f"{name_of(page)}: {script}"
        if script in NEEDED and find_spec(NEEDED[script]) is None:
            continue
        subcommand = arguments[:1] if script in WITH_COMMANDS else []
        for option in (word for word in arguments if word.startswith("--")):
            options = re.findall(r"--[\w-]+", run_script(script, *subcommand, "--help")[1])
            assert option in options, f"{name_of(page)}: {script} has no {option}"


def test_targets_of_make_exist():
    targets = {words[1] for _, words in commands() if words[0] == "make" and "=" not in words[1]}
    makefile = (ROOT / "Makefile").read_text()
    assert {"train", "compare"} <= targets
    assert all(re.search(rf"^{target}:", makefile, re.MULTILINE) for target in targets)


def test_every_picture_of_the_script_is_there_and_shown():
    drawn = re.findall(r'"(\w+\.(?:png|gif))": draw_', (ROOT / "docs" / "pictures.py").read_text())
    shown = "".join(page.read_text() for page in PAGES)
    assert len(drawn) > 5
    for name in drawn:
        assert (ROOT / "docs" / "pictures" / name).stat().st_size > 5_000
        assert f"pictures/{name}" in shown


def test_the_script_of_pictures_says_which_it_does_not_know():
    code, printed = run_script("docs/pictures.py", "--only", "nothing.png")
    assert code == 1
    assert "There is no picture 'nothing.png'" in printed
