"""A server that answers as Kubernetes' API does, to those whom its roles allow what they ask.

It keeps Jobs. What becomes of one is said by the name of Dagster's job, in a label: `fails` has a
pod that has ended, `vanishes` none any more; others, as `works` and `hangs`, have one that runs.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

_PATH = re.compile(
    r"/apis?(?:/(?P<group>[a-z]+))?/v1/namespaces/(?P<namespace>[^/]+)"
    r"/(?P<kind>[a-z]+)(?:/(?P<name>[^/]+)(?:/(?P<part>[a-z]+))?)?"
)
_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_WORKS: dict[str, object] = {"active": 1}
_STATUSES: dict[str, dict[str, object]] = {
    "works": _WORKS,
    "hangs": {"active": 1},
    "fails": {"failed": 1},
    "vanishes": {"failed": 1},
}
_ENDED = {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}


class Right(NamedTuple):
    """What a rule of a role allows, and what a request asks for."""

    group: str
    resource: str
    verb: str


def rights(documents: Sequence[Mapping[str, Any]], account: str, namespace: str) -> set[Right]:
    """What a service account may do in its namespace, by the roles that are bound to it."""
    here = [one for one in documents if one["metadata"].get("namespace") == namespace]
    accounts = {one["metadata"]["name"] for one in here if one["kind"] == "ServiceAccount"}
    subject = {"kind": "ServiceAccount", "name": account, "namespace": namespace}
    bound = {
        one["roleRef"]["name"]
        for one in here
        if one["kind"] == "RoleBinding" and subject in one["subjects"] and account in accounts
    }
    return {
        Right(group, resource, verb)
        for role in here
        if role["kind"] == "Role" and role["metadata"]["name"] in bound
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


@dataclass(slots=True)
class Cluster:
    """What may be done with it, what was asked of it, and its Jobs by name."""

    allowed: set[Right]
    url: str = ""
    used: set[Right] = field(default_factory=set)
    refused: list[Right] = field(default_factory=list)
    jobs: dict[str, dict[str, Any]] = field(default_factory=dict)

    def answer(self, method: str, address: str, body: dict[str, Any]) -> tuple[int, object]:
        """The status and the body of the answer to a request."""
        parts = urlsplit(address)
        path = _PATH.fullmatch(parts.path)
        assert path, address
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        reading = "get" if path["name"] else "watch" if "watch" in query else "list"
        resource = "/".join(filter(None, (path["kind"], path["part"])))
        right = Right(path["group"] or "", resource, _VERBS.get(method, reading))
        if right not in self.allowed or path["namespace"] != "strata":
            self.refused.append(right)
            return 403, {"kind": "Status", "status": "Failure", "reason": "Forbidden", "code": 403}
        self.used.add(right)
        return self._do(right, path["name"], query, body)

    def _do(
        self, right: Right, name: str, query: Mapping[str, str], body: dict[str, Any]
    ) -> tuple[int, object]:
        match right.resource, right.verb:
            case "jobs", "create":
                self.jobs[body["metadata"]["name"]] = body
                return 201, body
            case "jobs", "delete":
                return _found(self.jobs.pop(name, None))
            case "jobs/status", "get":
                return _found(self._job(name))
            case "jobs", "list":
                return 200, {"items": [self._job(_selected(query))]}
            case "pods", "list":
                pods = [pod for job in self.jobs.values() for pod in _pods(job)]
                wanted = _selected(query)
                return 200, {"items": [pod for pod in pods if wanted in pod["metadata"].values()]}
            case "pods", "delete":
                return 200, {"metadata": {"name": name}}
            case "pods/log", "get":
                return 200, "Killed\n"
            case "events", "list":
                event = {"reason": "Evicted", "message": "The node was low on memory."}
                about = {"metadata": {}, "involvedObject": {"name": _selected(query)}}
                return 200, {"items": [{**about, **event, "type": "Warning"}]}
        raise AssertionError(right)

    def _job(self, name: str) -> dict[str, Any] | None:
        job = self.jobs.get(name)
        started = {"startTime": "2026-01-01T00:00:00Z"}
        return job and {**job, "status": {**started, **_STATUSES.get(_fate(job), _WORKS)}}


@contextmanager
def kubernetes_server(cluster: Cluster) -> Iterator[Cluster]:
    """Serve a cluster for the length of a block."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length) or "{}")
            code, answer = cluster.answer(self.command, self.path, body)
            kind = "text/plain" if isinstance(answer, str) else "application/json"
            told = (answer if isinstance(answer, str) else json.dumps(answer)).encode()
            self.send_response(code)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(told)))
            self.end_headers()
            self.wfile.write(told)

        do_POST = do_PUT = do_PATCH = do_DELETE = do_GET  # noqa: N815

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        cluster.url = f"http://127.0.0.1:{server.server_port}"
        try:
            yield cluster
        finally:
            server.shutdown()
            thread.join()


def _found(thing: object) -> tuple[int, object]:
    missing = {"kind": "Status", "status": "Failure", "reason": "NotFound", "code": 404}
    return (200, thing) if thing else (404, missing)


def _selected(query: Mapping[str, str]) -> str:
    """The one name that a selector of fields or labels asks for."""
    return (query.get("labelSelector") or query["fieldSelector"]).partition("=")[2]


def _fate(job: Mapping[str, Any]) -> str:
    fate: str = job["metadata"]["labels"]["dagster/job"]
    return fate


def _pods(job: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    fate, name = _fate(job), job["metadata"]["name"]
    if fate == "vanishes":
        return
    state = _ENDED if fate == "fails" else {"running": {"startedAt": "2026-01-01T00:00:00Z"}}
    container = {"name": "dagster", "image": "strata", "imageID": "", "restartCount": 0}
    yield {
        # Where each value is looked for: the name of its own, and that of its Job as a label is.
        "metadata": {"name": f"{name}-pod", "generateName": name},
        "spec": {"containers": [{"name": "dagster"}]},
        "status": {
            "phase": "Failed" if fate == "fails" else "Running",
            "containerStatuses": [{**container, "ready": True, "state": state}],
        },
    }
