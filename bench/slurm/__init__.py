"""(g) gofer as a client of Slurm, beside `sbatch`, `squeue` and submitit, on the cluster that the tests use.

Jobs are held: what is measured is the client, not how fast nodes start programs.
"""
