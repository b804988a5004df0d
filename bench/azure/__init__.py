"""(h) A client of Azure ML: `gofer` beside the official SDK, azure-ai-ml, on one simulated workspace."""
