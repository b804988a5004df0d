"""A site where Slurm hands out the nodes, asked on its login node or from elsewhere."""
