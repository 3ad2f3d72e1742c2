"""Mutants of files: bytes, lines, values of JSON, columns of tables, members of archives; each from a seed alone."""

from __future__ import annotations

import gzip
import io
import json
import random
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from tests.fuzz_corpus import Files, Source, sources

Key = str | int
RAW = {  # what no Python value is written as: text that takes the place of a mark
    "@huge float@": "1e400", "@minus huge float@": "-1e400", "@huge int@": "9" * 400, "@absurd int@": "9" * 5000,
    "@deep@": "[" * 3000 + "]" * 3000, "@nested@": "[" * 700 + "]" * 700, "@less nested@": "[" * 300 + "]" * 300, "@deep object@": '{"a":' * 2000 + "1" + "}" * 2000, "@int64@": str(2**63),
    "@minus int64@": str(-(2**63) - 1), "@surrogate@": '"\\ud800 x"', "@tiny@": "1e-400", "@control@": '"a\\u0007\\nb"',
    "@odd number@": '"\u00b2"', "@tiny text@": '"1e-999999999"', "@huge text@": '"1e999999999"',
    "@long digits@": '"' + "7" * 5000 + '"', "@words@": '"' + "x " * 3000 + '"', "@twice@": '{"a": 1, "a": 2}',
    "@fraction@": '"' + "1" * 5000 + "/" + "2" * 5000 + '"', "@markup@": '"[bold]<b>%s{0}\\\\x1b[31m"',
    "@uid@": '"a_' + "1" * 5000 + "_" + "2" * 5000 + '"', "@long fraction@": "0." + "3" * 5000,
}  # fmt: skip
PLAIN: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2, 0.5, -0.0, 7, 2**31, 2**53 + 1, float("nan"), float("inf"), -float("inf"), "", " ",
    "x", "nan", "0", "1", "true", "C", "1.5", "1,5", [], [None], [1], [1, 0], ["a"], [[]], [{}], {}, {"a": 1},
    {"value": 1}, {"score": None}, [[1, 2], [3]], "[1]", "{}", "pad_0_0", "a_0_0", "length", "aborted", -5, 1e-320,
    1e308, "\ufeff", "\u2028", "'", "\U0001f600",
)  # fmt: skip
NO_REWARDS: tuple[Any, ...] = ([1], [[]], {}, {"a": 1}, "x", "1,5", "@deep@", "@huge int@", "@surrogate@", "@control@")
BYTES = (b"\x00", b"\xff", b"\xfe\xff", b"\xef\xbb\xbf", b"\r\n", b"\r", b"\n", b"\n\n", b" ", b"{", b"}", b"[", b'"',
         b"\\", b"PK\x03\x04", b"PAR1", b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"\xc3", b"\xed\xa0\x80", b"-", b"e", b",")  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """A changed source: what was done, its files, and the line that was changed where it is one line only."""

    what: str
    files: Files
    file: str | None = None
    line: int | None = None


def dumps(value: Any) -> bytes:
    """JSON, with the texts that stand for what Python cannot write."""
    text = json.dumps(value)
    for mark, raw in RAW.items():
        if mark in text:
            text = text.replace(f'"{mark}"', raw)
    return text.encode("utf-8", "surrogatepass")


def odd_value(rng: random.Random) -> Any:
    """Something that hardly any field expects."""
    return rng.choice(PLAIN if rng.random() < 0.7 else tuple(RAW))


def paths_of(value: Any, depth: int = 6) -> list[tuple[Key, ...]]:
    """Paths to everything inside a value."""
    found: list[tuple[Key, ...]] = []
    items: Iterator[tuple[Key, Any]] = iter(())
    if depth and isinstance(value, dict):
        items = iter(value.items())
    elif depth and isinstance(value, list):
        items = iter(list(enumerate(value))[:6] + list(enumerate(value))[-2:])
    for key, inner in items:
        found.append((key,))
        found += [(key, *rest) for rest in paths_of(inner, depth - 1)]
    return found


def put(value: Any, path: Sequence[Key], new: Any) -> None:
    """Set what lies at a path."""
    for key in path[:-1]:
        value = value[key]
    value[path[-1]] = new


