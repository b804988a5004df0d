"""Mapped folders of a run: copied, mounted or uploaded."""
