"""Random and hostile input for gofer's command line: whatever is given, gofer answers in words.

`make fuzz` runs it. `areas` makes inputs, `harness` runs each in a forked process, `__main__` counts.
"""
