"""Agents whose codebook has grown after two thousand steps."""

from oda_rl.agents import TwoTimescaleQ

QUICK = {
    "warmup_steps": 200,
    "growth_steps": 1000,
    "growth_cells": 10,
    "max_cells": 20,
    "growth_fraction": 1.0,
}


def make_model(env="CartPole-v1", **options):
    return TwoTimescaleQ(env=env, seed=0, **{**QUICK, **options})
