"""Azure ML and what it gives access to: its computes, attached Kubernetes clusters (ITP) and Singularity."""
