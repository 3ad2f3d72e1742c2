"""Reports: one page of a pilot, its plan and its run."""
