"""Container images, wrapped for Singularity."""
