"""The drill of elastic runs: many simulated agents, and faults of every kind, checked at each step."""
