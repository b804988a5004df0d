"""From a command to a run that was sent: checks, code, secrets, record."""
