"""Environments: what the agents accept, and what it takes to make an environment acceptable."""
