"""What a machine can be asked: its queue, Slurm, files. The same calls in this process and over SSH."""
