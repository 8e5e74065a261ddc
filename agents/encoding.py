"""What is known of the observations of an environment, and the codec that reads them accordingly."""

from typing import Any, NamedTuple

import numpy as np
from gymnasium import spaces

from oda_rl.agents.codecs import LARGE, Components, OneHotCodec, PrincipalCodec, SeenStatesCodec
from oda_rl.agents.observations import ObservationCodec


class Encoding(NamedTuple):
    """What has been found out about observations: how they are read.

    `one_hot` says whether those of a Box are one-hot; `components` are the principal components of parts
    that are too large for a codebook, by their index as a string; `states` are the numbers of
    observations that recur, by their digests.
    """

    one_hot: bool = False
    components: dict[str, Components] | None = None
    states: dict[int, int] | None = None

    def describe(self) -> dict[str, Any]:
        """Plain values and arrays, without what is not known."""
        parts = {place: own._asdict() for place, own in (self.components or {}).items()}
        found: dict[str, Any] = {"one_hot": self.one_hot}
        if parts:
            found["components"] = parts
        if self.states is not None:
            found["states"] = np.array(list(self.states), dtype=np.int64)
        return found

    @classmethod
    def restore(cls, state: Any) -> "Encoding":
        """That of which `describe` returned a part of `state`."""
        parts = {place: Components(**own) for place, own in state.get("components", {}).items()}
        states = (
            {own: k for k, own in enumerate(state["states"].tolist())} if "states" in state else None
        )
        return cls(state["one_hot"], parts or None, states)


NOTHING_KNOWN = Encoding()


def make_codec(space: spaces.Space, table: bool, encoding: Encoding = NOTHING_KNOWN) -> ObservationCodec:
    """Make the codec for the observations of a space.

    Parameters
    ----------
    space : gymnasium.spaces.Space
        The space of the observations.
    table : bool
        Whether the learner can keep a table.
    encoding : Encoding, optional
        What is known of the observations; of large ones nothing is known at first.

    Returns
    -------
    ObservationCodec

    Raises
    ------
    ValueError
        If the space is not supported.

    Examples
    --------
    >>> type(make_codec(spaces.Box(0, 255, (64, 64, 3)), True)).__name__
    'PrincipalCodec'
    """
    if encoding.one_hot:
        return OneHotCodec(space)
    if encoding.states is not None:
        return SeenStatesCodec(space, encoding.states)
    if PrincipalCodec.suits(space):
        return PrincipalCodec(space, encoding.components)
    return ObservationCodec(space, table)


def refuse_large(codec: ObservationCodec, what: str) -> None:
    """Raise a ValueError that begins with `what` if observations are too large to be read as numbers."""
    if isinstance(codec, PrincipalCodec | SeenStatesCodec):
        how = "numbered as they are seen" if codec.is_table else "reduced to principal components"
        raise ValueError(
            f"{what} for observations in {codec.space}, which are {how}; Boxes of up to {LARGE} numbers "
            "are accepted. Wrap the environment in gymnasium.wrappers.ResizeObservation or "
            "TransformObservation."
        )
