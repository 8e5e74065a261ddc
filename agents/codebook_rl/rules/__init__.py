"""Learning rules of the fast timescale; one can take the place of another."""
