"""The support vector machine of the paper's five attacks: as published, or fast and the same."""
