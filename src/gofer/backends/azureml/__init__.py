"""Azure ML and what is reached through it: its computes, Kubernetes (ITP), Singularity."""
