"""A server on loopback that speaks a provider's APIs over real HTTP; a test says how it behaves."""

from __future__ import annotations

import contextlib
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator


class Provider(ThreadingHTTPServer):
    """Answers `/v1/responses` and `/v1/chat/completions`.

    Attributes:
        text: what the model answers.
        status: HTTP status of the next answers.
        requests: what was sent, with its path.
    """

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.text = "low-pass filter, cutoff"
        self.status = 200
        self.requests: list[dict[str, Any]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"

    def answer(self, path: str) -> dict[str, Any]:
        if path.endswith("/responses"):
            content = [{"type": "output_text", "text": self.text, "annotations": []}]
            message = {"id": "m1", "type": "message", "role": "assistant", "status": "completed", "content": content}
            usage = {
                "input_tokens": 7,
                "input_tokens_details": {"cached_tokens": 2},
                "output_tokens": 3,
                "output_tokens_details": {"reasoning_tokens": 0},
                "total_tokens": 10,
            }
            head = {"id": "resp_1", "object": "response", "created_at": 1, "status": "completed", "model": "m"}
            return {**head, "output": [message], "usage": usage}
        choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": self.text}}
        usage = {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}
        head = {"id": "c1", "object": "chat.completion", "created": 1, "model": "m"}
        return {**head, "choices": [choice], "usage": usage}


class _Handler(BaseHTTPRequestHandler):
    server: Provider

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.requests.append({"path": self.path, **asked})
        ok = self.server.status == 200
        body = self.server.answer(self.path) if ok else {"error": {"message": "the secret text of the request"}}
        self.send_response(self.server.status)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(json.dumps(body).encode())

    def log_message(self, *_: Any) -> None:
        """Quiet."""


@contextlib.contextmanager
def running() -> Iterator[Provider]:
    """A provider until the end of the block."""
    server = Provider()
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
