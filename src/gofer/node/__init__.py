"""One attempt on one node: code, folders, packages, processes, and what they write.

Standard library only, Python 3.8 and newer: see gofer.core.
"""
