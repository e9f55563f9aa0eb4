import contextlib
import http.client
import json
import urllib.error
import urllib.request

import pytest

pytest.importorskip("dash", reason="the page needs scalewall[web]")


def get(address, headers=None, data=None):
    request = urllib.request.Request(address, data, headers or {})
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, dict(answer.headers), answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, dict(error.headers), error.read().decode()


JSON = {"Content-Type": "application/json"}


def ask(address, store, value):
    """Ask a callback of the page, as the browser does."""
    _, _, known = get(f"{address}/_dash-dependencies")
    output = next(
        one["output"]
        for one in json.loads(known)
        if one["inputs"][0]["id"] == store and not one["clientside_function"]
    )
    parts = output.strip(".").split("...")
    outputs = [dict(zip(("id", "property"), part.rsplit(".", 1), strict=True)) for part in parts]
    body = {
        "output": output,
        "outputs": outputs if len(outputs) > 1 else outputs[0],
        "inputs": [{"id": store, "property": "data", "value": value}],
        "changedPropIds": [f"{store}.data"],
    }
    status, _, text = get(f"{address}/_dash-update-component", JSON, json.dumps(body).encode())
    return status, json.loads(text)["response"] if status == 200 else text


def test_headers(address):
    status, headers, _ = get(address)
    assert status == 200
    policy = headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "unsafe-eval" not in policy
    scripts = next(part for part in policy.split(";") if "script-src" in part)
    assert "unsafe-inline" not in scripts
    assert "http" not in policy
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["X-Frame-Options"] == "DENY"
    assert headers["Referrer-Policy"] == "no-referrer"
    assert headers["Server"] == "scalewall"


def test_a_body_of_a_megabyte_is_refused(address):
    host = address.removeprefix("http://")
    with contextlib.closing(http.client.HTTPConnection(host, timeout=30)) as connection:
        connection.putrequest("POST", "/_dash-update-component")
        connection.putheader("Content-Type", "application/json")
        connection.putheader("Content-Length", "1000001")
        connection.endheaders()  # it is refused before it is sent
        assert connection.getresponse().status == 413


def test_a_body_without_end_is_refused(address):
    host = address.removeprefix("http://")
    with contextlib.closing(http.client.HTTPConnection(host, timeout=30)) as connection:
        connection.putrequest("POST", "/_dash-update-component")
        connection.putheader("Content-Type", "application/json")
        connection.putheader("Transfer-Encoding", "chunked")
        connection.endheaders()
        try:
            for _ in range(40):
                connection.send(b"10000\r\n" + b"a" * 0x10000 + b"\r\n")
            connection.send(b"0\r\n\r\n")
            status = connection.getresponse().status
        except OSError:  # cut off
            status = 413
        assert status == 413


def test_only_json_is_taken(address):
    status, _, _ = get(f"{address}/_dash-update-component", {"Content-Type": "text/plain"}, b"{}")
    assert status == 415


def test_another_name_of_the_host_is_refused(address):
    assert get(address, {"Host": "evil.example:80"})[0] == 403


@pytest.mark.parametrize("body", [b"", b"not json", b"[]", b"null", b'{"output": "x.y"}', b"{}"])
def test_nonsense_gets_no_traceback(address, body):
    status, _, text = get(f"{address}/_dash-update-component", JSON, body)
    assert status >= 400
    assert "Traceback" not in text
    assert ".py" not in text


@pytest.mark.parametrize(
    "path",
    [
        "/../../etc/passwd",
        "/assets/../server.py",
        "/%2e%2e/%2e%2e/etc/passwd",
        "/_dash-component-suites/dash/../../x",
    ],
)
def test_files_of_the_server_are_not_served(address, path):
    status, _, text = get(address + path)
    assert "root:" not in text
    assert "import" not in text or (status == 200 and text.startswith("<!DOCTYPE html>"))


@pytest.mark.parametrize("hardware", ["/etc/passwd", "../x.toml", "/etc/hostname.toml"])
def test_a_path_in_place_of_a_device_is_refused_without_a_look(address, hardware):
    run = {"name": "x", "words": {"hardware": hardware}}
    status, answer = ask(
        address, "asked-limits", {"who": "path", "token": 1, "active": 0, "runs": [run], "state": {}}
    )
    assert status == 200
    (fault,) = answer["answer-limits"]["data"]["faults"][0]
    assert fault["field"] == "hardware"
    assert "No such file" not in fault["text"]


@pytest.mark.parametrize(
    "value",
    [
        None,
        "x",
        {"runs": []},
        {"runs": [{}] * 50, "token": 1},
        {"runs": [{}], "token": "1"},
        {"runs": [{"words": {"uncertain": "x"}}], "token": 1},
    ],
)
def test_requests_that_no_page_makes_are_refused(address, value):
    status, text = ask(address, "asked-limits", value)
    assert status in (400, 204, 500)
    assert "Traceback" not in text


def test_two_visitors_get_their_own(address):
    for who, months in (("a", "2 months"), ("b", "5 months")):
        run = {"name": who, "words": {"duration": months}}
        data = {"who": who, "token": 1, "active": 0, "runs": [run], "state": {"of": who}}
        _, answer = ask(address, "asked-limits", data)
        traces = answer["picture-limits"]["data"]["data"]
        assert all(who in trace["name"] for trace in traces if trace.get("yaxis") == "y")


def test_an_older_request_is_not_refined(address):
    run = {"name": "a", "words": {"duration": "2.5 months"}}
    for token in (1, 2):
        ask(address, "asked-limits", {"who": "late", "token": token, "active": 0, "runs": [run], "state": {}})
    status, _ = ask(
        address, "next-limits", {"who": "late", "token": 1, "active": 0, "runs": [run], "state": {}}
    )
    assert status == 204


def test_a_link_that_is_none_says_so(address):
    _, answer = ask(address, "asked-link", {"text": "1garbage"})
    assert "The 'link' must be" in answer["answer-link"]["data"]["fault"]
