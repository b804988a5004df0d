"""Secrets of a run: stored in the queue's folder, given to the command, masked in logs."""
