"""Repair interrupted runs, and rebuild the ledger."""
