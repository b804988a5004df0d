"""What is asked of Slurm on its login node: submit, status, stop, prune, nodes."""
