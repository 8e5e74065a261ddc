"""Time from the start of a process to CartPole solved, without and with a cache, and for SB3's PPO."""

import tempfile
from dataclasses import dataclass

import numpy as np
from rich.console import Console

from common.arguments import Count, Positive
from common.processes import run_alone
from common.tables import show_table

# Compile times before the first step that several JAX libraries have published
JAX = "37 to 400 s"
IMPORT = "import time, stable_baselines3\nprint(time.process_time())"
SOLVE = """
import sys, time
import stable_baselines3, torch
torch.set_num_threads(1)
import gymnasium as gym
import oda_rl.envs
from benchmarks.plans import Plan, make_model
from benchmarks.training import EVALUATION_SEED, CurveCallback, Evaluation
from sb3_zoo import find_zoo_options
algorithm, env_id, seed, steps = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
options = find_zoo_options(algorithm, env_id) if "zoo" in sys.argv[5:] else {}
model = make_model(Plan(algorithm, env_id, steps, options=options), seed)
curve = CurveCallback(Evaluation("CartPole-v1", 20, EVALUATION_SEED), 5000, goal=475.0)
model.learn(steps, callback=curve)
print(time.process_time(), int(curve.solved), model.num_timesteps)
"""


@dataclass
class Cold:
    """Time a process from its start to CartPole solved: nothing compiled, all compiled, SB3's PPO.

    Solved is a mean of 475 over 20 greedy episodes, evaluated every 5,000 steps. Seconds are processor
    time, which includes the interpreter's start, all imports and the evaluations.
    """

    seeds: tuple[Count, ...] = (0, 1, 2)
    """Seeds of each row; with nothing compiled, only the first one."""
    max_timesteps: Positive = 200_000
    """Steps after which a run is given up."""


def run_cold(args: Cold, console: Console) -> None:
    """Print the table of `benchmark.py cold`."""
    rows = []
    with tempfile.TemporaryDirectory() as folder, console.status("timing"):
        cache = {
            "PYTHONDONTWRITEBYTECODE": "",
            "PYTHONPYCACHEPREFIX": f"{folder}/bytecode",
            "NUMBA_CACHE_DIR": f"{folder}/machine",
        }
        run_alone(IMPORT, **cache)  # Python compiles the modules of SB3 once
        base = float(np.median([run_alone(IMPORT, **cache)[0] for _ in range(3)]))
        rows.append(("import stable_baselines3", f"{base:.1f} s", ""))

        def add(title: str, model: tuple[str, str], seeds: tuple[int, ...], *more: str) -> None:
            made = [run_alone(SOLVE, *model, s, args.max_timesteps, *more, **cache) for s in seeds]
            seconds, _, steps = np.median(made, axis=0)
            solved = int(np.sum(made, axis=0)[1])
            passed = f"{steps:,.0f} steps" if solved == len(made) else f"{solved} of {len(made)} solved"
            rows.append((title, f"{seconds:.1f} s", passed))

        ours, ppo = ("TwoTimescaleAC", "oda_rl/CartPole-v1"), ("PPO", "CartPole-v1")
        add("nothing compiled", ours, args.seeds[:1])
        add("all compiled", ours, args.seeds)
        add("SB3's PPO, its defaults", ppo, args.seeds)
        add("SB3's PPO, RL Zoo's hyperparameters", ppo, args.seeds, "zoo")
    rows.append(("JAX's compile times alone, as published", JAX, ""))
    show_table(console, "A process, to CartPole-v1 solved", ("", "seconds", ""), rows)
