"""Metrics as Prometheus reads them."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

Samples = dict[tuple[str, tuple[str, ...]], float]


def read(text: bytes) -> Samples:
    """Each sample by its name and the values of its labels, in the order of the labels' names."""
    return {
        (sample.name, tuple(value for _, value in sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text.decode())
        for sample in family.samples
    }
