"""The page of an agent: what it holds, and that a browser shows it without errors."""

import base64
import json
import re
import shutil

import gymnasium as gym
import numpy as np
import pytest

import oda_rl.envs
from oda_rl import MultiResolutionODA, ODAClassifier
from oda_rl.agents import TwoTimescaleQ
from oda_rl.agents.distill import distill
from oda_rl.agents.explain.page import play_episode, readability, write_report
from oda_rl.inspect.model import View
from oda_rl.inspect.page import SIZE, write_estimator_report, write_page
from oda_rl.inspect.table import Table

assert oda_rl.envs
OPTIONS = {"warmup_steps": 500, "growth_steps": 2000, "growth_cells": 10, "max_cells": 20}


@pytest.fixture(scope="module")
def model():
    return TwoTimescaleQ(env="oda_rl/CartPole-v1", seed=0, **OPTIONS).learn(6000)


@pytest.fixture(scope="module")
def page(model, tmp_path_factory):
    path = tmp_path_factory.mktemp("page") / "report.html"
    # a coarser codebook stands for an earlier one
    view = model.view()
    levels = [view, view]
    return write_report(model, path, levels=levels)


def data_of(page):
    return json.loads(re.search(r"const D=(\{.*\});\n", page.read_text()).group(1).replace("<\\/", "</"))


def test_the_page_needs_nothing_else_and_is_small(page):
    text = page.read_text()
    assert page.stat().st_size < 2_000_000
    assert not re.search(r"(src|href)\s*=|https?://|@import|fetch\(", text)


def test_the_page_has_what_the_agent_decides(model, page):
    data = data_of(page)
    assert len(data["rows"]) == model.n_cells
    assert len(data["maps"]) == 6
    one = data["maps"][data["first"]]
    labels = np.frombuffer(base64.b64decode(one["label"]), np.uint8)
    k = 5 * SIZE + 40
    point = np.array(data["slice"])
    for axis, place in (("x", 40), ("y", 5)):
        low, high = data["limits"][one[axis]]
        point[one[axis]] = low + (place + 0.5) / SIZE * (high - low)
    assert labels[k] == model.predict(point.astype(np.float32), deterministic=True)[0]


def test_names_cannot_end_the_page(tmp_path):
    infinite, name = np.full(2, np.inf), "<!--<script></script>"
    view = View(np.eye(2), np.ones(2), None, [name, "b"], [], -infinite, infinite)
    path = write_page(tmp_path / "page.html", Table("t", {"cell": [0, 1], name: [1.0, 2.0]}), view)
    assert data_of(path)["header"] == ["cell", name]
    assert "<!--" not in path.read_text().replace("<!-- ", "")
    assert path.read_text().count("<script") == path.read_text().count("</script>") == 1


@pytest.mark.parametrize("n_cells", [2**16, 2**16 + 1])
def test_the_map_names_the_cells_of_large_models(n_cells, tmp_path):
    points = np.column_stack([np.arange(n_cells), np.zeros(n_cells)])
    infinite = np.full(2, np.inf)
    view = View(points, np.ones(n_cells), None, ["a", "b"], [], -infinite, infinite)
    path = write_page(
        tmp_path / "page.html",
        Table("Many cells", {"cell": np.arange(n_cells)}),
        view,
        locate=lambda X: np.full(len(X), n_cells - 1),
    )
    packed = base64.b64decode(data_of(path)["maps"][0]["cell"])
    assert len(packed) == SIZE * SIZE * (2 if n_cells == 2**16 else 4)  # as the page reads them
    assert set(np.frombuffer(packed, "<u2" if n_cells == 2**16 else "<u4")) == {n_cells - 1}


def test_the_episode_is_the_agents(model):
    frames, total = play_episode(model, "oda_rl/CartPole-v1", seed=3, most=20)
    assert total >= len(frames) == 20 or total == len(frames)
    assert "push" in frames[0].note
    assert sum(w for _, w in frames[0].shares) == pytest.approx(1.0)
    said = readability(model, frames)
    assert said.startswith(f"{model.n_parameters:,} numbers, {model.n_cells} cells; ")
    per_decision, by_five = re.search(r"; (.+) cells per decision; .* decide (\d+) %", said).groups()
    assert 1.0 <= float(per_decision) <= model.n_cells
    assert 0 < int(by_five) <= 100


class Endless(gym.Env):
    """Nobody ends it, and no limit of time does."""

    observation_space = gym.spaces.Box(-1.0, 1.0, (1,))
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(1, np.float32), {}

    def step(self, action):
        return np.zeros(1, np.float32), 1.0, False, False, {}


