"""Edge in: files and tables to a Pilot."""

from grpo_plan.readers.independence_reader import read_independence
from grpo_plan.readers.pilot_reader import read_pilot
from grpo_plan.readers.throughput_reader import read_throughput

__all__ = ["read_independence", "read_pilot", "read_throughput"]
