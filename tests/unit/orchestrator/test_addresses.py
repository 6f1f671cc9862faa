"""Where webhooks may lead."""

from __future__ import annotations

import ipaddress

import pytest

from orchestrator.addresses import check_address, is_public
from orchestrator.errors import BadInput

PRIVATE = [
    "0.0.0.0", "10.1.2.3", "100.64.0.1", "127.0.0.1", "127.255.255.254", "169.254.169.254", "172.16.0.1", "192.0.0.8",
    "192.168.1.1", "198.18.0.1", "203.0.113.5", "224.0.0.1", "239.1.2.3", "240.0.0.1", "255.255.255.255",
    "::", "::1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:169.254.169.254", "::127.0.0.1", "fe80::1", "fe80::1%1",
    "fc00::1", "fd00:ec2::254", "fec0::1", "ff02::1", "2001:db8::1", "2002:7f00:1::", "2001:0:4136:e378:8000:63bf:3fff:fdd2",
    "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "64:ff9b:1::a00:1", "100::1",
]  # fmt: skip
PUBLIC = ["8.8.8.8", "93.184.216.34", "2606:4700:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808"]


@pytest.mark.parametrize("address", PRIVATE)
def test_an_address_of_the_operators_network_is_not_public(address: str) -> None:
    assert not is_public(ipaddress.ip_address(address))


@pytest.mark.parametrize("address", PUBLIC)
def test_an_address_of_the_open_internet_is_public(address: str) -> None:
    assert is_public(ipaddress.ip_address(address))


@pytest.mark.parametrize(
    "url",
    [
        "https://hooks.example.com/fanfold?a=b",
        "https://hooks.example.com:8443/",
        "https://8.8.8.8/",
        "https://[2606:4700:4700::1111]/x",
        "https://bücher.example/x",
    ],
)
def test_a_public_address_is_taken(url: str) -> None:
    check_address(url, allow_private=False)


@pytest.mark.parametrize(
    "url",
    [
        "", "x", "hooks.example.com", "http://hooks.example.com/", "ftp://hooks.example.com/", "https:///x", "https://",
        "//a/b", "https://user:pass@hooks.example.com/", "https://hooks.example.com/#part", "https://hooks.example.com:25/",
        "https://hooks.example.com:80/", "https://hooks.example.com:0/", "https://hooks.example.com:99999/",
        "https://hooks.example.com:x/", "https://localhost/", "https://LOCALHOST./", "https://a.localhost/", "https://127.0.0.1/",
        "https://[::1]/", "https://[::ffff:10.0.0.1]/", "https://169.254.169.254/latest/meta-data", "https://[fe80::1%251]/",
        "https://a\nb/", "https://a b/", "https://hooks.example.com/" + "x" * 2000, "https://exa\0mple.com/",
    ],
)  # fmt: skip
def test_any_other_address_is_refused(url: str) -> None:
    with pytest.raises(BadInput, match="url: "):
        check_address(url, allow_private=False)


@pytest.mark.parametrize("url", ["http://localhost:80/", "http://127.0.0.1:9/", "https://10.0.0.1:22/x"])
def test_an_operator_may_allow_the_own_network(url: str) -> None:
    check_address(url, allow_private=True)
    with pytest.raises(BadInput):
        check_address(url, allow_private=False)
