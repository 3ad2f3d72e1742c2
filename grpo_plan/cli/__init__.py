"""Command line: parse, call the library, print."""
