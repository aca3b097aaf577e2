"""Protocols of experiments over several seeds, with their tables, figures and claims."""
