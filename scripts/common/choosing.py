"""Which agent a command line means, before its options are read: each agent has options of its own."""

import argparse
import sys
from collections.abc import Sequence

import gymnasium as gym

import oda_rl.envs
from oda_rl.agents.models import default_agent

assert oda_rl.envs  # registers the compiled twins


def find_algorithm(typed: Sequence[str], env_id: str) -> str:
    """The name given as --algorithm, or the default for --env-id, or else for `env_id`."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--algorithm", nargs="?")
    parser.add_argument("--env-id", "--env_id", nargs="?")
    named, _ = parser.parse_known_args(typed)
    try:
        return named.algorithm or default_agent(named.env_id or env_id).__name__
    except (gym.error.Error, ModuleNotFoundError) as error:
        sys.exit(f"There is no environment {named.env_id}: {error}")
