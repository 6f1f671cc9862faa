"""Every pod is restricted, and has bounds."""

from __future__ import annotations

import re

from tests.chart.charts import Rendered, Workload

ENGINE = "engine"
"""The one component that may be privileged, where its operator says so."""


def restricted(workloads: list[Workload]) -> list[Workload]:
    return [one for one in workloads if one.component != ENGINE]


def test_every_pod_is_restricted(rendered: Rendered) -> None:
    for workload in restricted(rendered.workloads):
        spec = workload.spec
        assert spec["securityContext"]["runAsNonRoot"] is True
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert spec["securityContext"].get("runAsUser", 1) > 0
        assert not {"hostNetwork", "hostPID", "hostIPC"} & set(spec)
        for container in workload.containers:
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]},
            }, container["name"]  # fmt: skip
        assert not [volume for volume in spec.get("volumes", []) if "hostPath" in volume]


def test_only_an_engine_is_privileged_and_only_where_that_was_chosen(rendered: Rendered) -> None:
    privileged = {
        workload.component
        for workload in rendered.workloads
        for container in workload.containers
        if container["securityContext"].get("privileged")
    }
    assert privileged == ({ENGINE} if rendered.values["sandboxes"].get("docker", {}).get("engine") == "dind" else set())


def test_no_pod_has_a_token_but_where_rights_were_given(rendered: Rendered) -> None:
    rules = rendered.values["sandboxes"].get("rbac", {}).get("rules", [])
    given = {"controller", "worker"} if rules else set()
    for workload in rendered.workloads:
        assert workload.spec["automountServiceAccountToken"] is (workload.component in given), workload.name
    assert all(account["automountServiceAccountToken"] is False for account in rendered.of("ServiceAccount"))
    assert [role["rules"] for role in rendered.of("Role")] == ([rules] if rules else [])
    assert not rendered.of("ClusterRole", "ClusterRoleBinding")


def test_rights_go_to_workers_and_controllers_alone(rendered: Rendered) -> None:
    for binding in rendered.of("RoleBinding"):
        who = {one.component: one.spec["serviceAccountName"] for one in rendered.workloads if "serviceAccountName" in one.spec}
        subjects = {subject["name"] for subject in binding["subjects"]}
        assert subjects == {who["controller"], who["worker"]}
        assert who["api"] not in subjects
        assert binding["roleRef"]["name"] in rendered.names("Role")


def test_no_service_becomes_a_variable(rendered: Rendered) -> None:
    """A Service `fanfold-api` would be `FANFOLD_API_PORT` in every pod, and Fanfold refuses variables that it does not know."""
    assert all(workload.spec["enableServiceLinks"] is False for workload in rendered.workloads)


def test_every_container_requests_and_is_limited(rendered: Rendered) -> None:
    for workload in rendered.workloads:
        for container in workload.containers:
            for bound in ("requests", "limits"):
                assert {"cpu", "memory"} <= set(container["resources"][bound]), (workload.name, container["name"])
        for volume in workload.spec.get("volumes", []):
            assert "emptyDir" not in volume or volume["emptyDir"]["sizeLimit"], (workload.name, volume)


def test_every_image_has_a_version(rendered: Rendered) -> None:
    for workload in rendered.workloads:
        for container in workload.containers:
            assert re.search(r":[^/:]*\d[^/:]*$|@sha256:[0-9a-f]{64}$", container["image"]), container["image"]
            assert not container["image"].endswith(":latest")


def test_what_runs_for_long_is_watched(rendered: Rendered) -> None:
    for workload in rendered.workloads:
        if workload.kind in ("Deployment", "StatefulSet"):
            for container in workload.containers:
                assert {"livenessProbe", "readinessProbe"} <= set(container), workload.name


def test_labels_of_pods_do_not_change_with_the_chart_alone(rendered: Rendered) -> None:
    """Workers would be restarted for it, and servers with them."""
    for workload in rendered.workloads:
        if workload.kind != "Pod":
            assert not {"helm.sh/chart", "app.kubernetes.io/version"} & set(workload.labels)
