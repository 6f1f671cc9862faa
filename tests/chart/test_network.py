"""Nothing goes in or out of a pod but what its component needs: the policies, applied as Kubernetes says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from tests.chart.charts import CHART, Document, Rendered, render, values_of

Policy = Document
ANYWHERE: Document = {}
"""A peer outside of the release: a pod of another namespace, without labels."""


def _selects(selector: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    return bool(selector.get("matchLabels", {}).items() <= labels.items())


def _is_peer(peer: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    """Whether a peer of a rule is this pod of the release; `ANYWHERE` is one of another namespace."""
    if "namespaceSelector" in peer:
        return not peer["namespaceSelector"]
    return bool(labels) and "podSelector" in peer and _selects(peer["podSelector"], labels)


def _allowed(rendered: Rendered, pod: Mapping[str, str], other: Mapping[str, str], direction: str, port: int | str) -> bool:
    side = {"ingress": "from", "egress": "to"}[direction]
    policies = [one for one in rendered.of("NetworkPolicy") if _selects(one["spec"]["podSelector"], pod)]
    rules = [rule for one in policies for rule in one["spec"][direction]]
    fitting = [rule for rule in rules if not rule.get("ports") or port in {one["port"] for one in rule["ports"]}]
    return not policies or any(side not in rule or any(_is_peer(peer, other) for peer in rule[side]) for rule in fitting)


def let_in(rendered: Rendered, source: str, target: str, port: int, name: str) -> bool:
    """Whether a port of one component takes what comes from pods of another's."""
    one, other = rendered.workload(source).labels, rendered.workload(target).labels
    return any(_allowed(rendered, other, one, "ingress", port_or_name) for port_or_name in (port, name))


def reach(rendered: Rendered, source: str, target: str, port: int, name: str) -> bool:
    """Whether pods of one component reach a port of another's: they are let out, and are let in there."""
    one, other = rendered.workload(source).labels, rendered.workload(target).labels
    return let_in(rendered, source, target, port, name) and _allowed(rendered, one, other, "egress", port)


def trial(**more: Any) -> Rendered:
    return render({**values_of(CHART / "ci" / "trial.yaml"), **more})


def test_every_pod_has_a_policy_for_both_directions(rendered: Rendered) -> None:
    if not rendered.values.get("networkPolicies", {}).get("enabled", True):
        assert not rendered.of("NetworkPolicy")
        return
    for workload in rendered.workloads:
        own = [one["spec"] for one in rendered.of("NetworkPolicy") if _selects(one["spec"]["podSelector"], workload.labels)]
        assert [spec["policyTypes"] for spec in own] == [["Ingress", "Egress"]], workload.name


def test_bundled_servers_are_reached_by_those_that_need_them_and_reach_nobody() -> None:
    rendered = trial()
    clients = {
        ("postgresql", 5432, "postgresql"): {"api", "controller", "worker", "migration"},
        ("redis", 6379, "redis"): {"api", "controller", "worker"},
        ("engine", 2376, "docker"): {"controller", "worker"},
        ("api", 8000, "http"): {"test"},
    }
    components = {workload.component for workload in rendered.workloads}
    for (target, port, name), expected in clients.items():
        reaching = {source for source in components - {target} if reach(rendered, source, target, port, name)}
        assert reaching == expected, target
        if target != "api":  # which everybody in the cluster may ask
            assert {source for source in components - {target} if let_in(rendered, source, target, port, name)} == expected
    for server in ("postgresql", "redis"):
        assert rendered.get("NetworkPolicy", f"demo-fanfold-{server}")["spec"]["egress"] == []


def test_the_api_reaches_the_engine_only_where_that_was_chosen() -> None:
    assert reach(trial(api={"sandboxAccess": True}), "api", "engine", 2376, "docker")


def test_anybody_in_the_cluster_reaches_the_api_and_nothing_else() -> None:
    rendered = trial()
    ports = {"api": "http", "controller": "metrics", "worker": "metrics", "postgresql": 5432, "redis": 6379}
    for component, port in ports.items():
        pod = rendered.workload(component).labels
        assert _allowed(rendered, pod, ANYWHERE, "ingress", port) is (component == "api"), component


def test_prometheus_reaches_the_metrics_where_it_is_named() -> None:
    peers = [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}]
    rendered = trial(networkPolicies={"metrics": {"from": peers}})
    for component in ("controller", "worker"):
        rules = rendered.get("NetworkPolicy", f"demo-fanfold-{component}")["spec"]["ingress"]
        assert rules == [{"from": peers, "ports": [{"port": "metrics", "protocol": "TCP"}]}]


def _goes_to(rendered: Rendered, component: str) -> set[int]:
    """Ports of addresses outside of the cluster."""
    rules = rendered.get("NetworkPolicy", f"demo-fanfold-{component}")["spec"]["egress"]
    outside = [rule for rule in rules if all("ipBlock" in peer for peer in rule.get("to", []))]
    return {port["port"] for rule in outside for port in rule["ports"]}


@pytest.mark.parametrize(
    ("more", "api", "worker"),
    [
        ({}, {5432, 6379, 443}, {5432, 6379, 443}),
        ({"artifacts": {"volume": {"existingClaim": "shared"}}}, {5432, 6379}, {5432, 6379, 443}),
        (
            {"sandboxes": {"providers": ["docker"], "docker": {"engine": "ssh", "ssh": {
                "host": "ssh://me@engine.example.org", "existingSecret": "engine"}}}},
            {5432, 6379, 443}, {5432, 6379, 443, 22},
        ),
        (
            {"sandboxes": {"providers": ["docker"], "docker": {"engine": "tls", "tls": {
                "host": "tcp://10.1.2.3:4376", "existingSecret": "engine"}}}},
            {5432, 6379, 443}, {5432, 6379, 443, 4376},
        ),
    ],
    ids=["bucket", "volume", "ssh", "tls"],
)  # fmt: skip
def test_out_of_the_cluster_go_only_these_ports(more: Document, api: set[int], worker: set[int]) -> None:
    values = {**values_of(CHART / "ci" / "minimal.yaml"), **more}
    rendered = render(values)
    assert _goes_to(rendered, "api") == api
    assert _goes_to(rendered, "worker") == _goes_to(rendered, "controller") == worker


def test_the_addresses_of_the_cloud_s_own_services_are_not_the_internet() -> None:
    """169.254.169.254 tells the credentials of a node to whoever asks."""
    for policy in trial().of("NetworkPolicy"):
        for rule in policy["spec"]["egress"]:
            for peer in rule.get("to", []):
                if peer.get("ipBlock", {}).get("cidr") == "0.0.0.0/0":
                    assert {"169.254.0.0/16", "10.0.0.0/8"} <= set(peer["ipBlock"]["except"])
