"""The files that a run left: list, fetch, extract."""
