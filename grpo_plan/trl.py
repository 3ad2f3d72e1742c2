"""A callback that watches a run of TRL's GRPO trainer while it trains."""
