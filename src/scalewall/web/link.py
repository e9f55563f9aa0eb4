"""A page's whole state in its address: compact, of bounded size, and read back without trust."""

from __future__ import annotations

import base64
import binascii
import json
import zlib
from typing import Any

from scalewall.errors import InputError

VERSION = "1"
MOST_CHARACTERS = 12_000
"""Of a link's state; browsers and chat programs cut longer addresses."""

MOST_BYTES = 100_000
"""Of what a link's state unpacks to."""


def encode(state: Any) -> str:
    """Return `state`, made of what JSON holds, as text that an address can carry.

    Raises
    ------
    InputError
        If it is too large for a link.
    """
    raw = json.dumps(state, separators=(",", ":"), ensure_ascii=False, sort_keys=True, allow_nan=False)
    data = raw.encode("utf-8", "replace")
    packer = zlib.compressobj(9, wbits=-15)
    packed = packer.compress(data) + packer.flush()
    text = VERSION + base64.urlsafe_b64encode(packed).decode("ascii").rstrip("=")
    if len(text) > MOST_CHARACTERS or len(data) > MOST_BYTES:
        raise InputError("link", f"at most {MOST_CHARACTERS:,} characters", f"{len(text):,} characters")
    return text


def decode(text: str) -> Any:
    """Return the state that `encode` wrote.

    Raises
    ------
    InputError
        If `text` is none of its work, or unpacks to too much.
    """
    must = "one that this page made"
    if len(text) > MOST_CHARACTERS:
        hint = f"It has {len(text):,} characters, more than {MOST_CHARACTERS:,}."
        raise InputError("link", must, text[:40], hint)
    if text[:1] != VERSION:
        raise InputError("link", must, text)
    body = text[1:]
    try:
        packed = base64.b64decode(body + "=" * (-len(body) % 4), altchars=b"-_", validate=True)
        unpacker = zlib.decompressobj(wbits=-15)
        data = unpacker.decompress(packed, MOST_BYTES)
        if not unpacker.eof or unpacker.unused_data:  # cut off, or more than is allowed
            raise InputError("link", must, text)
        return json.loads(data.decode("utf-8"), parse_constant=_no_constant)
    except (binascii.Error, zlib.error, ValueError, RecursionError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError("link", must, text) from None


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")
