"""Bad input as data: one line per case in ``corpus``, with its expected outcome beside it."""
