"""Embeddings over HTTP, as OpenAI's /v1/embeddings has them: what waits while a batch is computed is the next batch.

python embeddings_server.py FOLDER [PORT]; to be put behind a proxy that knows TLS and users. A text's embedding has the same
bits in any batch.
"""

import base64
import http.server
import json
import queue
import sys
import threading
from concurrent.futures import Future

import qkv

LARGEST_BODY = 1 << 24
LARGEST_BATCH = 256


class Batcher:
    """compute(items) for all that threads bring at once, in one thread."""

    def __init__(self, compute):
        self.compute = compute
        self.waiting = queue.Queue()
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def close(self):
        """Ends after what waits."""
        self.waiting.put(None)
        self.thread.join()

    def __call__(self, items):
        future = Future()
        self.waiting.put((items, future))
        return future.result()

    def _run(self):
        while (first := self.waiting.get()) is not None:
            batch = [first]
            while sum(len(items) for items, _ in batch) < LARGEST_BATCH and not self.waiting.empty():
                if (more := self.waiting.get()) is None:
                    self.waiting.put(None)  # for the next round
                    break
                batch.append(more)
            try:
                results = iter(self.compute([item for items, _ in batch for item in items]))
                for items, future in batch:
                    future.set_result([next(results) for _ in items])
            except Exception as error:  # the threads that wait raise it
                for _, future in batch:
                    future.set_exception(error)


def texts_of(value, name):
    """A text or a list of them; ValueError for anything else."""
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list) or not texts or not all(isinstance(text, str) for text in texts):
        raise ValueError(f"{name} must be a text or a list of texts")
    for text in texts:
        text.encode()  # a half of a surrogate pair is a ValueError, too, and must not fail what is computed with it
    return texts


class Server(http.server.ThreadingHTTPServer):
    request_queue_size = 128

    def __init__(self, address, folder):
        self.embedder = qkv.Embedder(folder)
        self.embed = Batcher(self.embedder.encode)
        super().__init__(address, Handler)

    def server_close(self):
        super().server_close()
        self.embed.close()

    def embeddings(self, request):
        texts = texts_of(request.get("input"), "input")
        in_base64 = request.get("encoding_format", "float") == "base64"
        data = []
        for index, row in enumerate(self.embed(texts)):
            embedding = base64.b64encode(row.tobytes()).decode() if in_base64 else row.tolist()
            data.append({"object": "embedding", "index": index, "embedding": embedding})
        tokens = sum(len(self.embedder.tokenizer.encode(text).ids) for text in texts)
        usage = {"prompt_tokens": tokens, "total_tokens": tokens}
        return {"object": "list", "data": data, "model": str(self.embedder.folder), "usage": usage}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 60

    def do_POST(self):
        answers = {"/v1/embeddings": self.server.embeddings}
        try:
            size = int(self.headers.get("Content-Length", 0))
            if not 0 <= size <= LARGEST_BODY:
                self.close_connection = True
                return self.answer(413, {"error": {"message": f"the body has more than {LARGEST_BODY} bytes"}})
            request = json.loads(self.rfile.read(size))
            if self.path not in answers:
                return self.answer(404, {"error": {"message": f"no {self.path}; there is {', '.join(answers)}"}})
            if not isinstance(request, dict):
                raise ValueError("the body must be a JSON object")
            self.answer(200, answers[self.path](request))
        except ValueError as error:
            self.answer(400, {"error": {"message": str(error)}})
        except Exception as error:
            self.answer(500, {"error": {"message": str(error)}})

    def answer(self, status, content):
        body = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


if __name__ == "__main__":
    with Server(("127.0.0.1", int(sys.argv[2]) if len(sys.argv) > 2 else 8000), sys.argv[1]) as server:
        server.serve_forever()
