"""The baselines of the papers and of the literature: linear Sarsa(lambda) and Q(lambda)."""
