"""Unlearn until the forgotten records are treated like unseen ones, and no further."""
