"""What `scripts/benchmark.py` measures, one module per subject."""
