"""One module a tool: what its files look like, and how rollouts or metrics are read from them."""
