"""A real S3 server for the tests: SeaweedFS, from the registry. It checks signatures, conditions and checksums.

It starts in three seconds, once a session, on loopback ports and in a folder of its own, and is ended with SIGKILL:
there is nothing in it that anybody would want back. Each test gets a bucket of its own.
"""

from __future__ import annotations

import itertools
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import boto3
import msgspec
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

KEY, SECRET, REGION = "the-key-of-the-tests", "the-secret-of-the-tests", "us-east-1"
MEMORY = Path("/dev/shm")
_SERVICES = ("master", "volume", "filer", "s3")
_FRUGAL = {"WEED_MASTER_VOLUME_GROWTH_COPY_1": "1"}
"""One file for a bucket's objects instead of seven."""
_START = 60.0


class Server:
    """A running server. `client` is boto3's, which sees what is there, and what no client of ours would do."""

    def __init__(self, endpoint: str, process: subprocess.Popen[bytes]) -> None:
        self.endpoint, self._process = endpoint, process
        self.client = client(endpoint)
        self._numbers = itertools.count(1)

    @property
    def environment(self) -> dict[str, str]:
        """What a process has to have in its environment to use it."""
        return environment(self.endpoint)

    def bucket(self) -> str:
        """The name of a new bucket."""
        name = f"bucket-{next(self._numbers)}"
        self.client.create_bucket(Bucket=name)
        return name

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Meanwhile it takes connections and answers nothing."""
        self._process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._process.send_signal(signal.SIGCONT)


def environment(endpoint: str) -> dict[str, str]:
    return {
        "AWS_ACCESS_KEY_ID": KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_REGION": REGION,
        "AWS_DEFAULT_REGION": REGION,
        "AWS_ENDPOINT_URL": endpoint,
    }


def client(endpoint: str) -> Any:
    return boto3.client(
        "s3",
        endpoint_url=endpoint,
        region_name=REGION,
        aws_access_key_id=KEY,
        aws_secret_access_key=SECRET,
        config=Config(connect_timeout=2, read_timeout=10, retries={"total_max_attempts": 1}),
    )


@contextmanager
def running() -> Iterator[Server]:
    """A server, gone with its files at the end."""
    ground = Path(tempfile.mkdtemp(prefix="onward-s3-", dir=MEMORY if os.access(MEMORY, os.W_OK) else None))
    ports = _free(2 * len(_SERVICES))
    with (ground / "log").open("wb") as log:
        process = subprocess.Popen(
            _command(ground, ports), env=os.environ | _FRUGAL, stdout=log, stderr=log, start_new_session=True
        )
    try:
        server = Server(f"http://127.0.0.1:{ports[_SERVICES.index('s3')]}", process)
        _wait(server, process, ground / "log")
        yield server
    finally:
        process.kill()
        process.wait()
        shutil.rmtree(ground)
        for port in ports:
            for left in Path("/tmp").glob(f"seaweedfs-*-{port}.sock"):
                left.unlink()


def _command(ground: Path, ports: list[int]) -> list[str]:
    access = {"credentials": [{"accessKey": KEY, "secretKey": SECRET}], "name": "tests", "actions": ["Admin"]}
    (ground / "access.json").write_bytes(msgspec.json.encode({"identities": [access]}))
    listen = zip([f"-{service}.port{kind}" for kind in ("", ".grpc") for service in _SERVICES], ports, strict=True)
    return [
        str(Path(sys.executable).with_name("weed")),
        f"-logdir={ground}",
        *("server", f"-dir={ground}", "-filer", "-s3", "-ip=127.0.0.1", "-ip.bind=127.0.0.1"),
        *(f"{option}={port}" for option, port in listen),
        *("-s3.port.iceberg=0", "-s3.port.lance=0", "-s3.iam=false", "-s3.autoCreateBucket=false"),
        *(f"-s3.config={ground}/access.json", f"-s3.localSocket={ground}/s3", f"-filer.localSocket={ground}/filer"),
        *("-volume.max=10000", "-master.volumeSizeLimitMB=256", "-master.telemetry=false"),
    ]


def _free(count: int) -> list[int]:
    """Ports that nobody listens on at the moment."""
    with ExitStack() as held:
        sockets = [held.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [taken.getsockname()[1] for taken in sockets]


def _wait(server: Server, process: subprocess.Popen[bytes], log: Path) -> None:
    """Until it takes an object: only then are its parts in touch with each other."""
    deadline = time.monotonic() + _START
    while True:
        try:
            server.client.put_object(Bucket=server.bucket(), Key="ready", Body=b"")
        except (BotoCoreError, ClientError):
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"the S3 server did not start:\n{log.read_text()[-5000:]}") from None
            time.sleep(0.05)  # nothing tells that it is ready, but that it is
        else:
            return
