"""The Slurm side: calls of Slurm's programs, and the programs that run in the jobs."""
