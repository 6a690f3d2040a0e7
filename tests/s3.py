"""A store that speaks S3's protocol, for the tests: moto's, on the loopback address, in a thread of this process."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import boto3
from moto.backends import get_backend
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server

KEY, SECRET = "AKIATESTTESTTEST", "wJalrXUtnFEMI/K7MDENG/tests-only"


class Bucket:
    """A server with one bucket.

    Attributes:
        answer: a status that is given in place of an answer, None for answers.
        requests: method and path of each request.
    """

    name = "artifacts"

    def __init__(self) -> None:
        self.answer: int | None = None
        self.requests: list[tuple[str, str]] = []
        self._application = DomainDispatcherApplication(create_backend_app)
        logging.getLogger("werkzeug").setLevel(logging.ERROR)
        self._port = 0
        self.start()
        self.client.create_bucket(Bucket=self.name)

    def _serve(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        self.requests.append((environ["REQUEST_METHOD"], environ["PATH_INFO"]))
        if self.answer is None:
            found: Iterable[bytes] = self._application(environ, start_response)
            return found
        word = {403: "AccessDenied", 503: "ServiceUnavailable"}[self.answer]
        body = f"<Error><Code>{word}</Code><Message>said {word}</Message></Error>".encode()
        start_response(f"{self.answer} {word}", [("Content-Type", "text/xml"), ("Content-Length", str(len(body)))])
        return [body]

    def start(self) -> None:
        """Answer, with what was there before."""
        self._server = make_server("127.0.0.1", self._port, self._serve, threaded=True)
        self._port = self._server.server_port
        self._thread = threading.Thread(target=self._server.serve_forever, name="s3", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Refuse connections."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def endpoint(self) -> str:
        """The server's address."""
        return f"http://127.0.0.1:{self._port}"

    @property
    def environ(self) -> dict[str, str]:
        """What a program reads from its environment."""
        return {
            "AWS_ACCESS_KEY_ID": KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_ENDPOINT_URL": self.endpoint,
        }

    @property
    def client(self) -> Any:
        """A client beside ours."""
        return boto3.client(
            "s3",
            endpoint_url=self.endpoint,
            aws_access_key_id=KEY,
            aws_secret_access_key=SECRET,
            region_name="us-east-1",
        )

    def objects(self, prefix: str = "") -> dict[str, bytes]:
        """What it holds, by key."""
        listed = self.client.list_objects_v2(Bucket=self.name, Prefix=prefix).get("Contents", [])
        return {one["Key"]: self.client.get_object(Bucket=self.name, Key=one["Key"])["Body"].read() for one in listed}

    def put(self, key: str, data: bytes) -> None:
        """Replace an object, past the store."""
        self.client.put_object(Bucket=self.name, Key=key, Body=data)


@contextlib.contextmanager
def bucket() -> Iterator[Bucket]:
    """A server that is gone when the block ends."""
    server = Bucket()
    try:
        yield server
    finally:
        server.stop()
        get_backend("s3").reset()  # moto keeps what it holds for the whole process


__all__ = ["KEY", "SECRET", "Bucket", "bucket"]
