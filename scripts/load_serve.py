"""A server under load: `load_serve.py PROGRAM FOLDER MINUTES`.

32 clients at once: most ask well, some send slowly, too much, or nonsense, or go before the answer. Said at the end:
how long good answers took, whether memory grew, and the processor's time for an image against `predict`'s.
"""

import collections
import json
import pathlib
import random
import resource
import socket
import subprocess
import sys
import threading
import time

import numpy as np
from PIL import Image

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from served import Server

PROGRAM, PLACE, MINUTES = sys.argv[1], pathlib.Path(sys.argv[2]) / "load", float(sys.argv[3])
ROOT = pathlib.Path(__file__).resolve().parent.parent
CLIENTS, IMAGES = 32, 320
PATH = "/v2/models/lidc/infer"
# How memory is judged: means over a tenth of the time, after a fifth and at the end.
GROWTH, SHARE = 1.05, 0.1
# An image may take so many times the processor time of `predict`.
COST = 1.1


def processor_time(who):
    used = resource.getrusage(who)
    return used.ru_utime + used.ru_stime


def made_images():
    """Images as a scanner might give them."""
    run("generate", "raters", "--size", "128", "--count", f"test={IMAGES}", "--out", "made")
    (PLACE / "images").mkdir()
    images = [(np.asarray(Image.open(path)) >> 8).astype(np.uint8) for path in sorted((PLACE / "made/images").glob("*.png"))]
    for at, image in enumerate(images):
        Image.fromarray(image).save(PLACE / f"images/{at}.png")
    return images


def predicted(name):
    """The processor time that `predict` takes for an image."""
    before = processor_time(resource.RUSAGE_CHILDREN)
    run("predict", ROOT / "models/lidc", "images", "--out", name, "--device", "cpu")
    return (processor_time(resource.RUSAGE_CHILDREN) - before) / IMAGES


