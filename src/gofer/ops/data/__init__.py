"""Data in mapped folders and stores: list, move, remove, check."""
