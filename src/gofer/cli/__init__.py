"""The command line: one file a command, each of them parse → ops → render.

Nothing here is imported by another layer, and a command's module is loaded only when it is called.
"""
