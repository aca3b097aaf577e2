"""``expunge demo``."""

from __future__ import annotations


def demo_command() -> None:
    """Demo."""
