from __future__ import annotations

from api.core.clients import Admission, RateLimiter


def _status(admission: Admission) -> int:
    return 200 if admission.refusal is None else admission.refusal.status


def _headers(limiter: RateLimiter, now: float) -> tuple[int, dict[str, str]]:
    admission = limiter.admit("192.0.2.1", now)
    return _status(admission), dict(admission.headers)


def test_a_burst_passes_and_what_comes_on_top_is_refused() -> None:
    limiter = RateLimiter(20, 3)
    seen = [_headers(limiter, 0.0) for _ in range(4)]
    assert [status for status, _ in seen] == [200, 200, 200, 429]
    assert [headers["ratelimit-remaining"] for _, headers in seen] == ["2", "1", "0", "0"]
    assert seen[-1][1] == {
        "ratelimit-limit": "20",
        "ratelimit-remaining": "0",
        "ratelimit-request-remote-addr": "192.0.2.1",
        "ratelimit-reset": "1",
        "retry-after": "1",
    }


def test_a_bucket_fills_at_its_rate_and_no_further_than_its_size() -> None:
    limiter = RateLimiter(2, 3)
    for _ in range(3):
        limiter.admit("a", 0.0)
    assert _status(limiter.admit("a", 0.4)) == 429
    assert _status(limiter.admit("a", 0.5)) == 200
    assert [_status(limiter.admit("a", 1000.0)) for _ in range(4)] == [200, 200, 200, 429]


def test_whoever_goes_on_while_refused_is_shut_out_for_ten_minutes() -> None:
    limiter = RateLimiter(1, 2)
    assert [_status(limiter.admit("a", 0.0)) for _ in range(5)] == [200, 200, 429, 429, 403]
    status, headers = _status(limiter.admit("a", 100.0)), dict(limiter.admit("a", 100.0).headers)
    assert status == 403
    assert headers["ratelimit-retry-after"] == "500"
    assert _status(limiter.admit("a", 600.0)) == 200


def test_clients_do_not_share_a_bucket() -> None:
    limiter = RateLimiter(1, 1)
    assert _status(limiter.admit("a", 0.0)) == 200
    assert _status(limiter.admit("b", 0.0)) == 200
    assert _status(limiter.admit("a", 0.0)) == 429
