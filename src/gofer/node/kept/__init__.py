"""The files that a command writes beside its code: which are kept, how much, and where."""
