"""Whatever refers to something finds it: selectors their pods, pods their Secrets, doors the API."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from tests.chart.charts import Document, Rendered, Workload

HOOK = "helm.sh/hook"
GIVEN = re.compile(r"existing|apiKeySecret|tlsSecret")
"""Keys of values that name what is there."""
NAMED = re.compile(r"imagePullSecrets|serviceAccount|extraVolumes")
"""Values with a `name` in them that is that of something that is there."""


def test_selectors_find_the_pods_and_only_those(rendered: Rendered) -> None:
    for owner in rendered.of("Deployment", "StatefulSet"):
        selector = owner["spec"]["selector"]["matchLabels"]
        found = [workload.name for workload in rendered.workloads if _matches(selector, workload.labels)]
        assert found == [owner["metadata"]["name"]]
    for other in rendered.of("Service", "PodDisruptionBudget", "NetworkPolicy"):
        components = {workload.component for workload in rendered.workloads if _matches(_selector(other), workload.labels)}
        assert len(components) == 1, other["metadata"]["name"]


def _selector(document: Document) -> dict[str, str]:
    spec = document["spec"]
    found: dict[str, str] = {
        "Service": lambda: spec["selector"],
        "PodDisruptionBudget": lambda: spec["selector"]["matchLabels"],
        "NetworkPolicy": lambda: spec["podSelector"]["matchLabels"],
    }[document["kind"]]()
    return found


def _matches(selector: Mapping[str, str], labels: Mapping[str, str]) -> bool:
    return selector.items() <= labels.items()


def test_ports_of_services_are_those_of_their_pods(rendered: Rendered) -> None:
    for service in rendered.of("Service"):
        pods = [workload for workload in rendered.workloads if _matches(service["spec"]["selector"], workload.labels)]
        for port in service["spec"]["ports"]:
            for pod in pods:
                assert port["targetPort"] in {one["name"] for container in pod.containers for one in container["ports"]}


def test_every_volume_that_is_mounted_is_there_and_is_used(rendered: Rendered) -> None:
    for workload in rendered.workloads:
        there = {volume["name"] for volume in workload.spec.get("volumes", [])}
        owner = rendered.get(workload.kind, workload.name)
        there |= {claim["metadata"]["name"] for claim in owner["spec"].get("volumeClaimTemplates", [])}
        mounted = {mount["name"] for container in workload.containers for mount in container.get("volumeMounts", [])}
        assert mounted == there, workload.name


def references(workload: Workload) -> Iterator[tuple[str, str, str | None]]:
    """Kind, name and key of each."""
    for container in workload.containers:
        for source in container.get("envFrom", []):
            kind = "ConfigMap" if "configMapRef" in source else "Secret"
            yield from ((kind, one["name"], None) for one in source.values())
        for variable in container.get("env", []):
            if "secretKeyRef" in variable.get("valueFrom", {}):
                reference = variable["valueFrom"]["secretKeyRef"]
                yield "Secret", reference["name"], reference["key"]
    for volume in workload.spec.get("volumes", []):
        if "secret" in volume:
            keys = [item["key"] for item in volume["secret"].get("items", [])] or [None]
            yield from (("Secret", volume["secret"]["secretName"], key) for key in keys)
        if "configMap" in volume:
            yield "ConfigMap", volume["configMap"]["name"], None
        if "persistentVolumeClaim" in volume:
            yield "PersistentVolumeClaim", volume["persistentVolumeClaim"]["claimName"], None
    for secret in workload.spec.get("imagePullSecrets", []):
        yield "Secret", secret["name"], None
    if account := workload.spec.get("serviceAccountName"):
        yield "ServiceAccount", account, None


def existing(values: Any, path: str = "") -> set[str]:
    """The names that values give of what is there: at keys that say so, and in the pods' own volumes."""
    if isinstance(values, dict):
        given = {value for key, value in values.items() if isinstance(value, str) and GIVEN.match(key)}
        named = {values["name"]} if "name" in values and NAMED.search(path) else set()
        return given.union(named, *(existing(value, f"{path}.{key}") for key, value in values.items()))
    found: set[str] = set()
    return found.union(*(existing(one, path) for one in values)) if isinstance(values, list) else found


