"""Programs that drive one competitor each; every one prints a single line of JSON.

They are started by path with the competitor's own interpreter, so they import the standard library and that
competitor alone, never `bench` or each other. Times are `time.perf_counter()`, which on Linux is one clock
for all processes.
"""
