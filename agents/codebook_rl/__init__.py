"""The agent on a codebook: two timescales in one compiled step."""