def change(value: Any, rng: random.Random) -> str:
    """Change a JSON value in place at a random path; says what was done."""
    paths = paths_of(value)
    if not paths:
        return "nothing"
    path = rng.choice(sorted(paths, key=str) if rng.random() < 0.6 else [p for p in paths if len(p) == 1])
    where = ".".join(map(str, path))
    parent = value
    for key in path[:-1]:
        parent = parent[key]
    how = rng.choice(("replace",) * 6 + ("remove", "remove", "rename", "nest", "unnest", "move"))
    last = path[-1]
    if how == "remove":
        del parent[last]
        return f"removed {where}"
    if how == "rename" and isinstance(parent, dict):
        parent[rng.choice((f"{last}_2", str(last).upper(), "", "\ud800", "a\nb"))] = parent.pop(last)
        return f"renamed {where}"
    if how == "nest":
        parent[last] = [parent[last]] if rng.random() < 0.5 else {"value": parent[last]}
        return f"nested {where}"
    if how == "unnest" and isinstance(parent[last], list) and parent[last]:
        parent[last] = parent[last][0]
        return f"unnested {where}"
    if how == "move":
        other = rng.choice(paths)
        try:
            inner: Any = value
            for key in other:
                inner = inner[key]
            parent[last] = json.loads(json.dumps(inner))
        except (KeyError, IndexError, TypeError):
            parent[last] = None
        return f"{where} is now what {'.'.join(map(str, other))} was"
    new = odd_value(rng)
    parent[last] = new
    return f"{where} = {str(new)[:30]!r}"


# --- bytes and lines ------------------------------------------------------------------------------------------------


def _bytes(data: bytes, rng: random.Random) -> tuple[bytes, str]:
    how = rng.choice(("flip", "flip", "flips", "cut", "cut", "head", "insert", "insert", "slice", "double", "zeros"))
    at, size = rng.randrange(len(data) + 1), len(data)
    stop = min(size, at + rng.choice((1, 2, 8, 100, 4000)))
    if how == "flip" and size:
        at = min(at, size - 1)
        return data[:at] + bytes([data[at] ^ (1 << rng.randrange(8))]) + data[at + 1 :], f"flipped a bit of byte {at}"
    if how == "flips" and size:
        out = bytearray(data)
        for _ in range(rng.choice((2, 10, 100))):
            out[rng.randrange(size)] = rng.randrange(256)
        return bytes(out), "random bytes"
    if how == "cut":
        return data[:at], f"cut off at byte {at}"
    if how == "head":
        return data[at:], f"begins at byte {at}"
    if how == "slice":
        return data[:at] + data[stop:], f"without bytes {at} to {stop}"
    if how == "double":
        return data[:stop] + data[at:], f"bytes {at} to {stop} twice"
    if how == "zeros":
        return data[:at] + b"\x00" * (stop - at) + data[stop:], f"zeros from byte {at} to {stop}"
    new = rng.choice(BYTES)
    return data[:at] + new + data[at:], f"{new!r} at byte {at}"


