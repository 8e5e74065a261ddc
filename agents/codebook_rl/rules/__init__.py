"""Learning rules of the fast timescale; they are interchangeable."""
