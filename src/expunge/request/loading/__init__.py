"""The model and the data that a request is about."""
