"""Commands that run a command and look at runs."""
