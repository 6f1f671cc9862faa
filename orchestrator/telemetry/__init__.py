"""What operators see of a process: logs, traces, metrics; and what they must not see in them.

    redaction.py  the forms that a secret takes, the secrets that this process knows, what looks like a key
    logs.py       structlog and the standard library's logging, one format, without secrets
    traces.py     OpenTelemetry: one trace from a request to the calls of tools
    metrics.py    what this process counts, for Prometheus
    collector.py  what the record counts, read when somebody asks
    web.py        both for an ASGI application
    process.py    all of it for a process: `Telemetry`
"""
