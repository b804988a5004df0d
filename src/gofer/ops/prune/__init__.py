"""Removal of what gofer keeps and no run needs."""
