"""What scripts/test-serve checks: `test_serve.py PROGRAM FOLDER`."""

import concurrent.futures
import json
import os
import pathlib
import re
import socket
import subprocess
import sys
import tempfile
import time

import nibabel
import nrrd
import numpy as np
import slicerio
import tritonclient.http as triton
from monailabel import slicer_client
from monailabel.client import MONAILabelClient
from PIL import Image

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from served import Server

PROGRAM, PLACE = sys.argv[1], pathlib.Path(sys.argv[2])
ROOT = pathlib.Path(__file__).resolve().parent.parent
OUTPUTS = ["count", "probabilities", "codes", "masks", "mean", "disagreement"]


def run(*words):
    subprocess.run([PROGRAM, *map(str, words)], cwd=PLACE, check=True, stdout=subprocess.DEVNULL, timeout=300)


def said(folder):
    """What `predict` wrote of an image: probabilities, codes, masks, mean."""
    document = json.loads((PLACE / folder / "prediction.json").read_text())
    rows = document["slices"][0]["hypotheses"]
    read = lambda name: np.load(PLACE / folder / name)
    return {
        "probabilities": np.array([row["probability"] for row in rows], np.float32),
        "codes": np.array([row["code"] for row in rows]),
        "masks": np.stack([read(row["file"]) for row in rows]),
        "mean": np.stack([read(name) for name in document["maps"]["mean"]]),
    }


def same(answer, at, wanted):
    """Whether image `at` of an answer is what `predict` wrote, to the bit."""
    count = answer.as_numpy("count")[at]
    assert count == len(wanted["probabilities"]), (count, wanted["probabilities"])
    for name in ("probabilities", "codes", "masks"):
        found = answer.as_numpy(name)[at]
        assert np.array_equal(found[:count], wanted[name]), name
        assert not found[count:].any() or (name == "codes" and (found[count:] == -1).all())
    assert np.array_equal(answer.as_numpy("mean")[at], wanted["mean"])
    mean = wanted["mean"].astype(np.float64)
    background = 1 - mean.sum(0)
    disagreement = np.maximum(1 - ((mean**2).sum(0) + background**2), 0).astype(np.float32)
    assert np.array_equal(answer.as_numpy("disagreement")[at], disagreement)


def given(image, datatype=None, binary=True):
    tensor = triton.InferInput("image", image.shape, datatype or triton.np_to_triton_dtype(image.dtype))
    tensor.set_data_from_numpy(image, binary_data=binary)
    return tensor


