"""Choice of the codec for the observations of a space."""

from gymnasium import spaces

from oda_rl.agents.observations import ObservationCodec
from oda_rl.agents.one_hot import OneHotCodec
from oda_rl.agents.principal_codec import Components, PrincipalCodec


def make_codec(
    space: spaces.Space,
    table: bool,
    one_hot: bool = False,
    components: dict[str, Components] | None = None,
) -> ObservationCodec:
    """Make the codec for the observations of a space.

    Parameters
    ----------
    space : gymnasium.spaces.Space
        The space of the observations.
    table : bool
        Whether the learner can keep a table.
    one_hot : bool, default=False
        Whether the observations of a Box are one-hot.
    components : dict of str to Components, optional
        Principal components of the parts that are too large for a codebook, once they are known.

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
    if one_hot:
        return OneHotCodec(space)
    if PrincipalCodec.suits(space):
        return PrincipalCodec(space, components)
    return ObservationCodec(space, table)
