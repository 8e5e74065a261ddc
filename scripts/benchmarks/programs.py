"""Return against numbers of readable policies: ours, distilled ones, and decision trees."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import numpy as np
from rich.console import Console
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor
from stable_baselines3 import PPO

from benchmarks.plans import code_version
from benchmarks.runs import replace_file
from benchmarks.tasks import TASKS, find_task
from benchmarks.training import EVALUATION_SEED
from common.arguments import Count, Positive, one_of
from common.measuring import interquartile_mean
from common.pictures import BLUE, GREEN, GREY, ORANGE, PINK, make_panels, number_axis, save
from common.tables import show_table, to_markdown
from oda_rl.agents import DistilledPolicy, TwoTimescaleAC
from oda_rl.agents.distill import polish
from oda_rl.agents.distill.dagger import Distillation
from oda_rl.agents.distill.play import Judge
from oda_rl.agents.models import load_model
from sb3_zoo import make_zoo_agent

Kind = Literal["trained", "distilled", "polished", "tree", "sixty", "sixty tree"]
# Trees get as many numbers as our policies of this kind, and are distilled with the same options
TREES: dict[str, Kind] = {"tree": "distilled", "sixty tree": "sixty"}
SIXTY: dict[str, Any] = {"max_cells": 60, "rounds": 5, "softness": 0.5}
# Marker and colour of each kind in the picture
MARKS = {
    **{"trained": ("s", GREY), "distilled": ("o", BLUE), "polished": ("D", PINK)},
    **{"tree": ("v", GREEN), "sixty": ("h", ORANGE), "sixty tree": ("X", "#8fbc8f")},
}
PPO_STEPS = 1_000_000


@dataclass(frozen=True)
class Case:
    """A task, published results, and options of the distillation (chosen with teacher 100)."""

    env_id: str
    anchors: tuple[tuple[str, float, float], ...]
    """Published policies: name, numbers, return. A tree of n nodes counts as n numbers: a threshold or
    an action each."""
    options: dict[str, Any] = field(default_factory=dict)
    polished: dict[str, Any] = field(default_factory=dict)
    """Options of the distillation of a table that is polished afterwards."""
    polish_steps: int = 0
    """Environment steps of the polish; 0 for no polished table."""


# For a table that is polished afterwards, only its form must be right
FORM = {"rounds": 2, "steps_per_round": 3000, "eval_episodes": 20}
CASES = (
    Case("CartPole-v1", (("network", 20, 500), ("tree", 5, 500)), {"max_cells": 1}),
    Case(
        *("MountainCar-v0", (("tree", 9, -102.5),), {"max_cells": 4}),
        *({"max_cells": 4, **FORM}, 4_000_000),
    ),
    Case(
        *("Acrobot-v1", (("network", 29, -73.6), ("tree", 15, -82.3)), {"max_cells": 1}),
        *({"max_cells": 1, **FORM}, 10_000_000),
    ),
    Case("MountainCarContinuous-v0", (("network", 15, 95.3),), {"max_cells": 1}),
    Case(
        *("Pendulum-v1", (("tree", 511, -192),)),
        {"max_cells": 27, "softness": 0.5, "rounds": 20},
        *({"max_cells": 10, "softness": 0.5, **FORM, "rounds": 4}, 3_000_000),
    ),
    Case(
        *("LunarLander-v3", (("network", 36, 245), ("tree", 37, 238))),
        {"max_cells": 1, "rounds": 5, "eval_episodes": 30},
    ),
)


@dataclass
class Programs:
    """Return against numbers of small policies: trained, distilled, polished, and trees.

    Teachers are TwoTimescaleAC as in `benchmark.py agent`, one for each seed. On LunarLander the teacher
    of all seeds is one PPO of a million steps with RL Zoo's settings.
    """

    env_ids: tuple[Annotated[str, one_of(case.env_id for case in CASES)], ...] = tuple(
        case.env_id for case in CASES
    )
    """Some of the six environments."""
    kinds: tuple[Kind, ...] = ("trained", "distilled", "polished", "tree")
    """Kinds of policies. Those of 60 cells take a few minutes each; a separate table
    compares 60 cells with their teachers and with trees of as many numbers."""
    seeds: tuple[Count, ...] = tuple(range(10))
    """Seeds of teachers and students."""
    episodes: Positive = 100
    """Greedy episodes of each evaluation."""
    log_dir: Path = Path("logs/programs")
    """Folder where every run is stored when it ends; the same code reuses it."""
    only_kept: bool = False
    """Make no runs; show the table of all stored ones."""


def run_programs(args: Programs, console: Console) -> int:
    """Make the missing runs, then print the table and draw the picture."""
    cases = [case for case in CASES if case.env_id in args.env_ids]
    for case in cases:
        task = find_task(case.env_id)
        if task is not None and task.missing:
            console.print(f"{case.env_id} is left out: {task.missing}.", markup=False)
            continue
        for seed in args.seeds if not args.only_kept else ():
            for kind in args.kinds:
                if kind == "polished" and not case.polish_steps:
                    continue
                found = _kept_or_made(args, case, kind, seed)
                console.print(
                    f"  {case.env_id}, seed {seed}, {kind}: {found['result']:.1f}, "
                    f"{found['numbers']:,.0f} numbers",
                    highlight=False,
                )
    _show(args, cases, console)
    return 0


# -- runs ----------------------------------------------------------------------------------------------


def _folder(args: Programs, case: Case) -> Path:
    return args.log_dir / case.env_id


def _path(args: Programs, case: Case, kind: str, seed: int) -> Path:
    return _folder(args, case) / f"{kind}-{seed}.json"


def _kept_or_made(args: Programs, case: Case, kind: Kind, seed: int) -> dict[str, Any]:
    path = _path(args, case, kind, seed)
    identity = json.loads(json.dumps({"case": asdict(case), "episodes": args.episodes}))
    identity["code"] = code_version("TwoTimescaleAC")
    if path.is_file():
        kept: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        if kept["told"] == identity:
            return kept
    judge = Judge(case.env_id, args.episodes, EVALUATION_SEED * (seed + 1))
    policy, numbers = _make(args, case, kind, seed)
    found = {"told": identity, "result": judge(policy), "numbers": numbers}
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(path, json.dumps(found, indent=1) + "\n")
    return found


def _make(args: Programs, case: Case, kind: Kind, seed: int) -> tuple[Any, int]:
    """Make a policy; return it with its count of numbers."""
    teacher = _teacher(args, case, seed)
    if kind == "trained":
        return teacher, _numbers_of(teacher)
    own = {"sixty": SIXTY, "polished": case.polished}
    options = own.get(TREES.get(kind, kind), case.options)
    student = DistilledPolicy(env=case.env_id, seed=seed, **options)
    if kind in TREES:
        allowed = json.loads(_path(args, case, TREES[kind], seed).read_text(encoding="utf-8"))["numbers"]
        return _distill_tree(teacher, student, allowed)
    Distillation(teacher, student).run()
    if kind == "polished":
        polish(student, steps=case.polish_steps, seed=seed)
    return student, student.n_parameters


def _teacher(args: Programs, case: Case, seed: int) -> Any:
    """Load the policy that is distilled, or train and store it."""
    folder = _folder(args, case)
    task = find_task(case.env_id, TASKS)
    if task is None:
        path = folder / "teacher.zip"
        if not path.is_file():
            model = make_zoo_agent("PPO", case.env_id, 0).learn(PPO_STEPS)
            path.parent.mkdir(parents=True, exist_ok=True)
            model.save(path)
        return PPO.load(path, device="cpu")
    path = folder / f"teacher-{code_version('TwoTimescaleAC')}-{seed}.npz"
    if not path.is_file():
        path.parent.mkdir(parents=True, exist_ok=True)
        TwoTimescaleAC(env=task.env_id, seed=seed).learn(task.steps).save(path)
    return load_model(path)


def _numbers_of(teacher: Any) -> int:
    """Count the numbers that are needed to act."""
    if hasattr(teacher, "n_parameters"):
        return int(teacher.n_parameters)
    acting = [teacher.policy.mlp_extractor.policy_net, teacher.policy.action_net]
    return sum(p.numel() for part in acting for p in part.parameters())


class _Tree:
    """A tree of scikit-learn as a policy."""

    def __init__(self, tree: Any, student: DistilledPolicy) -> None:
        self.tree, self.actions, self.codec = tree, student.actions, student.observations

    def act(self, rows: np.ndarray) -> np.ndarray:
        """Actions in the environment's format, for rows of encoded observations."""
        found = self.tree.predict(rows)
        if self.actions.is_continuous:
            found = found.reshape(len(rows), -1)
        return self.actions.decode_many(found)

    def predict(self, observations: Any, state: Any = None, **_: Any) -> tuple[Any, Any]:
        """Predict in the form that SB3's `evaluate_policy` needs."""
        return self.act(self.codec.encode_many(observations, len(observations))), state


