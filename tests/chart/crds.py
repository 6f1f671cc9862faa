"""Schemas of what is no part of Kubernetes itself, as far as the chart uses it: each field, its type, and no other field."""

from __future__ import annotations

from typing import Any

Schema = dict[str, Any]
TEXT: Schema = {"type": "string", "minLength": 1}
NUMBER: Schema = {"type": "integer"}
LABELS: Schema = {"type": "object", "additionalProperties": {"type": "string"}}


def record(*required: str, **fields: Schema) -> Schema:
    """An object with these fields and no others."""
    return {"type": "object", "additionalProperties": False, "required": list(required), "properties": fields}


def many(items: Schema) -> Schema:
    """At least one."""
    return {"type": "array", "minItems": 1, "items": items}


def choice(*values: str) -> Schema:
    """One of these texts."""
    return {"enum": list(values)}


def kind(spec: Schema) -> Schema:
    """A whole object."""
    metadata = record("name", name=TEXT, labels=LABELS, annotations=LABELS)
    return record("apiVersion", "kind", "metadata", "spec", apiVersion=TEXT, kind=TEXT, metadata=metadata, spec=spec)


_CREDENTIALS = record("name", "key", name=TEXT, key=TEXT)
_ENDPOINT = record(
    "port", port=TEXT, path=TEXT, interval=TEXT, authorization=record("credentials", type=TEXT, credentials=_CREDENTIALS)
)
_ALERT = record("alert", "expr", **{"alert": TEXT, "expr": TEXT, "for": TEXT, "labels": LABELS, "annotations": LABELS})
_RECORD = record("record", "expr", record=TEXT, expr=TEXT, labels=LABELS)
_RULE: Schema = {"oneOf": [_ALERT, _RECORD]}
_PARENT = record("name", name=TEXT, namespace=TEXT, sectionName=TEXT)
_TRIGGER = record(
    "type", "metadata",
    type=choice("prometheus"), metricType=choice("AverageValue", "Value"), authenticationRef=record("name", name=TEXT),
    metadata=record("serverAddress", "query", "threshold", serverAddress=TEXT, query=TEXT, threshold=TEXT),
)  # fmt: skip
_ROUTE = record(
    "backendRefs",
    matches=many(record(path=record("type", "value", type=choice("PathPrefix", "Exact"), value=TEXT))),
    backendRefs=many(record("name", "port", name=TEXT, port=NUMBER)),
    timeouts=record(request={"type": "string", "pattern": "^([0-9]{1,5}(h|m|s|ms)){1,4}$"}),
)

CRDS: dict[tuple[str, str], Schema] = {
    ("monitoring.coreos.com/v1", "ServiceMonitor"): kind(
        record(
            "selector", "endpoints",
            selector=record("matchLabels", matchLabels=LABELS), endpoints=many(_ENDPOINT),
            namespaceSelector=record(matchNames=many(TEXT)),
        )
    ),
    ("monitoring.coreos.com/v1", "PrometheusRule"): kind(
        record("groups", groups=many(record("name", "rules", name=TEXT, interval=TEXT, rules=many(_RULE))))
    ),
    ("keda.sh/v1alpha1", "ScaledObject"): kind(
        record(
            "scaleTargetRef", "triggers",
            scaleTargetRef=record("name", name=TEXT), minReplicaCount=NUMBER, maxReplicaCount=NUMBER,
            pollingInterval=NUMBER, cooldownPeriod=NUMBER, triggers=many(_TRIGGER),
        )
    ),
    ("gateway.networking.k8s.io/v1", "HTTPRoute"): kind(
        record(
            "parentRefs", "rules",
            parentRefs=many(_PARENT), hostnames=many(TEXT), rules=many(_ROUTE),
        )
    ),
}  # fmt: skip
