"""The command of a run: launchers, placeholders, programs, process limits."""