def _lines(data: bytes, rng: random.Random, source: Source) -> tuple[bytes, str]:
    lines = data.splitlines(keepends=True)
    if not lines:
        return data, "nothing"
    i, j = rng.randrange(len(lines)), rng.randrange(len(lines))
    how = rng.choice(
        "drop twice swap blank cut join reverse shuffle crlf bom other garbage null array concat noend".split()
    )
    if how == "drop":
        del lines[i]
    elif how == "twice":
        lines.insert(j, lines[i])
    elif how == "swap":
        lines[i], lines[j] = lines[j], lines[i]
    elif how == "blank":
        lines.insert(i, rng.choice((b"\n", b"  \n", b"\r\n", b"\t\n", b"\x0c\n")))
    elif how == "cut":
        lines[i] = lines[i][: rng.randrange(len(lines[i]))] + (b"\n" if rng.random() < 0.7 else b"")
    elif how == "join":
        lines[i] = lines[i].rstrip(b"\n")
    elif how == "reverse":
        lines.reverse()
    elif how == "shuffle":
        rng.shuffle(lines)
    elif how == "crlf":
        lines = [line.rstrip(b"\n") + b"\r\n" for line in lines]
    elif how == "bom":
        lines[i if rng.random() < 0.5 else 0] = b"\xef\xbb\xbf" + lines[i]
    elif how == "other":
        other = rng.choice([s for s in sources() if s.rows])
        lines.insert(i, rng.choice(other.files[other.data[0]].splitlines(keepends=True)))
    elif how == "garbage":
        lines[i] = rng.choice((b"{}\n", b"x\n", b"{\n", b"1\n", b'"a"\n', b"\xff\n", b"\x00\n", b"{}{}\n", b"[[[\n"))
    elif how == "null":
        lines[i] = b"null\n"
    elif how == "array":
        return b"[" + b",".join(line.rstrip(b"\n") for line in lines) + b"]", "lines as an array"
    elif how == "concat":
        lines = [line.rstrip(b"\n") for line in lines]
    elif how == "noend":
        lines[-1] = lines[-1].rstrip(b"\n")
    return b"".join(lines), f"line {i + 1}: {how}"


def _json(data: bytes, rng: random.Random) -> tuple[bytes, str, int | None] | None:
    """A change of one value in one line, or in the document; None where the file is neither."""
    lines = data.splitlines(keepends=True)
    try:
        if len(lines) > 1:
            i = rng.randrange(len(lines))
            row = json.loads(lines[i])
            what = change(row, rng)
            lines[i] = dumps(row) + b"\n"
            return b"".join(lines), f"line {i + 1}: {what}", i + 1
    except ValueError:
        pass
    try:
        whole = json.loads(data)
    except ValueError:
        return None
    what = change(whole, rng)
    return dumps(whole), what, None


def _all_rows(data: bytes, rng: random.Random) -> tuple[bytes, str] | None:
    """One field of every line changed in one way."""
    try:
        rows = [json.loads(line) for line in data.splitlines() if line.strip()]
        names = sorted({key for row in rows if isinstance(row, dict) for key in row})
    except ValueError:
        return None
    if not names or not all(isinstance(row, dict) for row in rows):
        return None
    name, new = rng.choice(names), odd_value(rng)
    gone = rng.random() < 0.2
    for row in rows:
        if gone:
            row.pop(name, None)
        else:
            row[name] = new
    text = b"".join(dumps(row) + b"\n" for row in rows)
    return text, f"every {name} {'removed' if gone else '= ' + str(new)[:30]!r}"


# --- tables, archives, torch ----------------------------------------------------------------------------------------


def _table(data: bytes, rng: random.Random) -> tuple[bytes, str] | None:
    try:
        frame = pl.read_parquet(io.BytesIO(data))
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        return None
    name, height = rng.choice(frame.columns), frame.height
    how = rng.choice(
        "drop rename text null list float int bool struct binary rows none reverse twice value dates".split()
    )
    column = pl.col(name)
    try:
        if how == "drop":
            frame = frame.drop(name)
        elif how == "rename":
            frame = frame.rename({name: rng.choice((f"{name}_2", "", "a\nb", name.upper()))})
        elif how == "text":
            frame = frame.with_columns(
                pl.Series(name, [rng.choice(("x", "1", "", "nan", None)) for _ in range(height)])
            )
        elif how == "null":
            frame = frame.with_columns(
                pl.lit(None).cast(frame.schema[name] if rng.random() < 0.5 else pl.Null).alias(name)
            )
        elif how == "list":
            frame = frame.with_columns(pl.concat_list(column).alias(name))
        elif how == "float":
            odd = (float("nan"), float("inf"), 1e300, -1e19, 0.5, None, -0.0)
            frame = frame.with_columns(pl.Series(name, [rng.choice(odd) for _ in range(height)], dtype=pl.Float64))
        elif how == "int":
            odd_ints = (2**63 - 1, -(2**63), 2**53 + 1, -1, 0, 1, None)
            frame = frame.with_columns(pl.Series(name, [rng.choice(odd_ints) for _ in range(height)], dtype=pl.Int64))
        elif how == "bool":
            frame = frame.with_columns(pl.lit(True).alias(name))
        elif how == "struct":
            frame = frame.with_columns(pl.struct(name).alias(name))
        elif how == "binary":
            frame = frame.with_columns(pl.lit(b"\xff\x00").alias(name))
        elif how == "dates":
            frame = frame.with_columns(
                pl.lit(7).cast(rng.choice((pl.Date, pl.Duration, pl.Decimal(20, 2)))).alias(name)
            )
        elif how == "rows":
            frame = frame.head(rng.randrange(height + 1))
        elif how == "none":
            frame = frame.clear()
        elif how == "reverse":
            frame = frame.reverse()
        elif how == "twice":
            frame = pl.concat([frame, frame.sample(min(height, 3), seed=1)])
        elif how == "value":
            i = rng.randrange(max(height, 1))
            new = rng.choice((None, frame[name][rng.randrange(max(height, 1))] if height else None))
            values = frame[name].to_list()
            values[i] = new
            frame = frame.with_columns(pl.Series(name, values, dtype=frame.schema[name]))
        out = io.BytesIO()
        frame.write_parquet(out)
    except (pl.exceptions.PolarsError, TypeError, IndexError):
        return None
    return out.getvalue(), f"column {name}: {how}"