gym.register("test/Endless-v0", lambda: Endless())


def test_an_episode_without_an_end_is_left():
    few = {"rounds": 1, "steps_per_round": 100, "judge": "states"}
    model = distill(lambda _: 1, "test/Endless-v0", max_cells=1, **few)
    frames, total = play_episode(model, "test/Endless-v0", most=3)
    assert len(frames) == 3
    assert total == 10_000.0


@pytest.fixture(scope="module")
def browser():
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
    found = shutil.which("chromium"), shutil.which("chromedriver")
    if None in found:
        pytest.skip("there is no chromium, or no chromedriver: apt install chromium chromium-driver")
    options = webdriver.ChromeOptions()
    options.binary_location = found[0]
    for flag in ("--headless", "--no-sandbox", "--disable-gpu", "--window-size=1250,1300"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    started = webdriver.Chrome(options=options, service=webdriver.ChromeService(found[1]))
    yield started
    started.quit()


def own_cells(model, points):
    """The names of the cells of points in the table."""
    at = model.apply(points) if hasattr(model, "apply") else model.view().distance(points).argmin(axis=1)
    return [str(model.cells()["cell"][i]) for i in at]


@pytest.mark.parametrize(
    "model",
    [
        ODAClassifier(max_codevectors=5, random_state=0),
        MultiResolutionODA(ODAClassifier(), max_children=2, random_state=0),
    ],
    ids=["classifier", "tree"],
)
def test_a_browser_shows_an_estimator_on_a_telephone(model, browser, tmp_path):
    X = np.random.default_rng(0).normal(size=(120, 2))
    path = write_estimator_report(model.fit(X, X[:, 0] > 0.7), tmp_path / "page.html", X[:9])
    size = {"width": 420, "height": 800, "deviceScaleFactor": 1, "mobile": True}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    browser.get(path.as_uri())
    browser.execute_script("go(3)")
    assert "sample 3 of 8" in browser.find_element("css selector", "#frametext").text
    # the cell in the middle of the map
    browser.find_element("css selector", "#map").click()
    shown = browser.find_element("css selector", "#table tr.on td").text
    ends = np.array(browser.execute_script("return D.limits"))
    about = (np.array(list(np.ndindex(2, 2))) + SIZE / 2 - 0.5) / SIZE  # four points of the map
    assert shown in own_cells(model, ends[:, 0] + about * (ends[:, 1] - ends[:, 0]))
    width = browser.execute_script("return document.documentElement.scrollWidth")
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    assert width <= 420
    assert not [line for line in browser.get_log("browser") if line["level"] == "SEVERE"]


def test_a_browser_shows_it(page, browser):
    by = "css selector"
    browser.get(page.as_uri())
    rows = browser.find_elements(by, "#table tbody tr")
    assert len(rows) == len(data_of(page)["rows"])

    def ask(script):
        return browser.execute_script(f"return {script}")

    # filter and sort
    browser.execute_script("document.getElementById('filter').value='left';fill()")
    assert 0 < len(browser.find_elements(by, "#table tbody tr")) < len(rows)
    browser.execute_script("document.getElementById('filter').value='';fill()")
    browser.find_elements(by, "#table th")[0].click()
    assert browser.find_elements(by, "#table tbody tr td")[0].text == "0"
    # a click on the map chooses the cell there, another on a row another one
    browser.find_element(by, "#map").click()
    assert browser.find_elements(by, "#cell table td")[1].text == ask("String(chosen)")
    assert browser.find_elements(by, "#table tr.on")
    browser.find_elements(by, "#table tbody tr")[-1].click()
    assert ask("chosen") == browser.find_elements(by, "#table tbody tr:last-child td")[0].text
    # the episode plays
    first = browser.find_element(by, "#why").text
    browser.execute_script("go(7)")
    assert "step 7 of" in browser.find_element(by, "#frametext").text
    assert browser.find_element(by, "#why").text != first
    browser.find_element(by, "#play").click()
    assert ask("timer!==null")
    browser.find_element(by, "#play").click()
    # the slider and the coordinates draw other maps
    picture = "document.getElementById('map').toDataURL()"
    now = ask(picture)
    browser.execute_script("document.getElementById('level').value=0;draw()")
    assert ask(picture) != now
    browser.execute_script("document.getElementById('level').value=1;draw()")
    browser.execute_script(
        "const s=document.getElementById('x');s.value=+s.value===0?1:0;s.onchange({target:s})"
    )
    assert ask(picture) != now
    assert not [line for line in browser.get_log("browser") if line["level"] == "SEVERE"]
