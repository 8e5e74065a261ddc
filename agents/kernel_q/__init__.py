"""Q-learning with kernel machines."""