def run(*words):
    """Runs a command of the program; what it says is shown where it fails."""
    done = subprocess.run([PROGRAM, *map(str, words)], cwd=PLACE, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def request(image, broken=False):
    """Headers and body of an inference, as tritonclient would send it, for the outputs that `predict` writes."""
    data = image.tobytes()
    text = json.dumps({
        "parameters": {"binary_data_output": True},
        "inputs": [{"name": "image", "shape": list(image.shape), "datatype": "UINT8", "parameters": {"binary_data_size": len(data)}}],
        "outputs": [{"name": name} for name in ("count", "probabilities", "codes", "masks")],
    }).encode()
    body = text + data
    if broken:
        at = random.randrange(len(text))
        body = body[:at] + random.randbytes(4) + body[at + 4:]
    return {"Inference-Header-Content-Length": str(len(text))}, body


def ask_well(server, image):
    headers, body = request(image)
    return server.ask("POST", PATH, body, headers)[0]


class Client(threading.Thread):
    def __init__(self, server, images, until, seed):
        super().__init__(daemon=True)
        self.server, self.images, self.until = server, images, until
        self.draw, self.times, self.statuses, self.faults = random.Random(seed), [], collections.Counter(), []

    def run(self):
        while time.monotonic() < self.until and not self.faults:
            kind = self.draw.choices(["good", "slow", "large", "malformed", "aborted"], [90, 1, 2, 4, 3])[0]
            try:
                getattr(self, kind)()
            except Exception as error:
                self.faults.append(f"{kind}: {error!r}")

    def good(self):
        headers, body = request(self.draw.choice(self.images))
        began = time.monotonic()
        status, _, answer = self.server.ask("POST", PATH, body, headers)
        self.statuses["good", status] += 1
        if status == 200:
            self.times.append(time.monotonic() - began)
            assert b'"binary_data_size":' in answer
        else:
            assert status == 503, (status, answer)
            time.sleep(1)

    def malformed(self):
        headers, body = request(self.draw.choice(self.images), broken=True)
        status, _, answer = self.server.ask("POST", PATH, body, headers)
        self.statuses["malformed", status] += 1
        assert status in (200, 400, 413, 503), (status, answer)

    def large(self):
        status, _, _ = self.server.ask("POST", PATH, bytes(5 << 20))
        self.statuses["large", status] += 1
        assert status == 413, status

    def slow(self):
        """A sender that stops in the middle."""
        with socket.create_connection(("127.0.0.1", self.server.port), timeout=60) as connection:
            connection.sendall(f"POST {PATH} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 90000\r\n\r\n".encode() + bytes(1000))
            answer = connection.recv(100)
        self.statuses["slow", int(answer.split()[1])] += 1
        assert b" 408 " in answer or b" 503 " in answer, answer

    def aborted(self):
        """One that goes without waiting for the answer, or in the middle of its own words."""
        headers, body = request(self.draw.choice(self.images))
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        head = f"POST {PATH} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n{lines}\r\n".encode()
        with socket.create_connection(("127.0.0.1", self.server.port), timeout=60) as connection:
            connection.sendall((head + body)[: self.draw.choice([50, len(head), len(head) + 5000, len(head) + len(body)])])
            time.sleep(self.draw.choice([0, 0.01, 0.1]))
        self.statuses["aborted", 0] += 1


def main():
    PLACE.mkdir(exist_ok=True)
    images = made_images()
    # Before and after: other work on the machine changes what an image takes.
    own = [predicted("said-before")]
    options = ["--body", "4MiB", "--silence", "5", "--log", "off"]
    with Server(PROGRAM, ROOT / "models/lidc", *options, place=PLACE) as server:
        seconds, began = 60 * MINUTES, time.monotonic()
        clients = [Client(server, images, began + seconds, seed) for seed in range(CLIENTS)]
        start = server.metrics()
        for client in clients:
            client.start()
        memory = []
        while time.monotonic() < began + seconds:
            time.sleep(min(2, seconds / 50))
            memory.append((time.monotonic() - began, server.metrics()["process_resident_memory_bytes"]))
            if len(memory) % 30 == 0:
                print(f"{memory[-1][0]:.0f} s: {memory[-1][1] / 2**20:.0f} MiB", flush=True)
        for client in clients:
            client.join(120)
        end = server.metrics()
        # What is in flight is answered.
        results = []
        ask = lambda: results.append(ask_well(server, images[0]))
        last = [threading.Thread(target=ask) for _ in range(16)]
        [one.start() for one in last]
        deadline = time.monotonic() + 5
        while server.metrics()["multivalued_connections"] - 1 + len(results) < 16 and time.monotonic() < deadline:
            pass
        code = server.end()
        [one.join(60) for one in last]
    own.append(predicted("said-after"))
    faults = [fault for client in clients for fault in client.faults]
    statuses = sum((client.statuses for client in clients), collections.Counter())
    times = np.sort(np.concatenate([client.times for client in clients]))
    grown = lambda name: end[name] - start[name]
    computed = grown('multivalued_images_total{model="lidc"}')
    spent, predict = grown("process_cpu_seconds_total") / computed, sum(own) / 2
    part = lambda low, high: np.mean([size for at, size in memory if low * seconds <= at <= high * seconds])
    early, late = part(0.2, 0.2 + SHARE), part(1 - SHARE, 1)
    print(f"| request | answer | count in {seconds:.0f} s |\n|---|---|---|")
    for (kind, status), count in sorted(statuses.items()):
        print(f"| {kind} | {status or 'none awaited'} | {count} |")
    print(f"\n{computed:.0f} images in {grown('multivalued_batch_images_count'):.0f} batches; good answers: "
          f"p50 {times[len(times) // 2]:.3f} s, p99 {times[int(len(times) * 0.99)]:.3f} s, longest {times[-1]:.3f} s")
    for fifth in range(5):
        sizes = [size / 2**20 for at, size in memory if fifth / 5 * seconds <= at <= (fifth + 1) / 5 * seconds]
        print(f"memory, fifth {fifth + 1}: {min(sizes):.0f} to {max(sizes):.0f} MiB, mean {np.mean(sizes):.0f}")
    answered = results.count(200)
    kinds = len({kind for kind, _ in statuses})
    bars = [
        ("clients that met a fault", f"{len(faults)} of {CLIENTS}", "0", not faults),
        ("kinds of requests", f"{kinds}", "5", kinds == 5),
        ("memory at the end / after a fifth", f"{late / early:.3f} ({late / 2**20:.0f} MiB / {early / 2**20:.0f} MiB)",
         f"at most {GROWTH}", late <= GROWTH * early),
        ("processor time of an image / predict's", f"{spent / predict:.3f} ({spent * 1e3:.1f} ms / {predict * 1e3:.1f} ms: "
         f"{own[0] * 1e3:.1f} before, {own[1] * 1e3:.1f} after)", f"at most {COST}", spent <= COST * predict),
        ("requests in flight at SIGTERM that were answered", f"{answered} of 16", "16", answered == 16),
        ("exit code after SIGTERM", f"{code}", "0", code == 0),
    ]
    print("\n| bar | measured | wanted | |\n|---|---|---|---|")
    for name, measured, wanted, holds in bars:
        print(f"| {name} | {measured} | {wanted} | {'holds' if holds else 'FAILS'} |")
    for fault in faults[:3]:
        print(fault)
    return 0 if all(holds for *_, holds in bars) else 1


sys.exit(main())
