"""Runs on a Kubernetes cluster: one Indexed Job for each run."""
