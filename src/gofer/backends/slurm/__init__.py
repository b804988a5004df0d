"""A site where Slurm assigns the nodes. gofer calls Slurm on its login node, directly or over SSH."""
