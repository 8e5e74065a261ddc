"""Whether environments can be rendered, and how."""

import gymnasium as gym


def render_modes(env_id: str) -> list[str]:
    """The render modes of an environment. Raises the errors of `gymnasium.make`."""
    env = gym.make(env_id)
    modes = env.metadata.get("render_modes") or ()
    env.close()
    return list(modes)


def evaluate_command(model: str, env_id: str | None) -> str:
    """The command that evaluates a model, in a window if its environment can be shown in one."""
    try:
        seen = env_id is not None and "human" in render_modes(env_id)
    except (gym.error.Error, ModuleNotFoundError):
        seen = False  # the environment is not installed here
    return f"python scripts/evaluate.py {model}{' --render' if seen else ''}"