def _distill_tree(teacher: Any, student: DistilledPolicy, numbers: int) -> tuple[_Tree, int]:
    """Distill a tree of at most `numbers` numbers, with the same rounds, weights and choice as ours.

    Smaller trees are tried, too. Each inner node counts with its threshold, each leaf with its action.
    The coordinate that a node tests is not counted, just as zeros of our policies are not.
    """
    config: Any = student.config
    work = Distillation(teacher, student)
    kind = DecisionTreeRegressor if student.actions.is_continuous else DecisionTreeClassifier
    sizes = [max(2, (numbers + 1) // 2)] * config.rounds
    while sizes[-1] >= 4:
        sizes.append(sizes[-1] // 2)
    best: tuple[float, int, Any] = (-np.inf, 0, None)
    policy: Any = None
    for i, leaves in enumerate(sizes):
        if i < config.rounds:
            work.record(policy.act if policy else None)
        states, labels, weights = work.records
        tree = kind(max_leaf_nodes=leaves, random_state=student.seed).fit(states, labels, weights)
        policy = _Tree(tree, student)
        size = student.actions.centre.size or 1
        count = int(tree.get_n_leaves() * size + tree.tree_.node_count // 2)
        result = work.judge(policy)
        if (result, -count) > best[:2]:
            best = result, -count, policy
    return best[2], -best[1]


# -- tables --------------------------------------------------------------------------------------------


def _show(args: Programs, cases: Sequence[Case], console: Console) -> None:
    columns = ["task", "policy", "seeds", "numbers", "most", "return", "worst"]
    rows = []
    for case in cases:
        for kind in get_args(Kind):
            found = _read(args, case, kind)
            if not found:
                continue
            results, numbers = np.array(found).T
            what = [case.env_id, kind, str(len(found))]
            what += [f"{np.median(numbers):,.0f}", f"{numbers.max():,.0f}"]
            rows.append([*what, f"{interquartile_mean(results):.1f}", f"{results.min():.1f}"])
        for name, k, result in case.anchors:
            rows.append([case.env_id, f"{name}, published", "", f"{k:g}", "", f"{result:g}", ""])
    if not rows:
        console.print(f"No runs are kept in {args.log_dir}.")
        return
    title = "Return (IQM over seeds) against numbers (median)"
    show_table(console, title, columns, rows, left=2)
    args.log_dir.mkdir(parents=True, exist_ok=True)
    tables = [to_markdown(columns, rows, left=2), _show_sixty(args, cases, console)]
    replace_file(args.log_dir / "programs.md", "\n".join(filter(None, tables)))
    _draw(args, cases)
    console.print(f"Table and picture: {args.log_dir / 'programs.md'}, {args.log_dir / 'programs.png'}")


def _show_sixty(args: Programs, cases: Sequence[Case], console: Console) -> str:
    """Print what 60 cells lose, against trees of as many numbers; return the table in Markdown."""
    columns = ["task", "seeds", "teacher", "60 cells", "lost", "tree", "numbers", "of the tree"]
    rows = []
    for case in cases:
        kinds = [_read(args, case, kind) for kind in ("trained", "sixty", "sixty tree")]
        n = min(map(len, kinds))
        if n == 0:
            continue
        (before, _), (found, size), (tree, tree_size) = (
            (float(interquartile_mean(results)), float(np.median(numbers)))
            for results, numbers in (np.array(one[:n]).T for one in kinds)
        )
        lost = (before - found) / abs(before)
        what = [case.env_id, str(n), f"{before:.1f}", f"{found:.1f}", f"{lost:.1%}", f"{tree:.1f}"]
        rows.append([*what, f"{size:,.0f}", f"{tree_size:,.0f}"])
    if not rows:
        return ""
    title = "60 cells, their teachers, and trees of as many numbers (IQM over seeds)"
    show_table(console, title, columns, rows)
    return to_markdown(columns, rows)


def _read(args: Programs, case: Case, kind: str) -> list[tuple[float, float]]:
    """Returns and numbers of the stored runs, in the order of the seeds."""
    paths = (_path(args, case, kind, seed) for seed in args.seeds)
    kept = [json.loads(path.read_text(encoding="utf-8")) for path in paths if path.is_file()]
    return [(one["result"], one["numbers"]) for one in kept]


def _draw(args: Programs, cases: Sequence[Case]) -> None:
    figure, panels = make_panels(len(cases), 3, 4.2, 3.2)
    handles: dict[str, Any] = {}
    for case, axes in zip(cases, panels, strict=False):
        for kind, (mark, colour) in MARKS.items():
            found = np.array(_read(args, case, kind)).reshape(-1, 2)
            if len(found):
                style: Any = {"color": colour, "markersize": 5, "alpha": 0.7, "label": kind}
                handles[kind] = axes.plot(found[:, 1], found[:, 0], mark, **style)[0]
        for _, numbers, result in case.anchors:
            handles["published"] = axes.plot(numbers, result, "k*", markersize=9, label="published")[0]
        axes.set(title=case.env_id, xlabel="numbers", ylabel="return")
        number_axis(axes)
    figure.legend(
        handles=handles.values(), loc="outside lower center", ncols=len(handles), frameon=False
    )
    save(figure, args.log_dir / "programs.png")
