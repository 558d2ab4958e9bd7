"""Requests that nobody friendly would send, made from the OpenAPI document: every property gets what it is not.

Everything is drawn from a seed, so that a request that breaks the service can be sent again.
"""

from __future__ import annotations

import json
import random
import struct
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from tests.service.made import png

Schema = dict[str, Any]
Given = Callable[[random.Random], dict[str, Any]]


@dataclass(frozen=True)
class Hostile:
    """A request to send."""

    method: str
    path: str
    content: bytes = b""
    params: list[tuple[str, str]] = field(default_factory=list)
    headers: dict[str, str] = field(default_factory=dict)


def requests(document: Schema, seed: int, each: int, given: Given | None = None) -> Iterator[Hostile]:
    """`each` hostile requests for every operation of the document that takes a body, and some for the others.

    `given` makes inputs that are almost right; else they are images.
    """
    chance = random.Random(seed)
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            bodies = operation.get("requestBody", {}).get("content", {})
            if "application/json" in bodies:
                schema = resolved(bodies["application/json"]["schema"], document)
                for _ in range(each):
                    yield _json_request(chance, path, schema, document, given or _image_given)
            elif bodies:
                for _ in range(each):
                    yield _picture_request(chance, path, operation, document)
            else:
                yield from _plain_requests(chance, path, method)


def resolved(schema: Schema, document: Schema) -> Schema:
    """The schema itself, where this is a reference to it."""
    while "$ref" in schema:
        found: Any = document
        for part in schema["$ref"].removeprefix("#/").split("/"):
            found = found[part]
        schema = found
    return schema


def _json_request(chance: random.Random, path: str, schema: Schema, document: Schema, given: Given) -> Hostile:
    body = {name: _wrong_or_right(chance, resolved(part, document)) for name, part in schema["properties"].items()}
    few = chance.choice([0.05, 0.2, 0.6])
    body = {"n": chance.randrange(1, 200), **{name: value for name, value in body.items() if chance.random() < few}}
    if chance.random() < 0.7:
        for name in ("values", "image", "row"):
            body.pop(name, None)
        body |= given(chance)
    text = json.dumps(body, allow_nan=True)
    return Hostile("POST", path, _mangled(chance, text.encode()), [], _headers(chance, "application/json"))


def _image_given(chance: random.Random) -> dict[str, Any]:
    return {"values": chance.choice([_image(chance), _image(chance), _anything(chance, 3)])}


def row_given(chance: random.Random, row: dict[str, Any]) -> dict[str, Any]:
    """The row, by names or in order, with at most one wrong value in it, or none of its values, or another column."""
    changed = dict(row)
    if chance.random() < 0.5:
        changed[chance.choice(list(row))] = _anything(chance, 1)
    if chance.random() < 0.1:
        changed[chance.choice(["", "y", "\x00", "a" * 3_000])] = chance.choice(AWKWARD)
    if chance.random() < 0.1:
        changed.pop(chance.choice(list(row)))
    return {"row": changed} if chance.random() < 0.5 else {"values": list(changed.values())}


def _image(chance: random.Random) -> Any:
    """An image of the right shape, with at most one wrong value in it."""
    rows = [[chance.random() for _ in range(4)] for _ in range(4)]
    if chance.random() < 0.4:
        wrong: list[Any] = rows[chance.randrange(4)]
        wrong[chance.randrange(4)] = chance.choice([*AWKWARD, [], {}, [0.5]])
    return [rows] if chance.random() < 0.9 else rows


AWKWARD: list[Any] = [
    None, True, False, 0, -0.0, -1, 1, 2, 1e308, -1e308, 5e-324, float("nan"), float("inf"), -float("inf"), 2**31,
    2**53, 2**63, 2**64, -(2**64), 10**300, 10**400, "", "0", "NaN", "a" * 3_000, "\x00", "\ud800", "\U0001f4a5",
    "../../etc", "{{7*7}}", [], {}, [[]], [None], {"": 1}, {"$ref": "#"}, {"__proto__": {}},
]  # fmt: skip


def _anything(chance: random.Random, depth: int) -> Any:
    kind = chance.randrange(4 if depth else 2)
    if kind < 2:
        return chance.choice(AWKWARD)
    if kind == 2:
        return [_anything(chance, depth - 1) for _ in range(chance.randrange(5))]
    return {str(chance.choice(AWKWARD))[:20]: _anything(chance, depth - 1) for _ in range(chance.randrange(4))}


def _wrong_or_right(chance: random.Random, schema: Schema) -> Any:
    """At the edges of what the schema says, beyond them, or something else entirely."""
    if "anyOf" in schema:
        schema = chance.choice(schema["anyOf"])
    if chance.random() < 0.3:
        return _anything(chance, 2)
    if "enum" in schema:
        return chance.choice([*schema["enum"], "", schema["enum"][0].upper()])
    if schema.get("type") in ("integer", "number"):
        edges = [schema[name] for name in ("minimum", "maximum", "exclusiveMaximum", "default") if name in schema]
        near = [edge + step for edge in edges for step in (-1, 0, 1, 0.5)]
        return chance.choice([*near, 3, 60, 0.2, 2_999, 3_001])
    return chance.choice([True, False]) if schema.get("type") == "boolean" else _anything(chance, 2)


