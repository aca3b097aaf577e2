"""The protocols that come with the package, as TOML."""

from importlib import resources

BUILT_IN = ("demo", "cpu", "paper")
"""Their names."""


def built_in_text(name: str) -> str:
    """The TOML of a built-in protocol."""
    return (resources.files(__name__) / f"{name}.toml").read_text(encoding="utf-8")
