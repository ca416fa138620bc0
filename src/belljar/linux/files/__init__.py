"""Files and mounts: which can be trusted, and how they are shown."""