def _mangled(chance: random.Random, text: bytes) -> bytes:
    """The text as it is, or cut, repeated, nested, in another encoding, or with bytes changed."""
    kind = chance.randrange(14)
    if kind == 0:
        return text[: chance.randrange(len(text))]
    if kind == 1:
        return text * 2
    if kind == 2:
        return b"[" * chance.randrange(1, 15_000)
    if kind == 3:
        return b'{"values":' * 1_500 + b"1"
    if kind == 4:
        place = chance.randrange(len(text))
        return text[:place] + bytes([chance.randrange(256)]) + text[place + 1 :]
    if kind == 5:
        return text.decode().encode("utf-16")
    if kind == 6:
        return b'{"n":' + b"9" * 5_000 + b"}"
    if kind == 7:
        return chance.choice([b"", b"null", b"0", b'"x"', b"[]", b"NaN", b"\x00" * 9, chance.randbytes(200)])
    return text


def _headers(chance: random.Random, usual: str) -> dict[str, str]:
    odd = [
        "text/plain", "application/xml", "multipart/form-data", "multipart/form-data; boundary=x", "image/png",
        "application/json; charset=utf-7", "application/x-www-form-urlencoded", "x" * 500, ";;;", "",
    ]  # fmt: skip
    given = {"content-type": usual if chance.random() < 0.8 else chance.choice(odd)}
    if chance.random() < 0.1:
        given["content-encoding"] = "gzip"
    if chance.random() < 0.1:
        given["authorization"] = chance.choice(["Bearer", "Bearer \xe9", "Basic x"])
    return given


def _picture_request(chance: random.Random, path: str, operation: Schema, document: Schema) -> Hostile:
    params = []
    for parameter in operation.get("parameters", ()):
        if chance.random() < 0.25:
            value = _wrong_or_right(chance, resolved(parameter["schema"], document))
            params.append((parameter["name"], str(value).encode("utf-8", "replace").decode()[:200]))
    if chance.random() < 0.1:
        params.append(("unknown", "1"))
    return Hostile("POST", path, chance.choice(PICTURES)(chance), params, _headers(chance, "image/png"))


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def made_png(
    width: int, height: int, before: bytes = b"", pixels: bytes = b"", depth: int = 8, colour: int = 0
) -> bytes:
    """A PNG file with any header fields."""
    header = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + _chunk(b"IHDR", header)
        + before
        + _chunk(b"IDAT", zlib.compress(pixels, 9))
        + _chunk(b"IEND", b"")
    )


def bomb(chance: random.Random) -> bytes:
    """Few bytes that say they are many pixels."""
    side = chance.choice([20_000, 100_000, 2**31 - 1])
    return made_png(side, side, pixels=b"\x00" * 1_000_000)


def text_bomb(chance: random.Random) -> bytes:
    """A picture of the right size, with megabytes of text in a few bytes before it."""
    packed = zlib.compress(b"x" * chance.choice([1 << 16, 1 << 23]), 9)
    text = _chunk(b"zTXt", b"k\x00\x00" + packed) + _chunk(b"iCCP", b"p\x00\x00" + packed)
    return made_png(4, 4, text, b"\x00" * 20)


def longer_than_it_says(chance: random.Random) -> bytes:
    """4 x 4 pixels by its header, a megabyte by its data."""
    return made_png(4, 4, pixels=b"\x00" * (1 << 20))


def changed(chance: random.Random) -> bytes:
    """A good file with some bytes changed."""
    data = bytearray(chance.choice([png(), png(kind="JPEG"), png(mode="RGBA"), png(mode="P")]))
    for _ in range(chance.randrange(1, 6)):
        data[chance.randrange(len(data))] = chance.randrange(256)
    return bytes(data)


def cut(chance: random.Random) -> bytes:
    """The beginning of a good file."""
    data = chance.choice([png(), png(kind="JPEG")])
    return data[: chance.randrange(len(data))]


def other_kind(chance: random.Random) -> bytes:
    """Something that is not a PNG or JPEG file, or not one of 8 bits."""
    return chance.choice([
        png(kind="GIF"), png(kind="TIFF"), png(kind="BMP"), b"<svg xmlns='http://www.w3.org/2000/svg'/>",
        b"%!PS-Adobe-3.0 EPSF-3.0\n", b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", chance.randbytes(300), b"",
        made_png(0, 0), made_png(4, 4, depth=16, pixels=b"\x00" * 40), made_png(4, 4, depth=3),
        made_png(4, 4, colour=9), made_png(4, 0, pixels=b""), png(400, 4), png(mode="I;16"), png(mode="1"),
    ])  # fmt: skip


def good(chance: random.Random) -> bytes:
    """A good file, so that what else is wrong is looked at."""
    return chance.choice([png(), png(kind="JPEG"), png(mode="RGB")])


Kind = Callable[[random.Random], bytes]
PICTURES: tuple[Kind, ...] = (
    bomb,
    text_bomb,
    longer_than_it_says,
    changed,
    changed,
    changed,
    cut,
    other_kind,
    other_kind,
    good,
    good,
)


def _plain_requests(chance: random.Random, path: str, method: str) -> Iterator[Hostile]:
    for other in ("GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "BREW"):
        yield Hostile(other, path, chance.randbytes(50))
    for tail in ("/", "//", "/%00", "/..%2f..%2fetc%2fpasswd", "?x=" + "y" * 5_000, "/%ff", ";a=b"):
        yield Hostile("GET", path + tail)
