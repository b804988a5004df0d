"""Programs that behave as services which cannot run here, for tests and demonstrations; not part of gofer."""
