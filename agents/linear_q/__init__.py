"""The baselines of the papers and of the field: linear Sarsa(lambda) and Q(lambda)."""
