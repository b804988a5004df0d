"""The fault drill on a real Kubernetes cluster: its API fails, and its pods, nodes and servers are lost."""
