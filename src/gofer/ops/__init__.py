"""The use cases of gofer. The command line, the Python API and the web all call these functions.

Only this package combines storage, snapshots, backends and the ledger.
"""