def check_triton(server, images, wanted):
    client = triton.InferenceServerClient(server.address, concurrency=32)
    assert client.is_server_live() and client.is_server_ready() and client.is_model_ready("lidc", "1")
    assert client.get_server_metadata()["extensions"] == ["binary_tensor_data"]
    metadata = client.get_model_metadata("lidc")
    assert metadata["inputs"][0] == {"name": "image", "datatype": "FP32", "shape": [-1, -1, -1, 1]}
    assert [output["name"] for output in metadata["outputs"]] == OUTPUTS
    assert [row["name"] for row in client.get_model_repository_index()] == ["lidc"]
    # Types, ranks, JSON and bytes.
    first = images[0]
    for kind in (np.uint8, np.int16, np.uint16, np.int32, np.uint64, np.float16, np.float32, np.float64):
        same(client.infer("lidc", [given(first.astype(kind))]), 0, wanted[0])
    same(client.infer("lidc", [given(first[..., None].astype(np.float32), binary=False)]), 0, wanted[0])
    as_json = [triton.InferRequestedOutput(name, binary_data=False) for name in OUTPUTS]
    same(client.infer("lidc", [given(first.astype(np.int32), binary=False)], outputs=as_json), 0, wanted[0])
    # Packed both ways.
    for coding in ("gzip", "deflate"):
        answer = client.infer("lidc", [given(first)], request_compression_algorithm=coding,
                              response_compression_algorithm=coding, request_id="7")
        same(answer, 0, wanted[0])
        assert answer.get_response()["id"] == "7"
    # Several images in one request; several requests at once.
    together = client.infer("lidc", [given(np.stack(images)[..., None])])
    for at in range(len(images)):
        same(together, at, wanted[at])
    before = server.metrics()
    with concurrent.futures.ThreadPoolExecutor(32) as pool:
        clients = [triton.InferenceServerClient(server.address) for _ in range(32)]
        ask = lambda at: clients[at].infer("lidc", [given(images[at % len(images)])])
        for at, answer in enumerate(pool.map(ask, range(32))):
            same(answer, 0, wanted[at % len(images)])
    after = server.metrics()
    batches = after["multivalued_batch_images_count"] - before["multivalued_batch_images_count"]
    assert batches < 32, f"{batches} batches for 32 requests at once"
    print(f"tritonclient: 32 requests at once in {batches:.0f} batches, equal to predict to the bit")
    # Fewer hypotheses.
    top = client.infer("lidc", [given(first)], parameters={"top": 1})
    assert top.as_numpy("masks").shape[1] == 1 and np.array_equal(top.as_numpy("mean")[0], wanted[0]["mean"])
    short = client.infer("lidc", [given(first)], parameters={"list": 2}).as_numpy("probabilities")[0]
    assert len(short) <= 2 and abs(short.sum() - 1) < 1e-5
    # Refusals that name the remedy.
    for tensor, options, says in [
        (given(np.stack([first] * 3, -1)), {}, "the model takes 1"),
        (given(np.full((4, 4), np.nan, np.float32)), {}, "NaN or infinite"),
        (given(first), {"parameters": {"tpo": 1}}, "'tpo'"),
        (given(first), {"outputs": [triton.InferRequestedOutput("mask")]}, "there are: count"),
        (given(first), {"model_version": "2"}, "version 1 alone"),
    ]:
        try:
            client.infer("lidc", [tensor], **options)
        except triton.InferenceServerException as error:
            assert says in error.message(), error.message()
        else:
            raise AssertionError(f"{says}: was not refused")


