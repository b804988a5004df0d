"""Keep the files that a command writes beside its code: which files, how much of them, and where."""
