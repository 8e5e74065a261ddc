"""Measure the package. Each command prints tables of what it measured.

python scripts/benchmark.py agent                          # all tasks: returns, costs, what is reached
python scripts/benchmark.py agent --algorithm UniformGridQ # the same of a baseline
python scripts/benchmark.py agent --plot                   # return against numbers stored, of all
python scripts/benchmark.py agent --env-id CartPole-v1     # one task, seed by seed
python scripts/benchmark.py speed                          # steps per second, time of a decision, import
python scripts/benchmark.py partition                      # the partitioner against k-means
python scripts/benchmark.py supervised                     # the classifier against others, with noise
python scripts/benchmark.py trees                          # trees against flat codebooks
python scripts/benchmark.py kernels                        # kernel machines that find their bandwidth
"""

import sys

import tyro
from benchmarks.agent import Agent, run_agent
from benchmarks.kernels import Kernels, run_kernels
from benchmarks.partition import Partition, run_partition
from benchmarks.speed import Speed, run_speed
from benchmarks.supervised import Supervised, run_supervised
from benchmarks.trees import Trees, run_trees
from rich.console import Console


def main(args: Agent | Speed | Partition | Supervised | Trees | Kernels) -> None:
    """Run one benchmark."""
    # what is not a terminal is as wide as the tables
    console = Console(width=None if sys.stdout.isatty() else 100)
    if isinstance(args, Agent):
        run_agent(args, console)
    elif isinstance(args, Partition):
        run_partition(args, console)
    elif isinstance(args, Supervised):
        run_supervised(args, console)
    elif isinstance(args, Trees):
        run_trees(args, console)
    elif isinstance(args, Kernels):
        run_kernels(args, console)
    else:
        run_speed(args, console)


if __name__ == "__main__":
    main(
        tyro.extras.subcommand_cli_from_dict(  # type: ignore[call-overload]
            {
                "agent": Agent,
                "speed": Speed,
                "partition": Partition,
                "supervised": Supervised,
                "trees": Trees,
                "kernels": Kernels,
            }
        )
    )
