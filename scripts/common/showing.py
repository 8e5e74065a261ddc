"""Whether there is anything to be seen of an environment, and in which ways."""

import gymnasium as gym


def render_modes(env_id: str) -> list[str]:
    """The ways in which an environment can be rendered. Raises as `gymnasium.make` does."""
    env = gym.make(env_id)
    modes = env.metadata.get("render_modes") or ()
    env.close()
    return list(modes)


def evaluate_command(model: str, env_id: str | None) -> str:
    """What to type to evaluate a model, in a window if its environment has one."""
    try:
        seen = env_id is not None and "human" in render_modes(env_id)
    except (gym.error.Error, ModuleNotFoundError):
        seen = False  # it was trained elsewhere
    return f"python scripts/evaluate.py {model}{' --render' if seen else ''}"
