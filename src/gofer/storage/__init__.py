"""Object stores behind one small contract; see `base`."""
