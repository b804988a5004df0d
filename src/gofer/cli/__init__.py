"""The command line: one module per command, and each parses, calls ops and prints the result.

No other layer imports this package. The module of a command is loaded only when the command is called.
"""
