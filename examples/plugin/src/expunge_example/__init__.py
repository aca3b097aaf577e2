"""A template of a plug-in for expunge: one part of each kind."""