def check_monai(server, volume, affine):
    """The wheel's client and that of Slicer's plugin, with volumes in NIfTI and NRRD."""
    run("predict", ROOT / "models/lidc", "image.nii.gz", "--maps", "--out", "whole", "--device", "cpu")
    document = json.loads((PLACE / "whole/image/prediction.json").read_text())
    rows = document["volume"]["hypotheses"]
    load = lambda name: np.asanyarray(nibabel.load(PLACE / "whole/image" / name).dataobj)
    masks, mean = [load(row["file"]) for row in rows], load("mean-1.nii.gz")
    assert len(rows) > 1 and masks[0].shape == volume.shape and masks[0].any()
    bands = sum((mean >= np.float32(level)).astype(np.uint8) for level in (0.1, 0.5, 0.9))
    lps = np.diag([-1, -1, 1, 1]) @ affine
    nrrd.write(str(PLACE / "scan.nrrd"), volume, {
        "space": "left-posterior-superior", "space directions": lps[:3, :3].T, "space origin": lps[:3, 3]})
    (PLACE / "scan.seg.nrrd").write_bytes((PLACE / "scan.nrrd").read_bytes())

    def placed(header, shift=0):
        directions = np.asarray(header["space directions"], float)[shift:]
        assert np.allclose(directions.T, lps[:3, :3], atol=1e-4) and np.allclose(header["space origin"], lps[:3, 3], atol=1e-4)

    for module in (MONAILabelClient, slicer_client.MONAILabelClient):
        client = module(f"http://{server.address}", tmpdir=str(PLACE), client_id="user-xyz")
        assert client.auth_enabled() is False
        models = client.info()["models"]
        assert models["lidc"]["type"] == "segmentation" and models["lidc"]["labels"]["90 % or more"] == 3
        assert not client.info().get("config") and not client.train_status(check_if_running=True)
        for name in ("image.nii.gz", "scan.nrrd"):
            session = client.create_session(str(PLACE / name))["session_id"]
            assert client.get_session(session)
            # As the plugin asks.
            file, params = client.infer("lidc", "scan", {"result_extension": ".nrrd", "result_dtype": "uint8"}, session_id=session)
            found, header = nrrd.read(file)
            assert file.endswith(".nrrd") and np.array_equal(found, bands)
            placed(header)
            there = [["10 to 50 %", "50 to 90 %", "90 % or more"][label - 1] for label in np.unique(bands) if label]
            assert sorted(params["label_names"], key=params["label_names"].get) == there
            assert [one["probability"] for one in params["hypotheses"]] == [row["probability"] for row in rows]
            for rank in (1, 2):
                file, params = client.infer(f"lidc-hypothesis-{rank}", "scan", {"result_extension": ".nii.gz"}, session_id=session)
                found = nibabel.load(file)
                assert np.array_equal(np.asanyarray(found.dataobj), masks[rank - 1])
                assert np.allclose(found.affine, affine, atol=1e-4)
                assert list(params["label_names"]) == ([f"hypothesis {rank}"] if masks[rank - 1].any() else [])
            file, params = client.infer("lidc", "scan", {"answer": "hypothesis 99"}, session_id=session)
            assert not nrrd.read(file)[0].any() and params["label_names"] == {}
            assert client.remove_session(session)["session_id"] == session
        # With the file extension .seg.nrrd the plugin takes segments that overlap.
        session = client.create_session(str(PLACE / "scan.seg.nrrd"))["session_id"]
        file, params = client.infer("lidc", "scan", {"result_extension": ".nrrd"}, session_id=session)
        assert file.endswith(".seg.nrrd")
        segments = slicerio.read_segmentation(file)
        assert len(segments["segments"]) == len(rows)
        layers, header = nrrd.read(file)
        placed(header, shift=1)
        for rank, (segment, row) in enumerate(zip(segments["segments"], rows)):
            assert segment["name"] == f"hypothesis {rank + 1}, p = {row['probability']:.2f}", segment
            assert np.array_equal(layers[segment["layer"]] == segment["labelValue"], masks[rank] > 0)
        # One image by itself, with the request.
        file, params = client.infer("lidc", "x", {}, file=str(PLACE / "slice.png"))
        alone = said("alone/0")
        assert np.array_equal([np.float32(one["probability"]) for one in params["hypotheses"]], alone["probabilities"])
        try:
            client.infer("lidc", "../../etc/passwd", {})
        except Exception as error:
            assert "upload one as a session" in str(getattr(error, "msg", error)), error
        else:
            raise AssertionError("a path was taken")
    print(f"monailabel: {len(rows)} coherent volumes, bands and segments equal to predict, NIfTI and NRRD in place")


def inference(shape):
    """A request of black images in JSON."""
    image = {"name": "image", "shape": shape, "datatype": "FP32", "data": [0] * int(np.prod(shape))}
    return json.dumps({"inputs": [image], "outputs": [{"name": "count"}]}, separators=(",", ":"))


