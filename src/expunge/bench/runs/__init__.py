"""Records grouped into runs: by task, arm and dials."""
