"""The allowed addresses (RDOC1, RO5): by our own lists, in every version of Python.

The registries as they stand at IANA, written down here once more: a network that is missing in the
product, or cut, is found. Each in every spelling that carries an IPv4 address.
"""

import ipaddress
from collections.abc import Iterator

import pytest

from core.lib.safe_fetch import Address, Fetcher, FetchError, is_public, is_public_or_private

# "IPv4 Special-Purpose Address Space" and multicast.
SPECIAL_V4 = [
    "0.0.0.0/8",
    "0.0.0.0/32",
    "10.0.0.0/8",
    "100.64.0.0/10",
    "127.0.0.0/8",
    "169.254.0.0/16",
    "172.16.0.0/12",
    "192.0.0.0/24",
    "192.0.0.0/29",
    "192.0.0.8/32",
    "192.0.0.9/32",
    "192.0.0.10/32",
    "192.0.0.170/32",
    "192.0.0.171/32",
    "192.0.2.0/24",
    "192.31.196.0/24",
    "192.52.193.0/24",
    "192.88.99.0/24",
    "192.88.99.2/32",
    "192.168.0.0/16",
    "192.175.48.0/24",
    "198.18.0.0/15",
    "198.51.100.0/24",
    "203.0.113.0/24",
    "224.0.0.0/4",
    "240.0.0.0/4",
    "255.255.255.255/32",
]
# "IPv6 Special-Purpose Address Space", multicast, and what was deprecated.
SPECIAL_V6 = [
    "::1/128",
    "::/128",
    "64:ff9b::/104",  # of the addresses behind NAT64 some are public
    "64:ff9b:0:0:1::/80",
    "64:ff9b:1::/48",
    "100::/64",
    "100:0:0:1::/64",
    "2001::/23",
    "2001::/32",
    "2001:1::1/128",
    "2001:1::2/128",
    "2001:1::3/128",
    "2001:2::/48",
    "2001:3::/32",
    "2001:4:112::/48",
    "2001:10::/28",
    "2001:20::/28",
    "2001:30::/28",
    "2001:db8::/32",
    "2002::/16",
    "2620:4f:8000::/48",
    "3fff::/20",
    "5f00::/16",
    "fc00::/7",
    "fe80::/10",
    "fec0::/10",
    "ff00::/8",
    "::/96",
    "::ffff:0:0:0/96",
    "4000::/3",
    "e000::/4",
]
METADATA = [
    "169.254.169.254",
    "169.254.170.2",
    "169.254.170.23",
    "169.254.169.253",
    "169.254.42.42",
    "168.63.129.16",
    "100.100.100.200",
    "192.0.0.192",
    "fd00:ec2::254",
    "fd00:ec2::253",
    "fd00:ec2::23",
    "fd20:ce::254",
    "fd00:42::42",
]
PUBLIC = [
    "1.1.1.1",
    "8.8.8.8",
    "9.255.255.255",
    "11.0.0.0",
    "100.63.255.255",
    "100.128.0.0",
    "126.255.255.255",
    "128.0.0.0",
    "168.63.129.15",
    "168.63.129.17",
    "169.253.255.255",
    "169.255.0.0",
    "172.15.255.255",
    "172.32.0.0",
    "191.255.255.255",
    "192.0.1.0",
    "192.0.3.0",
    "192.88.98.255",
    "192.88.100.0",
    "192.167.255.255",
    "192.169.0.0",
    "198.17.255.255",
    "198.20.0.0",
    "203.0.112.255",
    "203.0.114.0",
    "223.255.255.255",
    "2000::",
    "2001:200::",
    "2001:db7:ffff::1",
    "2001:db9::",
    "2003::",
    "2606:4700:4700::1111",
    "2620:4f:7fff::",
    "2620:4f:8001::",
    "2a00:1450:4001:81b::200e",
    "3ffe::",
    "3fff:1000::",
]
OWN_V4 = ("10.0.0.0/8", "127.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16")
OWN = [
    "10.0.0.1",
    "10.255.255.255",
    "127.0.0.1",
    "127.255.255.255",
    "172.16.0.1",
    "172.31.255.255",
    "192.168.0.1",
    "192.168.255.255",
    "::1",
    "fc00::1",
    "fd00::1",
    "fdff:ffff::1",
]


