"""Functions as jobs, on the node: the program that calls the function, and the file of its result."""
