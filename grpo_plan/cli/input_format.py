"""``--format``: an output, or how the input is read."""

from __future__ import annotations

from grpo_plan.errors import DomainError


def check_format(name: str) -> str:
    """The name of a format that is read; one line where it is neither that nor an output."""
    from grpo_plan.readers.registry import format_named

    try:
        format_named(name)
    except DomainError as error:
        meant = str(error).partition("See grpo-plan formats.")[2]
        raise DomainError(
            f"--format must be text or json, or a format that is read (grpo-plan formats lists them); got {name!r}."
            f"{meant}"
        ) from None
    return name
