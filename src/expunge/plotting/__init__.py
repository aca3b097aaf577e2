"""Figures that audits, requests and benchmarks share."""
