"""What `fanfold doctor` looks at. Each check really uses what it checks, and leaves nothing behind."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from orchestrator.errors import FanfoldError
from orchestrator.text import clean

if TYPE_CHECKING:
    from orchestrator.settings import Settings

PROVIDERS_DEADLINE = 90.0
"""Seconds for the process that asks the providers; each of them has its own, shorter deadline in it."""
REDIS_TIMEOUT = 3.0
"""Seconds for one answer of the operator's own broker."""
TRIED = "local"
"""The provider with which a sandbox is really made: it costs nothing."""
PACKAGES = {"anthropic": "langchain_anthropic", "openai": "langchain_openai", "google_genai": "langchain_google_genai"}
EXTRAS = ("anthropic", "openai")

State = Literal["ok", "limited", "missing"]


@dataclass(frozen=True)
class Check:
    """One finding. `needed`: a plain `fanfold run` fails without it."""

    name: str
    state: State
    found: str
    hints: tuple[str, ...] = ()
    """How to get what is missing; one sentence each."""
    needed: bool = False

    def to_json(self) -> dict[str, Any]:
        """As JSON."""
        return {**asdict(self), "hints": list(self.hints)}


def all_checks() -> list[Check]:
    """Everything, in the order in which a run needs it. Raises `BadInput` when the settings are wrong."""
    from orchestrator.settings import load_settings

    if (remote := load_settings(make_home=False)).url is not None:
        from orchestrator.cli.apicheck import api_checks

        return [_python(), *api_checks(remote), _git(), *_models()]
    settings = load_settings()
    checks = [_python(), _home(settings), _record(settings), _queue(settings), _git()]
    return [*checks, *_providers(settings), *_models()]


def _python() -> Check:
    found = f"{platform.python_version()} on {platform.system()} {platform.machine()}"
    return Check("python", "ok", found, needed=True)


def _home(settings: Settings) -> Check:
    try:
        with tempfile.NamedTemporaryFile(dir=settings.home, prefix=".doctor-"):
            pass
    except OSError as exc:
        hint = "make it writable, or set FANFOLD_HOME to a folder that is"
        return Check("home", "missing", f"{settings.home}: {exc.strerror}", (hint,), needed=True)
    return Check("home", "ok", str(settings.home), needed=True)


def _record(settings: Settings) -> Check:
    from sqlalchemy.engine import make_url

    from orchestrator.cli.door import open_record

    try:
        with open_record(settings) as service:
            service.list(limit=1)
    except FanfoldError as exc:
        return Check("record", "missing", str(exc), ("check FANFOLD_DATABASE_URL",), needed=True)
    return Check("record", "ok", make_url(settings.database).render_as_string(hide_password=True), needed=True)


def _queue(settings: Settings) -> Check:
    from orchestrator.broker import Broker

    if settings.redis_url:
        return _redis(settings.redis_url)
    if Broker(settings).answers():
        return Check("queue", "ok", "embedded Valkey, running", needed=True)
    # In a folder of its own: one that is started here must not be stopped under somebody who has just begun to use it.
    with tempfile.TemporaryDirectory(prefix="fanfold-doctor-") as folder:
        trial = Broker(settings.model_copy(update={"home": Path(folder)}))
        try:
            trial.ensure()
        except FanfoldError as exc:
            return Check("queue", "missing", str(exc), ("or set FANFOLD_REDIS_URL to a Redis or Valkey server",), needed=True)
        finally:
            trial.stop()
    return Check("queue", "ok", "embedded Valkey, starts when it is needed", needed=True)


def _redis(url: str) -> Check:
    import redis

    from orchestrator.wake import client_url

    shown = url.rpartition("@")[2] if "@" in url else url
    try:
        timeouts = {"socket_timeout": REDIS_TIMEOUT, "socket_connect_timeout": REDIS_TIMEOUT}
        with redis.from_url(client_url(url) or url, **timeouts) as client:
            client.ping()
    except (redis.RedisError, ValueError) as exc:
        hint = "start it, correct FANFOLD_REDIS_URL, or unset it to use the embedded one"
        return Check("queue", "missing", f"{shown} (FANFOLD_REDIS_URL) does not answer: {exc}", (hint,), needed=True)
    return Check("queue", "ok", f"{shown} (FANFOLD_REDIS_URL)", needed=True)


