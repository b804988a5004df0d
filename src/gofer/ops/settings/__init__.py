"""Settings files: made, imported, explained."""
