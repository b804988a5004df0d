"""The use cases: what the command line, the Python API and the web do.

The only place that joins the parts.
"""