def _git() -> Check:
    try:
        import pygit2  # noqa: F401
    except Exception as exc:  # it sets up TLS while it is imported, and then raises errors of its own
        hint = "install it again; where TLS is what fails, this machine needs the package ca-certificates, or SSL_CERT_FILE set"
        return Check("git", "missing", f"the library for inputs and patches cannot be loaded: {exc}", (hint,), needed=True)
    return Check("git", "ok", f"pygit2 {importlib.metadata.version('pygit2')}", needed=True)


def _providers(settings: Settings) -> Iterator[Check]:
    from orchestrator.policy import load_policy

    reports = _ask_providers(settings)
    wanted = load_policy(settings.policy).candidates((settings.provider,))
    reports = {**{name: {"error": "there is no such provider here; see FANFOLD_PROVIDER"} for name in wanted}, **reports}
    one_is_there = any(reports[name].get("available") for name in wanted)
    for name, report in sorted(reports.items(), key=lambda item: (item[0] not in wanted, item[0])):
        needed = name in wanted and bool(report.get("available") or not one_is_there)
        notes = tuple(clean(str(note)) for note in report.get("notes", ()))
        if report.get("available"):
            yield Check(name, "limited" if notes else "ok", _abilities(report), notes, needed)
        else:
            yield Check(name, "missing", clean(str(report.get("error"))), (), needed)


def _ask_providers(settings: Settings) -> Mapping[str, Mapping[str, Any]]:
    """In a process of its own: the command line imports no provider, and a hanging SDK must not hang it."""
    command = [sys.executable, "-P", "-m", "sandboxes.providers", "--home", str(settings.home), "--try", TRIED]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=PROVIDERS_DEADLINE, stdin=subprocess.DEVNULL)
        reports = json.loads(done.stdout)
    except subprocess.TimeoutExpired:
        return {TRIED: {"error": f"no answer within {PROVIDERS_DEADLINE:g} s"}}
    except ValueError:
        reason = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        return {TRIED: {"error": f"the providers cannot be asked: {reason}"}}
    return reports if isinstance(reports, dict) else {}


def _abilities(report: Mapping[str, Any]) -> str:
    capabilities: Mapping[str, Any] = report.get("capabilities") or {}
    memory = capabilities.get("memory", "no")
    limits = [name for name in ("cpu", "pids", "disk") if capabilities.get(name)]
    limits += [f"memory (each {memory})" if memory == "process" else "memory"] if memory != "no" else []
    extras = {"writable_system": "writable system", "images": "images", "runtime": "other runtimes"}
    parts = [
        *([f"first answer in {report['seconds'] * 1000:.0f} ms"] if report.get("seconds") else []),
        f"network {' or '.join(capabilities.get('networks', ()))}",
        f"limits on {', '.join(sorted(limits)) or 'nothing'}",
        *(text for key, text in extras.items() if capabilities.get(key)),
        "forks by layers" if capabilities.get("native_fork") else "forks by copying",
    ]
    return "; ".join(parts)


def _models() -> Iterator[Check]:
    from orchestrator.models import MODEL_KEYS

    found = False
    for provider, names in MODEL_KEYS.items():
        name = next((name for name in names if os.environ.get(name)), None)
        if name:
            found = True
            yield _model(provider, name)
    if not found:
        hint = "set ANTHROPIC_API_KEY, OPENAI_API_KEY or another; scripted and replayed models need none"
        yield Check("models", "limited", "no model's key is in the environment", (hint,))


def _model(provider: str, key: str) -> Check:
    package = PACKAGES.get(provider, f"langchain_{provider}")
    if importlib.util.find_spec(package):
        return Check(provider, "ok", f"{key} is set")
    what = f"'fanfold[{provider}]'" if provider in EXTRAS else package.replace("_", "-")
    return Check(provider, "missing", f"{key} is set, but {package} is not installed", (f"pip install {what}",))


_COLOURS: dict[State, str] = {"ok": "32", "limited": "33", "missing": "31"}


def as_text(checks: list[Check], *, healthy: bool, colours: bool) -> str:
    """The findings for people."""
    width = max(len(check.name) for check in checks)
    lines = []
    for check in checks:
        state = f"{check.state:8}"
        shown = f"\x1b[{_COLOURS[check.state]}m{state}\x1b[0m" if colours else state
        first, *rest = clean(check.found).splitlines() or [""]
        lines.append(f"{shown} {check.name:{width}}  {first}")
        lines += [f"{'':9}{'':{width}}  {line}" for line in (*rest, *check.hints)]
    verdict = "ready: fanfold run works here" if healthy else "not ready: see what is missing above"
    return "\n".join([*lines, "", verdict]) + "\n"
