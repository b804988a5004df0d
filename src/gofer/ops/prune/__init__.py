"""Remove what gofer keeps and no run needs."""
