"""A run prints its secret wherever it can, in every form; afterwards it is nowhere in the home, and in no answer of the API."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from urllib.parse import quote

import pytest

from orchestrator.runs.models import Run
from orchestrator.service import Service
from orchestrator.settings import Settings
from orchestrator.spec import RunSpec
from tests.served import serving

SECRET = 'correct-horse "battery" /staple+ü\\'
SHORT = "ab1"
"""Too short to be hidden."""

TELL = r"""
import base64, html, json, os, sys, time
from urllib.parse import quote, quote_plus
secret = os.environ["TOKEN"]
data = secret.encode()
forms = [secret, json.dumps(secret), json.dumps(secret, ensure_ascii=False), repr(secret), html.escape(secret)]
forms += [data.hex(), data.hex().upper(), quote(secret, safe=""), quote(secret), quote_plus(secret)]
forms += [base64.b64encode(b"x" * n + data + b"y" * n).decode() for n in range(4)]
forms += [base64.urlsafe_b64encode(data).decode(), json.dumps({"deep": json.dumps({"deeper": secret})})]
for form in forms:
    print("told:", form)
    print("warned:", form, file=sys.stderr)
for form in forms[:3] + forms[-4:]:
    for character in form:
        sys.stdout.write(character)
        sys.stdout.flush()
        time.sleep(0.001)
    print()
with open("left.txt", "w") as file:
    file.write("\n".join(forms))
safe = secret.replace("/", "_").replace("\\", "_")
os.makedirs("names", exist_ok=True)
open("names/" + data.hex() + ".txt", "w").close()
"""
AGENT = """
turns:
  - tool_calls: [{id: a, name: execute, args: {command: "python3 tell.py"}}]
  - tool_calls:
      - {id: b, name: read_file, args: {file_path: left.txt}}
      - {id: c, name: grep, args: {pattern: correct}}
      - {id: d, name: glob, args: {pattern: "names/*"}}
      - {id: e, name: read_file, args: {file_path: tell.py}}
  - {text: done}
"""


def shapes() -> list[re.Pattern[bytes]]:
    """What must not be found, not even the middle of it."""
    data = SECRET.encode()
    aligned = [base64.b64encode(b"x" * n + data)[8:30] for n in range(3)]
    told = [b"battery", data.hex()[10:40].encode(), data.hex()[10:40].upper().encode(), quote(SECRET, safe="")[14:30].encode()]
    safe = [one.replace(b"+", b"-").replace(b"/", b"_") for one in aligned]
    return [re.compile(re.escape(one)) for one in [*told, *aligned, *safe]]


def seen_in(content: bytes) -> list[bytes]:
    return [shape.pattern for shape in shapes() if shape.search(content)]


@pytest.fixture(scope="module")
def settings(new_home) -> Iterator[Settings]:
    with new_home() as made:
        yield made


@pytest.fixture(scope="module")
def run(service: Service, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run that has told its secret in all ways, and failed."""
    base = tmp_path_factory.mktemp("task")
    (base / "script.yaml").write_text(AGENT)
    (base / "input").mkdir()
    (base / "input" / "tell.py").write_text(TELL)
    task = {
        "name": "telling",
        "inputs": {"path": "input"},
        "agent": {"model": "scripted:script.yaml", "prompt": "Tell it."},
        "verify": "python3 tell.py; printf '%s' \"$TOKEN\" | base64; exit 1",
        "secrets": {"TOKEN": "${TOKEN}", "PIN": "${PIN}"},
        "outputs": {"files": ["left.txt", "names/*"], "patch": True},
    }
    environ = {"TOKEN": SECRET, "PIN": SHORT}
    made = service.submit(RunSpec.model_validate(task), base_dir=base, granted=["TOKEN", "PIN"], environ=environ)
    service.ensure_worker()
    list(service.follow(made.id))
    return service.get(made.id)


def test_the_run_did_tell_it(service: Service, run: Run) -> None:
    assert run.status.value == "error"
    events = list(service.events(run.id))
    output = "".join(event.data["text"] for event in events if event.type == "verify.output")
    assert output.count("told: ***") + output.count('told: "***"') + output.count("told: '***'") >= 10
    assert {event.data["id"] for event in events if event.type == "tool.result"} == {"a", "b", "c", "d", "e"}
    assert {artifact.name for artifact in service.artifacts(run.id)} == {"files/left.txt", "files/names/***.txt", "patch.diff"}


def test_no_file_of_the_home_has_it(settings: Settings, service: Service, run: Run) -> None:
    files = [path for path in settings.home.rglob("*") if path.is_file()]
    assert {"fanfold.db", "fanfold.db-wal", "worker.log"} <= {path.name for path in files}
    assert {str(path): seen for path in files if (seen := seen_in(path.read_bytes()))} == {}


def test_no_answer_of_the_api_has_it(service: Service, run: Run) -> None:
    with serving(service) as api:
        client = api.client()
        paths = ["", "/events", "/log", "/attempts", "/usage", "/artifacts"]
        answers = [client.get(f"/v1/runs/{run.id}{path}", headers={"Accept": "application/json"}) for path in paths]
        names = [artifact.name for artifact in service.artifacts(run.id)]
        answers += [client.get(f"/v1/runs/{run.id}/artifacts/{quote(name)}") for name in names]
        answers.append(client.get("/v1/runs"))
        assert {str(answer.url): answer.status_code for answer in answers if answer.status_code != 200} == {}
        assert {str(answer.url): seen for answer in answers if (seen := seen_in(answer.content))} == {}


def test_a_secret_that_is_too_short_to_be_hidden_is_warned_of(service: Service, run: Run) -> None:
    warnings = [event.data["text"] for event in service.events(run.id) if event.type == "log"]
    assert any("shorter than 4 characters" in text for text in warnings)
    assert not any(SHORT in text for text in warnings)
