"""The part of the simulator that is Azure Kubernetes Service: clusters, node pools, resource groups, quotas.

What a client asks for takes time, as on the service: each change is a long operation, of which the client
reads the state. The nodes can be real: see `operations.Hook`.
"""
