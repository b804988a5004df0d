"""Clusters of Azure Kubernetes Service that gofer makes, shows, scales and removes."""
