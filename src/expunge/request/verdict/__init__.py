"""The verdict of a request: what is measured of the new model, the checks, and the evidence."""