def _archive(data: bytes, rng: random.Random) -> tuple[bytes, str] | None:
    from backports.zstd import zipfile as archives

    try:
        with archives.ZipFile(io.BytesIO(data)) as archive:
            members = {info.filename: archive.read(info) for info in archive.infolist()}
    except Exception:
        return None
    name = rng.choice(sorted(members) if rng.random() < 0.3 else [n for n in members if "samples/" not in n] or [""])
    how = rng.choice("value value value value bytes drop rename twice empty slip".split())
    if how == "value" and (found := _json(members.get(name, b""), rng)) is not None:
        members[name], what = found[0], f"{name}: {found[1]}"
    elif how == "bytes" or how == "value":
        members[name], what = _bytes(members.get(name, b""), rng)
        what = f"{name}: {what}"
    elif how == "drop":
        members.pop(name, None)
        what = f"without {name}"
    elif how == "rename":
        members[
            rng.choice(("_journal/summaries/²", "../../x", "/etc/x", "a\nb", "samples/", "_journal/summaries/1.json"))
        ] = members.pop(name, b"")
        what = f"renamed {name}"
    elif how == "empty":
        members[name], what = b"", f"{name} is empty"
    elif how == "slip":
        members["../../../slip.json"], what = b"{}", "a member outside"
    else:
        what = "stored anew"
    out = io.BytesIO()
    kind = rng.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, 93))
    with archives.ZipFile(out, "w", kind) as archive:
        for member, text in members.items():
            archive.writestr(member, text)
    return out.getvalue(), what


def _torch(data: bytes, rng: random.Random) -> tuple[bytes, str] | None:
    import torch

    try:
        held = torch.load(io.BytesIO(data), weights_only=True)
    except Exception:
        return None
    odd = (*PLAIN, (), (1, 2), {1, 2}, b"x", torch.tensor(1.0), torch.tensor([1, 2]), torch.tensor([]), 10**400, 1 + 2j)
    paths = paths_of(held)
    path = rng.choice([p for p in paths if len(p) < 4])
    where = ".".join(map(str, path))
    if rng.random() < 0.2:
        parent = held
        for key in path[:-1]:
            parent = parent[key]
        del parent[path[-1]]
        what = f"removed {where}"
    elif rng.random() < 0.1:
        new = rng.choice(odd)
        for sample in held["samples"]:
            sample[path[-1] if len(path) == 3 else "reward"] = new
        what = f"every {path[-1]} = {str(new)[:30]!r}"
    else:
        new = rng.choice(odd)
        put(held, path, new)
        what = f"{where} = {str(new)[:30]!r}"
    out = io.BytesIO()
    torch.save(held, out)
    return out.getvalue(), what


