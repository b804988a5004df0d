"""What commands print: tables, facts, progress, errors, JSON."""