def check_limits():
    """Small limits, and what is answered beyond them."""
    options = ["--body", "100KiB", "--silence", "1", "--queue", "2", "--timeout", "20"]
    with Server(PROGRAM, ROOT / "models/lidc", *options, place=PLACE) as server:
        status, _, text = server.ask("POST", "/v2/models/lidc/infer", b" " * (1 << 20))
        assert status == 413 and b"--body" in text, (status, text)
        with socket.create_connection(("127.0.0.1", server.port), timeout=30) as slow:
            slow.sendall(b"POST /v2/models/lidc/infer HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n{")
            began = time.monotonic()
            answer = slow.recv(1000)
            assert b" 408 " in answer and time.monotonic() - began < 10, answer
        body = inference([30, 32, 32, 1])
        with concurrent.futures.ThreadPoolExecutor(24) as pool:
            answers = list(pool.map(lambda _: server.ask("POST", "/v2/models/lidc/infer", body), range(24)))
        refused = [headers for status, headers, _ in answers if status == 503]
        assert {status for status, _, _ in answers} == {200, 503}, [status for status, _, _ in answers]
        assert all(headers["retry-after"] == "1" for headers in refused)
        assert server.ask("GET", "/healthz", headers={"Host": "evil.example"})[0] == 403
        assert server.ask("POST", "/v2/models/lidc/infer", body, {"Origin": "http://evil.example"})[0] == 403
        for path in ("/../../etc/passwd", "/v2/models/..%2f..", "/session/..%2f..%2fx", "/infer/..%2flidc"):
            assert server.ask("POST", path, b"")[0] in (404, 405), path
        assert server.end() == 0
    print(f"limits: {len(refused)} of 24 told to come back, slow and large ones refused")


def check_end():
    """SIGTERM answers what is in flight; the folder of sessions goes with the server."""
    with Server(PROGRAM, ROOT / "models/lidc", place=PLACE) as server:
        MONAILabelClient(f"http://{server.address}", tmpdir=str(PLACE)).create_session(str(PLACE / "image.nii.gz"))
        temporary = pathlib.Path(os.environ.get("TMPDIR", "/tmp"))
        folders = {folder for folder in temporary.glob("multivalued-serve-*") if list(folder.glob("*/image.nii.gz"))}
        assert folders and all(folder.stat().st_mode & 0o777 == 0o700 for folder in folders)
        body = inference([64, 64, 64, 1])
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            asked = [pool.submit(server.ask, "POST", "/v2/models/lidc/infer", body) for _ in range(4)]
            deadline = time.monotonic() + 30
            while server.metrics()["multivalued_held_bytes"] == 0 and time.monotonic() < deadline:
                time.sleep(0.01)
            time.sleep(0.2)
            code = server.end()
            answers = [one.result()[0] for one in asked]
        assert code == 0 and answers == [200] * 4, (code, answers)
        assert any(not folder.exists() for folder in folders)
        try:
            server.ask("GET", "/healthz")
        except OSError:
            pass
        else:
            raise AssertionError("the server still answers")
        log = [json.loads(line) for line in server.log if line.startswith("{")]
        assert sum(line["status"] == 200 and line["route"] == "/v2/models/{model}/infer" for line in log) == 4
        assert not any(word in "".join(server.log) for word in ("image.nii", "tmp", "user-xyz"))
    print("the end: 4 of 4 requests in flight answered, exit code 0")


def check_token():
    (PLACE / "secret.txt").write_text("a-long-token\n")
    with Server(PROGRAM, ROOT / "models/lidc", "--token-file", "secret.txt", "--address", "0.0.0.0", place=PLACE) as server:
        assert server.ask("GET", "/v2")[0] == 401 and server.ask("GET", "/v2/health/ready")[0] == 200
        assert server.ask("GET", "/v2", headers={"Authorization": "Bearer a-long-token"})[0] == 200
        # As the plugin logs in.
        client = slicer_client.MONAILabelClient(f"http://{server.address}", tmpdir=str(PLACE))
        assert client.auth_enabled() and not client.auth_valid_token()
        client.update_auth(client.auth_token("anybody", "a-long-token"))
        assert client.auth_valid_token() and "lidc" in client.info()["models"]
        assert client.create_session(str(PLACE / "slice.png"))["session_id"]
        assert not any("warning" in line for line in server.log)
    with Server(PROGRAM, ROOT / "models/lidc", "--address", "0.0.0.0", place=PLACE) as server:
        warned = lambda: any("warning: --address 0.0.0.0" in line and "--token-file" in line for line in server.log)
        deadline = time.monotonic() + 10
        while not warned() and time.monotonic() < deadline:
            time.sleep(0.05)
        assert warned(), server.log
    print("token: wanted by all but health, and the plugin's password")


