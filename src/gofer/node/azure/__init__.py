"""The program that Azure ML starts on each node of a job."""
