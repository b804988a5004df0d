"""Two versions of gofer that share one home: the last commit before a renaming, and this checkout."""
