#!/usr/bin/env python3
"""A model server that is as strict as real ones, for tests; also a program of its own.

`fake_provider.py` listens on 127.0.0.1, prints its port on one line, and ends when its standard
input does. What it answers is a script by count, set by POST /script with a JSON list of steps,
one per request to come:

    {"text": "..."}                          the model says this and ends
    {"calls": [["call-1", {"code": ".."}]]}  tool calls, with ids as given
    {"status": 503, "body": {...}, "retry_after": "3"}
    {"text": "...", "cut": N}                closes the connection after N bytes of the stream
    {"text": "...", "stall": N}              after N bytes nothing more comes

With no step left it says "ok". GET /requests answers what came: path, headers' key, body, and
`problem` where the request broke the protocol's rules; such a request gets 400, as real servers do.
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

MAX_REQUEST_BYTES = 16 << 20
STALL_SECONDS = 30
PIECE_CHARACTERS = 7


class Refusal(Exception):
    """The request breaks a rule of its protocol."""


def need(condition: object, why: str) -> None:
    if not condition:
        raise Refusal(why)


def check_id(call_id: object, used: set[str]) -> None:
    need(isinstance(call_id, str) and 0 < len(call_id) <= 64, f"bad call id {call_id!r}")
    need(all(c.isalnum() or c in "_-" for c in call_id), f"bad call id {call_id!r}")
    need(call_id not in used, f"call id {call_id} is used twice")
    used.add(call_id)


def check_responses(body: dict) -> None:
    need(isinstance(body.get("instructions"), str), "instructions must be a text")
    items = body.get("input")
    need(isinstance(items, list) and items, "input must be a list with items")
    open_calls: set[str] = set()
    used: set[str] = set()
    for item in items:
        kind = item.get("type", "message")
        if kind == "function_call":
            check_id(item["call_id"], used)
            open_calls.add(item["call_id"])
            need(item["name"] == "python", "unknown tool")
        elif kind == "function_call_output":
            need(item["call_id"] in open_calls, "an output without its call")
            open_calls.remove(item["call_id"])
            need(isinstance(item["output"], str), "output must be a text")
        else:
            need(not open_calls, "a message before a call's output")
            need(item["role"] in ("user", "assistant"), f"role {item['role']}")
            need(all(part["text"] for part in item["content"]), "an empty text")
    need(not open_calls, f"no output for {sorted(open_calls)}")
    need(items[-1].get("role") != "assistant", "the last item is the model's own")
    tools = body["tools"]
    need([tool["name"] for tool in tools] == ["python"], "tools")
    need({"code", "timeout_ms"} == set(tools[0]["parameters"]["properties"]), "tool parameters")


def check_chat(body: dict) -> None:
    messages = body["messages"]
    need(messages[0]["role"] == "system", "the first message must be the system's")
    open_calls: list[str] = []
    used: set[str] = set()
    for message in messages[1:]:
        role = message["role"]
        if role == "tool":
            need(message["tool_call_id"] in open_calls, "a tool message without its call")
            open_calls.remove(message["tool_call_id"])
            need(isinstance(message["content"], str), "content must be a text")
            continue
        need(not open_calls, "a message before a call's answer")
        need(role in ("user", "assistant"), f"role {role}")
        calls = message.get("tool_calls", [])
        need(message["content"] or calls, "an empty message")
        for call in calls:
            check_id(call["id"], used)
            open_calls.append(call["id"])
    need(not open_calls, f"no answer for {open_calls}")
    need([tool["function"]["name"] for tool in body["tools"]] == ["python"], "tools")


def check_anthropic(body: dict) -> None:
    need(isinstance(body.get("max_tokens"), int), "max_tokens is missing")
    need(isinstance(body.get("system"), str), "system must be a text")
    expected = "user"
    open_calls: set[str] = set()
    used: set[str] = set()
    for message in body["messages"]:
        need(message["role"] == expected, "roles must alternate, beginning with user")
        expected = "assistant" if expected == "user" else "user"
        need(message["content"], "an empty message")
        answered = set()
        for block in message["content"]:
            if block["type"] == "tool_use":
                check_id(block["id"], used)
                open_calls.add(block["id"])
                need(isinstance(block["input"], dict), "input must be an object")
            elif block["type"] == "tool_result":
                answered.add(block["tool_use_id"])
            else:
                need(block["text"], "an empty text block")
        if message["role"] == "user":
            need(answered == open_calls, "tool_use without tool_result right after it")
            open_calls = set()
    need(not open_calls, f"no result for {sorted(open_calls)}")
    need(body["messages"][-1]["role"] == "user", "the last message must be the user's")
    need([tool["name"] for tool in body["tools"]] == ["python"], "tools")


def responses_events(step: dict) -> Iterator[dict]:
    yield {"type": "response.created", "response": {"status": "in_progress"}}
    output = []
    for call_id, arguments in step.get("calls", []):
        place, text = len(output), json.dumps(arguments)
        item = {"type": "function_call", "id": f"fc_{place}", "call_id": call_id,
                "name": "python", "arguments": ""}
        yield {"type": "response.output_item.added", "output_index": place, "item": item}
        for piece in pieces(text):
            yield {"type": "response.function_call_arguments.delta", "output_index": place,
                   "item_id": item["id"], "delta": piece}
        output.append({**item, "arguments": text})
        yield {"type": "response.output_item.done", "output_index": place, "item": output[-1]}
    if "text" in step:
        for piece in pieces(step["text"]):
            yield {"type": "response.output_text.delta", "output_index": len(output),
                   "delta": piece}
        output.append({"type": "message", "role": "assistant",
                       "content": [{"type": "output_text", "text": step["text"]}]})
    yield {"type": "response.completed", "response": {
        "output": output, "usage": {"input_tokens": 10, "output_tokens": 5}}}


def chat_events(step: dict) -> Iterator[dict | str]:
    def chunk(delta: dict, reason: str | None = None) -> dict:
        return {"choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}

    yield chunk({"role": "assistant", "content": ""})
    for piece in pieces(step.get("text", "")):
        yield chunk({"content": piece})
    for place, (call_id, arguments) in enumerate(step.get("calls", [])):
        yield chunk({"tool_calls": [{"index": place, "id": call_id, "type": "function",
                                     "function": {"name": "python", "arguments": ""}}]})
        for piece in pieces(json.dumps(arguments)):
            yield chunk({"tool_calls": [{"index": place, "function": {"arguments": piece}}]})
    yield chunk({}, "tool_calls" if step.get("calls") else "stop")
    yield {"choices": [], "usage": {"prompt_tokens": 10, "completion_tokens": 5}}
    yield "[DONE]"


def anthropic_events(step: dict) -> Iterator[dict]:
    yield {"type": "message_start", "message": {"usage": {"input_tokens": 10}}}
    yield {"type": "ping"}
    place = 0
    if "text" in step:
        yield {"type": "content_block_start", "index": 0,
               "content_block": {"type": "text", "text": ""}}
        for piece in pieces(step["text"]):
            yield {"type": "content_block_delta", "index": 0,
                   "delta": {"type": "text_delta", "text": piece}}
        yield {"type": "content_block_stop", "index": 0}
        place = 1
    for call_id, arguments in step.get("calls", []):
        yield {"type": "content_block_start", "index": place, "content_block": {
            "type": "tool_use", "id": call_id, "name": "python", "input": {}}}
        for piece in pieces(json.dumps(arguments)):
            yield {"type": "content_block_delta", "index": place,
                   "delta": {"type": "input_json_delta", "partial_json": piece}}
        yield {"type": "content_block_stop", "index": place}
        place += 1
    yield {"type": "message_delta", "usage": {"output_tokens": 5},
           "delta": {"stop_reason": "tool_use" if step.get("calls") else "end_turn"}}
    yield {"type": "message_stop"}


def pieces(text: str) -> list[str]:
    return [text[at : at + PIECE_CHARACTERS] for at in range(0, len(text), PIECE_CHARACTERS)]


PROTOCOLS = {
    "/responses": (check_responses, responses_events, "Authorization"),
    "/chat/completions": (check_chat, chat_events, "Authorization"),
    "/messages": (check_anthropic, anthropic_events, "x-api-key"),
}


class FakeProvider:
    """The server as an object: `url`, `script(steps)`, `requests`, `close()`."""

    def __init__(self) -> None:
        self.requests: list[dict] = []
        self._steps: list[dict] = []
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self.port = self._server.server_port
        self.url = f"http://127.0.0.1:{self.port}/v1"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        self._thread.start()

    def script(self, steps: list[dict]) -> None:
        with self._lock:
            self._steps = list(steps)

    def close(self) -> None:
        self._closing.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        fake = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                self._json(200, fake.requests)

            def do_POST(self) -> None:
                length = int(self.headers.get("Content-Length", 0))
                if length > MAX_REQUEST_BYTES:
                    return self._json(413, {"error": {"message": "too large"}})
                body = json.loads(self.rfile.read(length))
                if self.path == "/script":
                    fake.script(body)
                    return self._json(200, {})
                for suffix, (check, events, key_header) in PROTOCOLS.items():
                    if self.path.endswith(suffix):
                        break
                else:
                    return self._json(404, {"error": {"message": f"no {self.path}"}})
                problem = None
                try:
                    need(body.get("stream") is True, "this model only streams")
                    check(body)
                except Refusal as refusal:
                    problem = str(refusal)
                except (KeyError, TypeError, IndexError) as fault:
                    problem = f"malformed: {fault!r}"
                with fake._lock:
                    fake.requests.append({"path": self.path, "problem": problem, "body": body,
                                          "key": self.headers.get(key_header)})
                    step = fake._steps.pop(0) if fake._steps and not problem else {"text": "ok"}
                if problem:
                    return self._json(400, {"error": {"message": problem}})
                if "status" in step:
                    return self._json(step["status"], step.get("body", {}),
                                      step.get("retry_after"))
                self._stream(step, events(step))

            def _json(self, status: int, body: object, retry_after: str | None = None) -> None:
                content = json.dumps(body).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(content)))
                if retry_after is not None:
                    self.send_header("Retry-After", retry_after)
                self.end_headers()
                self.wfile.write(content)

            def _stream(self, step: dict, events: Iterator[dict | str]) -> None:
                left = step.get("cut", step.get("stall"))
                self.send_response(200)
                self.send_header("Content-Type", "text/event-stream")
                self.send_header("Transfer-Encoding", "chunked")
                self.end_headers()
                try:
                    for event in events:
                        text = event if isinstance(event, str) else json.dumps(event)
                        name = "" if isinstance(event, str) else f"event: {event.get('type')}\n"
                        data = f"{name}data: {text}\n\n".encode()
                        if left is not None and len(data) >= left:
                            self._chunk(data[:left])
                            if "stall" in step:
                                fake._closing.wait(STALL_SECONDS)
                            self.close_connection = True
                            return
                        if left is not None:
                            left -= len(data)
                        self._chunk(data)
                    self.wfile.write(b"0\r\n\r\n")
                except ConnectionError:  # the client gave up on this answer
                    self.close_connection = True

            def _chunk(self, data: bytes) -> None:
                if data:
                    self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
                    self.wfile.flush()

            def log_message(self, *_args: object) -> None:
                pass

        return Handler


def main() -> None:
    fake = FakeProvider()
    print(fake.port, flush=True)
    sys.stdin.read()
    fake.close()


if __name__ == "__main__":
    main()
