import base64
import contextlib
import json
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scalewall.errors import InputError
from scalewall.web import link

plain = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=20,
)


@given(plain)
def test_what_is_encoded_is_read_back(state):
    text = link.encode(state)
    assert link.decode(text) == state
    assert set(text) <= set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")


@given(st.text(max_size=200) | st.text("AB-_1", max_size=200).map("1".__add__))
def test_any_text_is_read_or_refused(text):
    with contextlib.suppress(InputError):
        link.decode(text)


def packed(data: bytes) -> str:
    packer = zlib.compressobj(9, wbits=-15)
    return "1" + base64.urlsafe_b64encode(packer.compress(data) + packer.flush()).decode().rstrip("=")


@pytest.mark.parametrize(
    "text",
    [
        packed(b'"' + b"a" * 5_000_000 + b'"'),  # unpacks to far more than it is
        packed(b"NaN"),
        packed(b"[" * 50_000),
        packed(b"\xff\xfe"),
        packed(b"{} trailing"),
        packed(b"{}")[:-1],
        packed(b"{}") + "AAAA",
        "2" + packed(b"{}")[1:],
        "",
        "1",
        "1" * 100_000,
    ],
    ids=["bomb", "nan", "deep", "not utf-8", "trailing", "cut", "more", "version", "empty", "bare", "long"],
)
def test_hostile_links_are_refused(text):
    with pytest.raises(InputError):
        link.decode(text)


def test_a_state_too_large_for_a_link_is_refused():
    import random

    noise = "".join(random.Random(0).choices("abcdefghij", k=60_000))
    with pytest.raises(InputError, match="at most"):
        link.encode({"paste": noise})


def test_links_are_short():
    run = {
        "name": "H100",
        "words": {"hardware": "h100-sxm", "duration": "6 months"},
        "device": {},
        "paste": "",
    }
    assert len(link.encode({"tab": "limits", "limits": {"active": 0, "runs": [run] * 3}})) < 300
    assert json.loads(json.dumps(link.decode(link.encode(run)))) == run
