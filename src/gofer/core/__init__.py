"""Code that the laptop and the nodes share: states, the layout of a run's folder, files, processes, secrets.

Standard library only, Python 3.8 and newer. The packages core, objects, node, queue and remote are copied to
machines that have nothing but Python, and import nothing else of gofer. The rest of gofer may import them, so
that a record written on a node and the code that reads the record on a laptop share one definition.
"""
