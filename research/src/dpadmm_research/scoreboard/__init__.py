"""The scoreboard: every method at equal certified epsilon."""
