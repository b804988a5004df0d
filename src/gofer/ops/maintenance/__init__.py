"""The ledger and interrupted runs, brought in order again."""
