"""Pictures of a run: what its groups are made of over the steps, and the dead fraction against the plan."""
