"""Edge in: files and tables to a Pilot."""

from grpo_plan.readers.pilot_reader import read_pilot

__all__ = ["read_pilot"]
