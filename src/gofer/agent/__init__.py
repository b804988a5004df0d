"""The node side of gofer: what runs beside the user's command, and the queue of one machine.

Standard library only, Python 3.8 and newer, and no import of anything in gofer outside this package:
the same files are copied to hosts that have nothing but Python. The rest of gofer may import from here,
so that a record written on a node and the code that reads it on a laptop share one definition.
"""
