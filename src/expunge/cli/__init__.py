"""The command line: parse, call, print."""

from expunge.cli._main import main as main
