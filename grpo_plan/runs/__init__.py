"""RunLog to Diagnosis: what a run is doing, since when, against which expectation, at what cost, and what to change."""
