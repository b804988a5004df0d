"""Submit a command as a run: checks, code, secrets, record."""
