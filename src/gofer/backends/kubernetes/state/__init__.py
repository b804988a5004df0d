"""What the cluster says of a run: its state, and why it waits."""
