"""Agents that learn over the cells of a codebook: two timescales in one compiled step."""
