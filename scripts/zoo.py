"""RL Zoo with our agents: its own commands, with `ttac` and `ttq` as further values of `--algo`.

python scripts/zoo.py train --algo ttac --env CartPole-v1 --eval-freq 10000
python scripts/zoo.py enjoy --algo ttac --env CartPole-v1 --folder logs --no-render
python scripts/zoo.py train --algo ttq --env Acrobot-v1 -optimize --n-trials 50 --storage logs/ttq.log
python scripts/zoo.py record_video --algo ttac --env CartPole-v1 --folder logs
python scripts/zoo.py plots.plot_train --algo ttac --env CartPole-v1 --exp-folder logs
python scripts/zoo.py train --help

Environments with compiled dynamics can be used as well: `--env oda_rl/CartPole-v1`. To install RL Zoo:
`pip install 'oda_rl[zoo]'`. Hyperparameters are those of zoo.yml, next to this file, unless
`--conf-file` is given. Models are `.zip` files, as RL Zoo expects, and can be used with our scripts.
"""

from common.ending import run_and_exit

import runpy
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

from stable_baselines3.common.utils import ConstantSchedule

import oda_rl.agents
import oda_rl.envs
from common.search_spaces import SPACES, Range, suggest, to_hyperparameters

assert oda_rl.envs  # registers the compiled environments

AGENTS = {"ttac": oda_rl.agents.TwoTimescaleAC, "ttq": oda_rl.agents.TwoTimescaleQ}
HYPERPARAMETERS = Path(__file__).with_suffix(".yml")
# The commands of RL Zoo, which are names of its modules
COMMANDS = ("train", "enjoy", "record_video", "record_training", "benchmark", "plots.*")
# What RL Zoo says of an environment that it does not know
NO_ENVIRONMENT = "not found in gym registry"


def adapt(kind: Any) -> Any:
    """Adapt an agent to RL Zoo, which passes numbers as schedules and looks for models in `.zip` files.

    Parameters
    ----------
    kind : type
        A class of `oda_rl.agents`.

    Returns
    -------
    type
        A subclass that differs only in this; the content of model files is the same.
    """

    class Adapted(kind):  # type: ignore[misc]
        def __init__(self, *args: Any, **options: Any) -> None:
            rate = options.get("learning_rate")
            if isinstance(rate, ConstantSchedule):
                options["learning_rate"] = rate.val
            elif callable(rate):
                raise ValueError(
                    "learning_rate must be a number, not a schedule such as lin_...: "
                    "learning_rate_halving and learning_rate_power determine how it decays."
                )
            super().__init__(*args, **options)

        def save(self, path: Any, exclude: Any = None, include: Any = None) -> None:
            if isinstance(path, str | Path) and not Path(path).suffix:
                path = f"{path}.zip"
            super().save(path, exclude, include)

    Adapted.__name__, Adapted.__qualname__ = kind.__name__, kind.__qualname__
    Adapted.__doc__ = kind.__doc__
    return Adapted


def import_rl_zoo() -> Any:
    """Import RL Zoo, and undo its change to Gymnasium.

    RL Zoo replaces Gymnasium's TimeLimit by its own, for compatibility with older versions: environments
    with compiled dynamics would then not be recognised.
    """
    from gymnasium import wrappers
    from gymnasium.envs import registration

    limit: Any = wrappers.TimeLimit
    import rl_zoo3

    for module in (wrappers, wrappers.common, registration):
        module.TimeLimit = limit  # type: ignore[attr-defined]
    return rl_zoo3


def register() -> None:
    """Register our agents, and their search spaces for Optuna, with RL Zoo."""
    from rl_zoo3 import hyperparams_opt, utils

    for name, kind in AGENTS.items():

        def sample(
            trial: Any,
            n_actions: int,
            n_envs: int,
            more: dict[str, Any],
            space: dict[str, Range] = SPACES[kind.__name__],
        ) -> dict[str, Any]:
            return suggest(trial, space)

        utils.ALGOS[name] = adapt(kind)
        hyperparams_opt.HYPERPARAMS_SAMPLER[name] = sample
        hyperparams_opt.HYPERPARAMS_CONVERTER[name] = to_hyperparameters


def parse(typed: list[str]) -> list[str]:
    """Return the typed words, with our file of the agent's hyperparameters if none is given."""
    named = any(one.partition("=")[0] in ("-conf", "--conf-file") for one in typed)
    ours = any(f"--algo={name}" in typed or ("--algo", name) in pairwise(typed) for name in AGENTS)
    if typed[:1] == ["train"] and ours and not named:
        return [*typed, "--conf-file", str(HYPERPARAMETERS)]
    return typed


def main(typed: list[str]) -> int:
    """Run a command of RL Zoo."""
    command = typed[0] if typed else "--help"
    if command in ("-h", "--help"):
        print(f"{__doc__}\nCommands: {', '.join(COMMANDS)}")
        return 0
    try:
        rl_zoo3 = import_rl_zoo()
        register()
    except ImportError as error:
        print(f"RL Zoo is not installed ({error}): pip install 'oda_rl[zoo]'")
        return 2
    module = Path(rl_zoo3.__file__).parent.joinpath(*command.split(".")).with_suffix(".py")
    if not module.is_file():
        print(f"RL Zoo has no command {command}; it has {', '.join(COMMANDS)}.")
        return 2
    sys.argv = [str(module), *typed[1:]]
    try:
        # by path: the package of the plots would import what any of them needs
        runpy.run_path(str(module), run_name="__main__")
    except ValueError as error:
        if NO_ENVIRONMENT not in str(error):
            raise
        print(error)
        return 2
    return 0


if __name__ == "__main__":
    run_and_exit(lambda: main(parse(sys.argv[1:])))
