"""Secrets of a run: kept beside the queue, given to the command, masked in logs."""