def check_pages(server):
    """Every line of the pages' code."""
    bin = PLACE / "bin"
    bin.mkdir()
    os.symlink(PROGRAM, bin / "multivalued")
    os.symlink(ROOT / "models", PLACE / "models")
    environment = {**os.environ, "PATH": f"{bin}:{os.environ['PATH']}"}
    lines = 0
    for page in ("serve", "slicer"):
        text = (ROOT / f"docs/{page}.md").read_text()
        blocks = re.findall(r"```(sh|python)\n(.*?)```", text, re.S)
        assert len(blocks) > 1
        for kind, block in blocks:
            lines += block.count("\n")
            here = block.replace("localhost:8000", server.address)
            if kind == "python":
                os.chdir(PLACE)
                tempfile.tempdir = str(PLACE)
                exec(compile(here, f"docs/{page}.md", "exec"), {})
                continue
            for line in here.splitlines():
                if line.startswith("multivalued serve"):
                    words = line.split("#")[0].split()[2:]
                    with Server(PROGRAM, *words, place=PLACE) as own:
                        assert own.ask("GET", "/healthz")[0] == 200 and own.end() == 0, line
                else:
                    done = subprocess.run(["bash", "-ec", line], cwd=PLACE, env=environment, capture_output=True, text=True)
                    assert done.returncode == 0 and '"error"' not in done.stdout, (line, done)
                    assert done.stdout or "token.txt" in line, line
    print(f"{lines} lines of code of docs/serve.md and docs/slicer.md run")


def main():
    run("generate", "raters", "--size", "128", "--count", "test=6", "--out", "made")
    paths = sorted((PLACE / "made/images").glob("*.png"))
    # 8 bits, as the training images have.
    images = [(np.asarray(Image.open(path)) >> 8).astype(np.uint8) for path in paths]
    (PLACE / "alone-images").mkdir()
    for at, image in enumerate(images):
        np.save(PLACE / f"alone-images/{at}.npy", image)
    Image.fromarray(images[0]).save(PLACE / "slice.png")
    run("predict", ROOT / "models/lidc", "alone-images", "--maps", "--out", "alone", "--device", "cpu")
    wanted = [said(f"alone/{at}") for at in range(len(images))]
    assert any(len(one["codes"]) != len(wanted[0]["codes"]) for one in wanted), "all lists are as long"
    # A volume that lies aslant: neighbouring slices are alike.
    slices = [images[0], (images[0] * 0.6 + images[1] * 0.4).astype(np.uint8), images[0], images[2]]
    volume = np.stack([image.T for image in slices], -1).astype(np.int16)
    turn = np.deg2rad(20)
    affine = np.array([[-0.7 * np.cos(turn), 0.2, 0, 30], [0.7 * np.sin(turn), 0.68, 0, -40], [0, 0, 2.5, 12.25], [0, 0, 0, 1]])
    nibabel.save(nibabel.Nifti1Image(volume, affine), PLACE / "image.nii.gz")
    (PLACE / "scan.nii.gz").write_bytes((PLACE / "image.nii.gz").read_bytes())
    with Server(PROGRAM, ROOT / "models/lidc", place=PLACE) as server:
        assert server.ask("GET", "/healthz")[0] == 200
        # The viewer, and the module that it computes with.
        assert b"viewer.js" in server.ask("GET", "/")[2] and server.ask("GET", "/engine.js")[0] == 200
        check_triton(server, images, wanted)
        check_monai(server, volume, affine)
        check_pages(server)
        metrics = server.metrics()
        assert metrics["multivalued_held_bytes"] == 0 and metrics["multivalued_queue_requests"] == 0
        assert server.end() == 0
    check_limits()
    check_token()
    check_end()


main()
