"""Read the logs of a run: list them, show their end, read them completely, follow them."""
