"""(f) Moving data: gofer beside azcopy, rclone and the Azure SDK, on an emulator and on a sink.

`workload` makes the files, `azurite` and `sink` are the servers, `clients` the command lines, `turns` the
order in which they are measured, `section` the tables and the bars.
"""
