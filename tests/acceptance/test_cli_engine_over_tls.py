"""An engine that is reached over TLS, with certificates on both sides, as a worker in a cluster reaches it."""

from __future__ import annotations

import datetime
import gc
import ipaddress
import subprocess
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from sandboxes.providers.base import SandboxSpec
from sandboxes.providers.docker import DockerProvider
from tests.acceptance.conftest import TEST_IMAGE, Fanfold, until

pytestmark = pytest.mark.docker

ROOT = Path(__file__).parents[2]
BUNDLES = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
"""Variables by which the SDK's HTTP client trusts others than the engine's authority."""


def name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


class Authority:
    """Makes certificates for 127.0.0.1."""

    def __init__(self) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self.certificate = self._signed("authority", self._key, authority=True)

    def _signed(self, subject: str, key: ec.EllipticCurvePrivateKey, *, authority: bool = False) -> x509.Certificate:
        now = datetime.datetime.now(datetime.UTC)
        address = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
        return (
            x509.CertificateBuilder()
            .subject_name(name(subject))
            .issuer_name(name("authority"))
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(hours=1))
            .not_valid_after(now + datetime.timedelta(hours=1))
            .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
            .add_extension(address, critical=False)
            .sign(self._key, hashes.SHA256())
        )

    def write(self, subject: str, folder: Path) -> Path:
        """`ca.pem`, `cert.pem` and `key.pem`, as Docker names them."""
        folder.mkdir()
        key = ec.generate_private_key(ec.SECP256R1())
        (folder / "ca.pem").write_bytes(self.certificate.public_bytes(Encoding.PEM))
        (folder / "cert.pem").write_bytes(self._signed(subject, key).public_bytes(Encoding.PEM))
        (folder / "key.pem").write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
        return folder


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """This machine's engine over TLS; its address."""
    command = [sys.executable, "-m", "tests.tlsproxy", folder]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as proxy:
        try:
            assert proxy.stdout is not None
            yield f"tcp://127.0.0.1:{proxy.stdout.readline().strip()}"
        finally:
            proxy.kill()


def over_tls(address: str, certificates: Path) -> dict[str, str]:
    """The variables of a worker in a cluster. Where one of `BUNDLES` is set the client trusts those, and not the authority."""
    told = {"DOCKER_HOST": address, "DOCKER_TLS_VERIFY": "1", "DOCKER_CERT_PATH": str(certificates)}
    return {**told, "FANFOLD_DOCKER_IMAGE": TEST_IMAGE, **dict.fromkeys(BUNDLES, "")}


def test_a_run_over_tls_has_its_files_and_its_exit_code(fanfold: Fanfold, tmp_path: Path) -> None:
    authority = Authority()
    (tmp_path / "repo").mkdir()
    (tmp_path / "repo" / "note").write_text("over TLS\n" * 20_000)
    with served(authority.write("engine", tmp_path / "server")) as address:
        told = over_tls(address, authority.write("client", tmp_path / "client"))
        command = ["exec", "--provider", "docker", "-p", "repo", "--", "sh", "-c", "wc -c <note; exit 3"]
        done = fanfold(*command, cwd=tmp_path, **told)
        assert (done.stdout.strip(), done.returncode) == ("180000", 3), done.stderr
        fanfold.stop()


def test_an_engine_of_another_authority_is_not_believed(fanfold: Fanfold, tmp_path: Path) -> None:
    with served(Authority().write("engine", tmp_path / "server")) as address:
        told = over_tls(address, Authority().write("client", tmp_path / "client"))
        done = fanfold("exec", "--provider", "docker", "--", "true", **told)
        assert done.returncode == 3
        assert "CERTIFICATE_VERIFY_FAILED" in done.stderr
        fanfold.stop()


async def test_no_connection_of_a_provider_over_tls_is_left_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    authority = Authority()
    with served(authority.write("engine", tmp_path / "server")) as address, warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always", ResourceWarning)
        for key, value in over_tls(address, authority.write("client", tmp_path / "client")).items():
            monkeypatch.setenv(key, value)
        await one_command_in_a_sandbox()
        until(lambda: "fanfold-docker-pump" not in {one.name for one in threading.enumerate()}, "the streams have ended")
        gc.collect()
    assert [str(one.message) for one in warned if one.category is ResourceWarning] == []


async def one_command_in_a_sandbox() -> None:
    provider = DockerProvider(TEST_IMAGE, pull="never")
    handle = await provider.create(SandboxSpec())
    async with await provider.attach(handle) as sandbox:
        assert (await sandbox.aexecute("echo hi")).output == "hi\n"
    await provider.destroy(handle)
    await provider.aclose()
