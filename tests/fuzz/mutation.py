"""Mutations that parsers of lengths, lists and text tend to get wrong."""

from collections.abc import Callable, Sequence
from random import Random

INTERESTING = (0x00, 0x01, 0x7F, 0x80, 0xC0, 0xFF, 0x0A, 0x0D, 0x20, 0x2E, 0x3A, 0x2A)
MAX_SIZE = 70_000


def mutate(seed: bytes, others: Sequence[bytes], random: Random) -> bytes:
    """Return a seed with a few mutations; some of them borrow from other seeds."""
    data = bytearray(seed)
    for _ in range(1 << random.randrange(4)):
        random.choice(_MUTATIONS)(data, random)
    if random.random() < 0.1:
        other = random.choice(others)
        data = data[: random.randrange(len(data) + 1)] + other[random.randrange(len(other) + 1) :]
    return bytes(data[:MAX_SIZE])


def _place(data: bytearray, random: Random) -> int:
    return random.randrange(len(data)) if data else 0


def _flip_bit(data: bytearray, random: Random) -> None:
    if data:
        data[_place(data, random)] ^= 1 << random.randrange(8)


def _set_byte(data: bytearray, random: Random) -> None:
    if data:
        data[_place(data, random)] = random.choice(INTERESTING)


def _count(data: bytearray, random: Random) -> None:
    """Change a length by a little."""
    if data:
        place = _place(data, random)
        data[place] = (data[place] + random.choice((-2, -1, 1, 2))) & 0xFF


def _insert(data: bytearray, random: Random) -> None:
    place = _place(data, random)
    data[place:place] = random.randbytes(1 << random.randrange(6))


def _delete(data: bytearray, random: Random) -> None:
    place = _place(data, random)
    del data[place : place + (1 << random.randrange(6))]


def _repeat(data: bytearray, random: Random) -> None:
    place = _place(data, random)
    piece = data[place : place + (1 << random.randrange(8))]
    data[place:place] = piece * random.randrange(1, 4)


def _truncate(data: bytearray, random: Random) -> None:
    del data[_place(data, random) :]


_MUTATIONS: tuple[Callable[[bytearray, Random], None], ...] = (
    _flip_bit,
    _set_byte,
    _count,
    _insert,
    _delete,
    _repeat,
    _truncate,
)
