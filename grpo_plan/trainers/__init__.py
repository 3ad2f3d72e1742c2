"""Edge out: one module per trainer, with its rules and its block of configuration."""
