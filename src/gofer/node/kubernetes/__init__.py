"""The program that runs in each pod of a run on Kubernetes."""
