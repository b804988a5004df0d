"""A drill of submissions to Azure ML while the service fails: none lost, none doubled, no secret shown."""
