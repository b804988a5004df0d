"""A drill of submissions over lines that fail: none may be lost, none may run twice."""
