"""What gofer asks Slurm on its login node: submit, status, stop, prune, nodes."""
