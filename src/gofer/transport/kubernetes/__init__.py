"""A Kubernetes cluster: kubeconfig, credentials, and a client of its API."""
