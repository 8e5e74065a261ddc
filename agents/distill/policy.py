"""A distilled policy as an agent, and the hyperparameters of distillation."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Self

from numpy.typing import NDArray

from oda_rl.agents.encoding import refuse_large
from oda_rl.agents.hyperparameters import Config, documented, setting
from oda_rl.agents.sb3.algorithm import OnlineAlgorithm

if TYPE_CHECKING:
    from oda_rl.agents.distill.learner import ProgramLearner


@documented
@dataclass(frozen=True)
class DistilledConfig(Config):
    """Hyperparameters of distillation; each is a keyword argument of `distill` and `shrink`."""

    max_cells: int = setting(10, "Maximum number of cells.", "[1, 1000]", group="Table")
    local_model: Literal["linear", "constant"] = setting(
        "linear", "Whether the preferences are linear in the observation within a cell, or constant."
    )
    cells_of: Literal["codebook", "tree"] = setting(
        "codebook",
        "Source of the cells: a codebook annealed as a whole, or the leaves of a tree, which is "
        "split where it fits the teacher worst.",
    )
    softness: float = setting(
        1.0,
        "Overlap of the cells, in units of the mean squared distance between states and their "
        "nearest codevectors. With 0, only the nearest cell is used.",
        "[0, 100]",
    )
    rounds: int = setting(
        8,
        "Number of rounds of DAgger. The first fits a table to the teacher's actions in the "
        "states that the teacher visits; later ones add its actions in the states that the "
        "previous table visits.",
        "[1, 1000]",
        group="Learning from the teacher",
    )
    steps_per_round: int = setting(5000, "Environment steps recorded in each round.", "[100, inf)")
    n_copies: int = setting(
        5, "Number of copies of the environment that are run in parallel to record states.", "[1, 1000]"
    )
    judge: Literal["return", "states"] = setting(
        "return",
        "How the best table is selected: by the mean return of evaluation episodes or, without "
        "such episodes, by the loss according to the teacher's Q values in `steps_per_round` "
        "states.",
    )
    eval_episodes: int = setting(
        50, "Number of episodes over which the return of each table is evaluated.", "[1, 100000]"
    )


class DistilledPolicy(OnlineAlgorithm):
    """A small table of cells that imitates another policy, its teacher.

    `oda_rl.agents.distill.distill` and `shrink` make it. In each cell the preferences of discrete
    actions, or the continuous action itself, are linear in the observation or constant. Cells overlap
    softly, or the nearest decides alone. Prediction, evaluation, explanation, export, saving and loading
    work as for other agents, but it does not learn from rewards.

    Attributes
    ----------
    n_cells : int
        Codevectors.
    n_parameters : int
        Numbers that determine the actions.
    learner : ProgramLearner
        `learner.program` is the table.

    References
    ----------
    Bastani, Pu and Solar-Lezama, "Verifiable Reinforcement Learning via Policy Extraction", NeurIPS
    2018, for the method of distillation.
    """

    config_class = DistilledConfig
    learning_rate = 0.0
    gamma = 1.0
    learner_path = "distill.learner.ProgramLearner"
    learner: "ProgramLearner"

    def act(self, rows: NDArray[Any]) -> NDArray[Any]:
        """Actions for the environment, for observations as rows of numbers (n, n_features)."""
        return self.actions.decode_many(self.learner.greedy(rows))

    def learn(self, *arguments: Any, **options: Any) -> Self:
        """Raise a ValueError that names `distill`, as learning from rewards is not possible."""
        raise ValueError(
            "a DistilledPolicy cannot learn from rewards; use oda_rl.agents.distill.distill(teacher, "
            "env) to fit one to a teacher."
        )

    def _load_kernels(self) -> None:
        """Do nothing: a table needs no compiled code."""

    def _make_learner(self) -> Any:
        kind: Any = self._learner_class(self.actions, self.observations)
        seen, env_id = self.observations, getattr(self, "env_id", None)
        refuse_large(seen, "Distillation is not supported")
        return kind(seen.n_features, self.actions, self.config, seen.names(env_id), env_id)
