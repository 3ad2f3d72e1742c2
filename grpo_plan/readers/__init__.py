"""Edge in: files and tables to a Pilot, a GroupLog or a RunLog."""

from grpo_plan.readers.groups_reader import read_groups
from grpo_plan.readers.independence_reader import read_independence
from grpo_plan.readers.pilot_reader import read_pilot
from grpo_plan.readers.run_reader import read_run
from grpo_plan.readers.throughput_reader import read_throughput

__all__ = ["read_groups", "read_independence", "read_pilot", "read_run", "read_throughput"]
