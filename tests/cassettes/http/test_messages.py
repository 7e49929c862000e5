"""Bodies are held decoded, so that they can be read in a review, and searched for secrets."""

from __future__ import annotations

import gzip
import zlib

import pytest

from pytest_agenteval.cassettes.http.messages import (
    normalize_request,
    recordable_request,
    recordable_response,
)
from pytest_agenteval.cassettes.interaction import Request

BODY = '{"이름": "홍길동"}'.encode()


@pytest.mark.parametrize(
    ("coding", "raw"),
    [
        ("gzip", gzip.compress(BODY)),
        ("deflate", zlib.compress(BODY)),
        ("deflate, gzip", gzip.compress(zlib.compress(BODY))),
    ],
    ids=["gzip", "deflate", "both"],
)
def test_what_an_http_library_can_decode_is_decoded(coding: str, raw: bytes) -> None:
    """Also a coding that only httpx knows, as brotli where its package is there."""
    held = recordable_response("GET", 200, "OK", [("Content-Encoding", coding)], raw)

    assert held.body == BODY.decode()
    assert not held.headers


@pytest.mark.parametrize("coding", ["gzip", "deflate, gzip", "of-tomorrow"])
def test_what_cannot_be_decoded_stays_as_it_travelled(coding: str) -> None:
    """So does its header: whoever can read it will."""
    held = recordable_response("GET", 200, "OK", [("Content-Encoding", coding)], b"\x1f\x8bno")

    assert (held.body, held.headers["Content-Encoding"]) == (b"\x1f\x8bno", (coding,))


@pytest.mark.parametrize(
    ("coding", "raw"),
    [("gzip", gzip.compress(BODY)[:-8]), ("deflate", zlib.compress(BODY)[:-4]), ("identity", BODY)],
    ids=["gzip", "deflate", "identity"],  # gzip writes the time, and workers have to collect the same names
)
def test_of_a_body_that_was_cut_what_came_is_decoded(coding: str, raw: bytes) -> None:
    """A stream that its reader leaves at the last event lacks the end of its coding."""
    held = recordable_response("GET", 200, "OK", [("Content-Encoding", coding)], raw, whole=False)

    assert held.body == BODY.decode()


def test_a_zipped_request_is_kept_unzipped() -> None:
    """Else no secret would be found in it; what was recorded zipped answers the same request as before."""
    zipped = gzip.compress(b'{"api_key": "x"}')
    headers = [("Content-Type", "application/json"), ("Content-Encoding", "gzip")]
    request = recordable_request("POST", "https://x.test/", headers, zipped)
    assert request.body == '{"api_key": "x"}'
    assert "Content-Encoding" not in request.headers
    stored = Request("POST", "https://x.test/", zipped, {name: (value,) for name, value in headers})
    assert normalize_request(stored).body == request.body
    broken = recordable_request("POST", "https://x.test/", headers, b"no zip")
    assert broken.body == "no zip"
