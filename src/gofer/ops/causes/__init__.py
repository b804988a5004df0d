"""Find the cause of a failure in the last lines of a run, and the commands that help."""
