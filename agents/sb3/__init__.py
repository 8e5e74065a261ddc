"""The agents as algorithms of Stable-Baselines3, their callbacks and training loops."""
