"""Secrets: existing ones are used and none is made beside them; what is made is what its user needs."""

from __future__ import annotations

import base64
import re
import ssl
from contextlib import suppress
from pathlib import Path

import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)

from tests.chart.charts import CHART, NAMESPACE, Document, Rendered, render, values_of

ROUNDS = 5
"""Of messages, more than a handshake takes."""


def trial(**more: Document) -> Rendered:
    return render({**values_of(CHART / "ci" / "trial.yaml"), **more})


def data(rendered: Rendered, name: str) -> dict[str, bytes]:
    return {key: base64.b64decode(value) for key, value in rendered.get("Secret", name)["data"].items()}


def test_existing_secrets_are_used_and_none_is_made() -> None:
    rendered = trial(
        database={"bundled": {"enabled": True, "existingSecret": "own-database"}},
        redis={"bundled": {"enabled": True, "existingSecret": "own-redis"}},
        secretKey={"existingSecret": "own-key", "key": "sealing"},
        sandboxes={
            "providers": ["docker"],
            "docker": {
                "engine": "dind",
                "dind": {"privileged": True, "existingServerSecret": "own-server", "existingClientSecret": "own-client"},
            },
        },
    )
    assert not rendered.of("Secret")
    text = yaml.safe_dump_all(rendered.documents)
    for name in ("own-database", "own-redis", "own-key", "own-server", "own-client"):
        assert name in text


def test_the_defaults_make_no_secret() -> None:
    for name in ("minimal", "production", "pods", "ssh"):
        assert not render(values_of(CHART / "ci" / f"{name}.yaml")).of("Secret"), name


def test_no_value_holds_a_secret() -> None:
    """What is in values is in the release's record, in pipelines and in their logs."""
    keys = re.findall(r"^\s*(\w+):", (CHART / "values.yaml").read_text(), re.MULTILINE)
    wanted = {key for key in keys if re.search(r"(?i)password|token$|accesskey$|apikey$|credential", key)}
    assert wanted == set()


def test_what_was_made_stays_when_the_release_goes() -> None:
    secrets = trial().of("Secret")
    assert len(secrets) == 5
    for secret in secrets:
        assert secret["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"


def test_passwords_need_no_escaping_in_addresses() -> None:
    rendered = trial()
    for name in ("demo-fanfold-postgresql", "demo-fanfold-redis"):
        assert re.fullmatch(rb"[A-Za-z0-9]{40}", data(rendered, name)["password"])


def test_engine_and_clients_trust_one_authority_and_the_engine_has_the_name_it_is_called_by() -> None:
    rendered = trial()
    server, client = data(rendered, "demo-fanfold-engine-server"), data(rendered, "demo-fanfold-engine-client")
    assert server["ca.pem"] == client["ca.pem"]
    authority = x509.load_pem_x509_certificate(server["ca.pem"])
    for held in (server, client):
        certificate = x509.load_pem_x509_certificate(held["cert.pem"])
        certificate.verify_directly_issued_by(authority)
        key = load_pem_private_key(held["key.pem"], password=None)
        pair = (Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
        assert key.public_key().public_bytes(*pair) == certificate.public_key().public_bytes(*pair)
        assert key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()) not in authority.public_bytes(Encoding.PEM)
    assert server["key.pem"] != client["key.pem"]

    worker = rendered.workload("worker").containers[0]
    host = next(one["value"] for one in worker["env"] if one["name"] == "DOCKER_HOST")
    names = x509.load_pem_x509_certificate(server["cert.pem"]).extensions.get_extension_for_class(x509.SubjectAlternativeName)
    told = names.value.get_values_for_type(x509.DNSName)
    assert host == f"tcp://{told[0]}:2376"
    assert f"{told[0]}.{NAMESPACE}.svc" in told


def test_engine_and_client_shake_hands_and_a_stranger_is_turned_away(tmp_path: Path) -> None:
    rendered, other = trial(), trial()
    server = context(ssl.PROTOCOL_TLS_SERVER, data(rendered, "demo-fanfold-engine-server"), tmp_path / "server")
    server.verify_mode = ssl.CERT_REQUIRED  # what `dockerd --tlsverify` does
    client = context(ssl.PROTOCOL_TLS_CLIENT, data(rendered, "demo-fanfold-engine-client"), tmp_path / "client")
    shake_hands(client, server, "demo-fanfold-engine")
    with pytest.raises(ssl.SSLError, match="mismatch"):
        shake_hands(client, server, "another-engine")
    stranger = data(rendered, "demo-fanfold-engine-client") | {
        name: data(other, "demo-fanfold-engine-client")[name] for name in ("cert.pem", "key.pem")
    }
    with pytest.raises(ssl.SSLError, match="verify failed"):
        shake_hands(context(ssl.PROTOCOL_TLS_CLIENT, stranger, tmp_path / "stranger"), server, "demo-fanfold-engine")


def context(protocol: ssl._SSLMethod, held: dict[str, bytes], folder: Path) -> ssl.SSLContext:
    folder.mkdir()
    for name, content in held.items():
        (folder / name).write_bytes(content)
    made = ssl.SSLContext(protocol)
    made.load_verify_locations(folder / "ca.pem")
    made.load_cert_chain(folder / "cert.pem", folder / "key.pem")
    return made


def shake_hands(client: ssl.SSLContext, server: ssl.SSLContext, name: str) -> None:
    """Over two pieces of memory instead of a network. Raises `SSLError`."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = [
        client.wrap_bio(to_client, to_server, server_hostname=name),
        server.wrap_bio(to_server, to_client, server_side=True),
    ]
    for _ in range(ROUNDS):
        for side in sides:
            with suppress(ssl.SSLWantReadError):
                side.do_handshake()
    for side in sides:
        assert side.getpeercert() is not None


def test_nobody_but_the_engine_has_its_key() -> None:
    rendered = trial()
    holders = {
        workload.component
        for workload in rendered.workloads
        for volume in workload.spec.get("volumes", [])
        if volume.get("secret", {}).get("secretName") == "demo-fanfold-engine-server"
    }
    assert holders == {"engine"}
