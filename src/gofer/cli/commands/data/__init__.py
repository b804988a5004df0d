"""Commands that list, move and check data."""
