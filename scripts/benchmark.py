"""Benchmarks of the package. Each command prints tables of its results.

python scripts/benchmark.py agent                          # all tasks: returns and costs
python scripts/benchmark.py agent --algorithm UniformGridQ # the same tables for a baseline
python scripts/benchmark.py agent --plot                   # return against size, of all stored runs
python scripts/benchmark.py agent --env-id CartPole-v1     # one task, seed by seed
python scripts/benchmark.py suite                          # default agent and SB3's agents on 29 tasks
python scripts/benchmark.py speed                          # steps per second, time per decision
python scripts/benchmark.py cold                           # time to solve CartPole, nothing compiled yet
python scripts/benchmark.py outliers                       # effect of a single outlier on an agent
python scripts/benchmark.py envs                           # steps per second of the environments
python scripts/benchmark.py encodings                      # SB3's agents on states of a partition
python scripts/benchmark.py partition                      # the partitioner against k-means
python scripts/benchmark.py clusters                       # number of clusters, against other methods
python scripts/benchmark.py supervised                     # the classifier against others, with noise
python scripts/benchmark.py streams                        # changing streams, against river's models
python scripts/benchmark.py trees                          # trees against flat codebooks
python scripts/benchmark.py programs                       # return against the size of small policies
python scripts/benchmark.py kernels                        # kernel machines with adaptive bandwidth
python scripts/benchmark.py scale                          # speed-up with workers, load of a scheduler
"""

from common.ending import run_and_exit

import sys
from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import tyro

from benchmarks.agent import Agent, QAgent, run_agent
from benchmarks.clusters import Clusters, run_clusters
from benchmarks.cold import Cold, run_cold
from benchmarks.encodings import Encodings, run_encodings
from benchmarks.envs import Envs, run_envs
from benchmarks.kernels import Kernels, run_kernels
from benchmarks.outliers import Outliers, run_outliers
from benchmarks.partition import Partition, run_partition
from benchmarks.programs import Programs, run_programs
from benchmarks.scale import Scale, run_scale
from benchmarks.speed import Speed, run_speed
from benchmarks.streams import Streams, run_streams
from benchmarks.suite import Suite, run_suite
from benchmarks.supervised import Supervised, run_supervised
from benchmarks.trees import Trees, run_trees
from common.arguments import check_lists, read_options
from common.tables import make_console
from common.training_options import find_algorithm
from common.workers import WorkersLostError

COMMANDS = {
    "agent": (Agent, run_agent),
    "suite": (Suite, run_suite),
    "speed": (Speed, run_speed),
    "cold": (Cold, run_cold),
    "outliers": (Outliers, run_outliers),
    "envs": (Envs, run_envs),
    "encodings": (Encodings, run_encodings),
    "partition": (Partition, run_partition),
    "clusters": (Clusters, run_clusters),
    "supervised": (Supervised, run_supervised),
    "streams": (Streams, run_streams),
    "trees": (Trees, run_trees),
    "kernels": (Kernels, run_kernels),
    "programs": (Programs, run_programs),
    "scale": (Scale, run_scale),
}


def main(args: Any) -> int:
    """Run one benchmark."""
    if mistake := check_lists(args, "tree_cells", "starts"):
        sys.exit(mistake)
    run: Any = next(run for kind, run in COMMANDS.values() if isinstance(args, kind))
    try:
        return run(args, make_console()) or 0
    except (WorkersLostError, gym.error.Error) as error:
        sys.exit(f"Cannot continue: {error}")


def parse(arguments: Sequence[str] | None = None) -> Any:
    """Parse the command line; returns the options of the chosen benchmark."""
    typed = sys.argv[1:] if arguments is None else arguments
    kinds: Any = {name: kind for name, (kind, _) in COMMANDS.items()}
    if find_algorithm(typed) == "TwoTimescaleQ":
        kinds["agent"] = QAgent
    return read_options(lambda: tyro.extras.subcommand_cli_from_dict(kinds, args=typed))


if __name__ == "__main__":
    run_and_exit(lambda: main(parse()))
