"""Vectors as bytes: what an embedding is kept as, four bytes a number, as providers send them."""

from __future__ import annotations

import sys
from array import array
from collections.abc import Sequence


def pack(vectors: Sequence[Sequence[float]]) -> bytes:
    """Return the vectors one after the other, little-endian, in single precision."""
    numbers = array("f", (number for vector in vectors for number in vector))
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers.tobytes()


def unpack(data: bytes, dimensions: int) -> list[list[float]]:
    """Return the vectors that `pack` wrote, `dimensions` numbers each."""
    numbers = array("f")
    numbers.frombytes(data)
    if sys.byteorder == "big":
        numbers.byteswap()
    floats = numbers.tolist()
    return [floats[start : start + dimensions] for start in range(0, len(floats), dimensions)]
