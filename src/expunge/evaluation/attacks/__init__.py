"""Membership attacks, from population attacks to shadow models."""
