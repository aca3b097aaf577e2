"""A protocol: experiments as a TOML file in this package."""

from pathlib import Path

QUICK = Path(__file__).with_name("quick.toml")
"""The plug-in's method with its add-on on its data, in seconds."""