def edges(net: str) -> Iterator[Address]:
    """Return the first, a middle and the last address of a network."""
    network = ipaddress.ip_network(net)
    for number in {0, network.num_addresses // 2, network.num_addresses - 1}:
        yield network[number]


def spellings(address: Address) -> Iterator[Address]:
    """Return the address itself, and each form of IPv6 that carries it."""
    yield address
    if isinstance(address, ipaddress.IPv6Address):
        return
    number = int(address)
    yield ipaddress.IPv6Address(f"::ffff:{address}")
    yield ipaddress.IPv6Address(f"::{address}")  # compatible
    yield ipaddress.IPv6Address(f"::ffff:0:{address}")  # translated
    yield ipaddress.IPv6Address(f"64:ff9b::{address}")  # NAT64
    yield ipaddress.IPv6Address(f"64:ff9b:1::{address}")  # NAT64, local
    yield ipaddress.IPv6Address((0x2002 << 112) | (number << 80) | 1)  # 6to4
    yield ipaddress.IPv6Address((0x20010000 << 96) | (number ^ 0xFFFFFFFF))  # Teredo, as client
    yield ipaddress.IPv6Address((0x20010000 << 96) | (number << 64))  # Teredo, as server


@pytest.fixture(autouse=True)
def _standard_library_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the standard library's own checks fail: their answers differ by version."""

    def asked(self: object) -> bool:
        raise AssertionError("the answer would differ between versions of Python")

    names = "is_global is_private is_reserved is_multicast is_link_local is_loopback is_unspecified"
    for name in names.split():
        for kind in (ipaddress.IPv4Address, ipaddress.IPv6Address):
            monkeypatch.setattr(kind, name, property(asked))


@pytest.mark.parametrize("net", SPECIAL_V4 + SPECIAL_V6)
def test_no_special_purpose_network_is_public(net: str) -> None:
    """[RDOC1]"""
    for address in edges(net):
        for each in spellings(address):
            assert not is_public(each), each


@pytest.mark.parametrize("text", METADATA)
def test_metadata_is_refused_whatever_is_ticked(text: str) -> None:
    """[RDOC1] [RO5] In every spelling."""
    for each in spellings(ipaddress.ip_address(text)):
        assert not is_public(each), each
        assert not is_public_or_private(each), each


@pytest.mark.parametrize("text", PUBLIC)
def test_the_rest_of_the_internet_is_public(text: str) -> None:
    address = ipaddress.ip_address(text)
    assert is_public(address)
    assert is_public_or_private(address)
    if address.version == 4:
        assert is_public(ipaddress.ip_address(f"::ffff:{address}"))


@pytest.mark.parametrize("text", [each for each in PUBLIC if ":" not in each])
def test_a_public_address_behind_nat64_is_public(text: str) -> None:
    """A machine with IPv6 alone has no other address of a name that is on IPv4. With a zone it
    would be of one network card."""
    behind = ipaddress.IPv6Address(f"64:ff9b::{text}")
    assert is_public(behind)
    assert is_public_or_private(behind)
    assert not is_public(ipaddress.ip_address(f"{behind}%eth0"))


@pytest.mark.parametrize("net", SPECIAL_V4 + SPECIAL_V6)
def test_private_address_opens_the_owners_networks_only(net: str) -> None:
    """[D4]"""
    for address in edges(net):
        ours = any(
            address in ipaddress.ip_network(each)
            for each in (*OWN_V4, "::1/128", "fc00::/7")
            if ipaddress.ip_network(each).version == address.version
        )
        assert is_public_or_private(address) == ours, address


@pytest.mark.parametrize("text", OWN)
def test_own_networks_need_the_tick(text: str) -> None:
    """[D4]"""
    address = ipaddress.ip_address(text)
    assert not is_public(address)
    assert is_public_or_private(address)


def test_an_address_of_one_interface_is_not_public() -> None:
    """A zone names a network card of this machine."""
    address = ipaddress.ip_address("2606:4700::1%eth0")
    assert not is_public(address)
    assert not is_public_or_private(address)
    assert not is_public_or_private(ipaddress.ip_address("fd00::1%eth0"))


@pytest.mark.parametrize("text", METADATA)
async def test_the_fetcher_refuses_metadata_with_private_address_ticked(text: str) -> None:
    """[RDOC1] [RO5] A name that resolves there, and the address itself."""

    async def there(host: str, port: int) -> list[str]:
        return [text]

    shown = f"[{text}]" if ":" in text else text
    fetcher = Fetcher(resolve=there, allowed=is_public_or_private)
    for host in ("name.example", shown):
        with pytest.raises(FetchError, match="address not allowed"):
            await fetcher.get(f"http://{host}/latest/meta-data/")
