"""One attempt on one node: code, folders, packages, processes, and the files that these write.

Standard library only, Python 3.8 and newer: see gofer.core.
"""