def _folder(source: Source, files: Files, rng: random.Random) -> tuple[Files, str]:
    """A change of what lies in the folder."""
    name = rng.choice(sorted(files))
    how = rng.choice("drop copy empty other alike beside swap gz gzcut".split())
    if how == "drop" and len(files) > 1:
        del files[name]
    elif how == "copy":
        files[f"copy/{name}"] = files[name]
    elif how == "empty":
        files[name] = rng.choice((b"", b"\n", b"  ", b"{}", b"[]", b"null", b"\xef\xbb\xbf"))
    elif how in ("other", "alike", "beside"):
        other = rng.choice(sources())
        other_name = rng.choice(sorted(other.files))
        target = {"other": name, "beside": f"other_{other_name}"}.get(how, name.replace("1", "9").replace("0", "7"))
        files[target] = other.files[other_name]
        return files, f"{target} is {other_name} of {other.name}"
    elif how == "swap":
        other_name = rng.choice(sorted(files))
        files[name], files[other_name] = files[other_name], files[name]
    elif how in ("gz", "gzcut"):
        packed = gzip.compress(files.pop(name), mtime=0)
        files[name + ".gz"] = packed if how == "gz" else packed[: rng.randrange(len(packed))]
    return files, f"{name}: {how}"


def _changed(name: str, data: bytes, rng: random.Random, source: Source) -> tuple[bytes, str] | None:
    """A change that suits the kind of the file; None where it cannot be made."""
    structured = rng.random() < 0.75
    if data[:4] == b"PAR1":
        return _table(data, rng) if structured else None
    if data[:4] == b"PK\x03\x04":
        return (_torch if name.endswith(".pt") else _archive)(data, rng) if structured else None
    if data[:2] == b"\x1f\x8b":
        try:
            data = gzip.decompress(data)
        except (OSError, EOFError, zlib.error):
            return None
    way = rng.choice(("bytes", "lines", "value", "value", "all"))
    if way == "lines" and b"\n" in data:
        return _lines(data, rng, source)
    if way == "value" and (found := _json(data, rng)) is not None:
        return found[0], found[1]
    return _all_rows(data, rng) if way == "all" else None


def mutant(source: Source, seed: int) -> Mutant:
    """The mutant of a source that belongs to a seed."""
    rng = random.Random(f"{source.name} {seed}")
    files, told = dict(source.files), []
    for _ in range(1 if rng.random() < 0.85 else 3):
        if rng.random() < 0.12:
            files, what = _folder(source, files, rng)
            told.append(what)
            continue
        of_data = [name for name in source.data if name in files]
        name = rng.choice(of_data if of_data and rng.random() < 0.85 else sorted(files))
        try:
            data, what = _changed(name, files[name], rng, source) or _bytes(files[name], rng)
        except RecursionError:  # an earlier change nested values too deeply
            data, what = _bytes(files[name], rng)
        files[name] = data
        told.append(f"{name}: {what}")
    return Mutant(what="; ".join(told), files=files)


def row_mutant(source: Source, seed: int) -> Mutant:
    """A mutant in one value of one row."""
    rng = random.Random(f"{source.name} row {seed}")
    name = rng.choice(source.data)
    lines = source.files[name].splitlines(keepends=True)
    i = rng.randrange(len(lines))
    row = json.loads(lines[i])
    kind = rng.random()
    if kind < 0.3 and source.reward:
        new = rng.choice(NO_REWARDS)
        put(row, source.reward, new)
        what = f"reward = {str(new)[:30]!r}"
    elif kind < 0.6 and source.identity:
        field = rng.choice(source.identity)
        if rng.random() < 0.3:
            del row[field]
            what = f"removed {field}"
        else:
            new = odd_value(rng)
            row[field] = new
            what = f"{field} = {str(new)[:30]!r}"
    else:
        what = change(row, rng)
    lines[i] = dumps(row) + b"\n"
    return Mutant(
        what=f"{name}, line {i + 1}: {what}", files={**source.files, name: b"".join(lines)}, file=name, line=i
    )


def without_row(files: Mapping[str, bytes], name: str, line: int) -> Files:
    """The files without one line."""
    lines = files[name].splitlines(keepends=True)
    return {**files, name: b"".join(lines[:line] + lines[line + 1 :])}
