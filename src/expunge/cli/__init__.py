"""The command line: parse, call, print."""

from expunge.cli.main import main as main
