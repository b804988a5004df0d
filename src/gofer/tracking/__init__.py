"""The local index of runs and how it is asked; a cache of the stores, never the only copy."""
