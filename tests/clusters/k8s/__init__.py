"""A Kubernetes cluster on one machine: a control plane and three nodes with their own processes and networks.

The programs are built from Go modules, and the image is made from Debian packages. No image is pulled. Files
that take long to make are cached outside the repository.
"""
