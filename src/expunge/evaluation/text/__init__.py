"""Metrics and membership attacks for causal language models."""
