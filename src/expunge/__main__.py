"""``python -m expunge``."""

from expunge.cli import main

main()
