"""The logs of a run: which there are, their end, the whole, as they grow."""
