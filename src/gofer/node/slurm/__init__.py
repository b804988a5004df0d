"""The side of a Slurm site: what is asked of its login node, and the programs that run in its jobs."""
