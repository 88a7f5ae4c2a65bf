"""A server for tests: started on a free port of loopback, and ended."""

import http.client
import json
import signal
import subprocess
import threading
import time


class Server:
    """`multivalued serve` with some options."""

    def __init__(self, program, *options, place, wait=60):
        command = [str(program), "serve", *map(str, options), "--port", "0"]
        if "--device" not in command:
            command += ["--device", "cpu"]
        self.process = subprocess.Popen(command, cwd=place, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.log = []
        threading.Thread(target=self._listen, daemon=True).start()
        began = time.monotonic()
        line = self.process.stdout.readline()
        assert "http://" in line, f"{line!r} after {time.monotonic() - began:.0f} s, {self.log}"
        self.port = int(line.rsplit(":", 1)[1].strip().strip("/"))
        self.address = f"localhost:{self.port}"

    def _listen(self):
        for line in self.process.stderr:
            self.log.append(line)

    def ask(self, method, path, body=None, headers={}, timeout=60):
        """Status, headers and bytes."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        try:
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            return answer.status, dict(answer.getheaders()), answer.read()
        finally:
            connection.close()

    def json(self, path):
        return json.loads(self.ask("GET", path)[2])

    def metrics(self):
        text = self.ask("GET", "/metrics")[2].decode()
        lines = [line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#")]
        return {name: float(value) for name, value in lines}

    def end(self, wait=60):
        """Its exit code after SIGTERM."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self.process.wait(wait)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
