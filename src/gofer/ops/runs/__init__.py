"""Runs that were submitted: find, observe, explain, stop."""