def test_everything_that_a_pod_refers_to_is_there(rendered: Rendered) -> None:
    given = existing(rendered.values)
    for workload in rendered.workloads:
        for kind, name, key in references(workload):
            if name in given:
                continue
            assert name in rendered.names(kind), f"{workload.name} needs the {kind} {name}"
            if key is not None:
                assert key in rendered.get(kind, name)["data"], f"{workload.name} needs {key} of {name}"


def test_nothing_is_made_that_nobody_needs(rendered: Rendered) -> None:
    used = {(kind, name) for workload in rendered.workloads for kind, name, _ in references(workload)}
    of_others = {one["metadata"]["name"] for one in rendered.of("ConfigMap") if "helm.sh/chart" not in str(one["metadata"])}
    for kind in ("Secret", "ConfigMap", "PersistentVolumeClaim", "ServiceAccount"):
        for name in rendered.names(kind) - of_others:
            assert (kind, name) in used or "-dashboard-" in name, (kind, name)


def test_what_a_hook_needs_is_there_before_the_release(rendered: Rendered) -> None:
    """Helm makes nothing of the release before its `pre-install` hooks have succeeded."""
    for job in rendered.of("Job"):
        if "pre-install" in job["metadata"]["annotations"][HOOK]:
            workload = next(one for one in rendered.workloads if one.name == job["metadata"]["name"])
            for kind, name, _ in references(workload):
                assert name not in rendered.names(kind), f"{kind} {name} is made after {workload.name}"


def test_an_existing_database_is_migrated_before_and_a_bundled_one_when_it_is_there(rendered: Rendered) -> None:
    for job in rendered.of("Job"):
        bundled = rendered.values["database"].get("bundled", {}).get("enabled", False)
        assert job["metadata"]["annotations"][HOOK] == ("post-install,pre-upgrade" if bundled else "pre-install,pre-upgrade")


@pytest.mark.parametrize("kind", ["HorizontalPodAutoscaler", "ScaledObject"])
def test_what_is_scaled_has_no_number_of_its_own(rendered: Rendered, kind: str) -> None:
    for scaler in rendered.of(kind):
        owner = rendered.get("Deployment", scaler["spec"]["scaleTargetRef"]["name"])
        assert "replicas" not in owner["spec"]


def test_whoever_is_not_scaled_has_one(rendered: Rendered) -> None:
    scaled = {one["spec"]["scaleTargetRef"]["name"] for one in rendered.of("HorizontalPodAutoscaler", "ScaledObject")}
    for owner in rendered.of("Deployment"):
        assert ("replicas" in owner["spec"]) is (owner["metadata"]["name"] not in scaled)


def test_doors_lead_to_the_api(rendered: Rendered) -> None:
    api = next(one for one in rendered.of("Service") if one["metadata"]["name"].endswith("-api"))
    paths = [path for one in rendered.of("Ingress") for rule in one["spec"]["rules"] for path in rule["http"]["paths"]]
    backends = [path["backend"]["service"]["name"] for path in paths]
    routes = [ref for one in rendered.of("HTTPRoute") for rule in one["spec"]["rules"] for ref in rule["backendRefs"]]
    assert {*backends, *(ref["name"] for ref in routes)} <= {api["metadata"]["name"]}
    assert {ref["port"] for ref in routes} <= {api["spec"]["ports"][0]["port"]}


def test_prometheus_finds_a_port_of_each_component(rendered: Rendered) -> None:
    for monitor in rendered.of("ServiceMonitor"):
        selector = monitor["spec"]["selector"]["matchLabels"]
        services = [one for one in rendered.of("Service") if _matches(selector, one["metadata"]["labels"])]
        found: dict[str, set[str]] = {}
        for one in services:
            for port in one["spec"]["ports"]:
                found.setdefault(port["name"], set()).add(one["metadata"]["labels"]["app.kubernetes.io/component"])
        assert found["metrics"] == {"controller", "worker"}
        assert found["http"] == {"api"}
        assert {endpoint["port"] for endpoint in monitor["spec"]["endpoints"]} == {"metrics", "http"}
