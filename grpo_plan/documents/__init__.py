"""Answers as JSON documents: pure functions from a result to a dict, the same for the command line and a report."""
