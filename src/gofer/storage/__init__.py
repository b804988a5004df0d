"""Object stores of all kinds with one small contract; `base` has the contract."""
