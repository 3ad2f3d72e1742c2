"""Tables in the cloud, on a hub or on the web: the table engine reads them at their address, by their suffix."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from grpo_plan.errors import GrpoPlanError, PilotFormatError

if TYPE_CHECKING:
    import polars as pl

SCHEMES = frozenset("s3 s3a gs gcs az azure abfs abfss adl hf http https".split())
PARQUET, ARROW = (".parquet", ".pq"), (".arrow", ".feather", ".ipc")
CSV, TSV, JSON_LINES = (".csv",), (".tsv",), (".jsonl", ".ndjson")
SUFFIXES = (*PARQUET, *ARROW, *CSV, *TSV, *JSON_LINES)


def is_address(source: object) -> bool:
    """Whether this is an address rather than a path.

    >>> is_address("s3://bucket/rollouts/*.parquet"), is_address("rollouts.parquet")
    (True, False)
    """
    scheme, found, _ = source.partition("://") if isinstance(source, str) else ("", "", "")
    return bool(found) and scheme.lower() in SCHEMES


def scan_address(address: str, storage_options: Mapping[str, str] | None) -> tuple[pl.LazyFrame, bool]:
    """A scan of the table at an address, and whether parts of it can be read without what comes before.

    Raises:
        PilotFormatError: Its name does not say what it is.
    """
    import polars as pl

    options = dict(storage_options) if storage_options else None
    name = urlsplit(address).path.lower()
    for end in (".gz", ".zst", ".zstd"):
        name = name.removesuffix(end)
    if name.endswith(PARQUET):
        return pl.scan_parquet(address, storage_options=options), True
    if name.endswith(ARROW):
        return pl.scan_ipc(address, storage_options=options), True
    if name.endswith((*CSV, *TSV)):
        separator = "\t" if name.endswith(TSV) else ","
        return pl.scan_csv(address, separator=separator, infer_schema=False, storage_options=options), False
    if name.endswith(JSON_LINES):
        return pl.scan_ndjson(address, infer_schema_length=None, storage_options=options), False
    raise PilotFormatError(
        f"{address}: the name does not say what kind of table this is. Give an address that ends in one of "
        f"{', '.join(SUFFIXES)}."
    )


@contextmanager
def address_errors(address: str) -> Iterator[None]:
    """Whatever goes wrong at an address, as one line."""
    import polars as pl

    try:
        yield
    except GrpoPlanError:
        raise
    except (OSError, ImportError, RuntimeError, ValueError, TypeError, pl.exceptions.PolarsError) as error:
        raise _unreadable(address, error) from None
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        raise _unreadable(address, error) from None


def _unreadable(address: str, error: BaseException) -> PilotFormatError:
    reason = " ".join(str(error).split())
    if isinstance(error, FileNotFoundError) or "404" in reason or "not found" in reason.lower():
        return PilotFormatError(f"{address}: nothing is there. Check the address.")
    shown = reason[:160] + ("..." if len(reason) > 160 else "")
    return PilotFormatError(
        f"{address}: cannot be read ({shown or type(error).__name__}). Check the address and the network; credentials "
        "and other settings go into --storage-option KEY=VALUE (storage_options=)."
    )


def without_addresses(sources: list[str]) -> list[str]:
    """The sources that are paths."""
    return [s for s in sources if not is_address(os.fspath(s))]
