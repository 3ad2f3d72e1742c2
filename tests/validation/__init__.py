"""The testbed of docs/validation.md; needs the extra ``validation``."""
