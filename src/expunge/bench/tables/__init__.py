"""Tables over the records of a protocol: summaries, the paper's tables, pivots."""
