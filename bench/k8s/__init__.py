"""Part (i): gofer on a real Kubernetes beside kubectl, torchx and Kubeflow's SDK.

The cluster is that of the tests, and needs root.
"""
