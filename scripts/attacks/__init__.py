"""What `torture.py` does to models, runs and files."""
