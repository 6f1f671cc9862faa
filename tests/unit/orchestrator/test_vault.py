"""What is sealed tells nothing, and only who has the key opens it."""

from __future__ import annotations

import base64
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from pydantic import SecretStr

from orchestrator.errors import BadInput, InfrastructureError
from orchestrator.settings import Settings, load_settings
from orchestrator.vault import Vault

PROCESSES = 6
SEAL = """
import sys
from pathlib import Path
from orchestrator.settings import Settings
from orchestrator.vault import Vault
sys.stdin.read()
print(Vault(Settings(home=Path(sys.argv[1]))).seal("hunter2"))
"""


def new_key() -> str:
    return base64.b64encode(os.urandom(32)).decode()


def vault(home: Path, *keys: str) -> Vault:
    return Vault(Settings(home=home, secret_key=SecretStr(",".join(keys)) if keys else None))


@pytest.mark.parametrize("text", ["", "hunter2", "ключ\n\0", "\udc80 not UTF-8"])
def test_what_was_sealed_is_opened(tmp_path: Path, text: str) -> None:
    sealed = vault(tmp_path).seal(text)
    assert vault(tmp_path).open(sealed) == text
    assert sealed.isascii()
    assert sealed.isprintable()
    assert not text or text not in sealed


def test_the_same_text_is_sealed_differently_each_time(tmp_path: Path) -> None:
    assert vault(tmp_path).seal("hunter2") != vault(tmp_path).seal("hunter2")


def test_the_key_file_is_for_this_user_only_and_is_made_when_it_is_needed(tmp_path: Path) -> None:
    one = vault(tmp_path)
    assert not (tmp_path / "secret.key").exists()
    one.seal("x")
    assert stat.S_IMODE((tmp_path / "secret.key").stat().st_mode) == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["secret.key"]


def test_given_keys_leave_no_file(tmp_path: Path) -> None:
    vault(tmp_path, new_key()).seal("x")
    assert list(tmp_path.iterdir()) == []


def test_a_new_key_in_front_seals_and_the_old_one_still_opens(tmp_path: Path) -> None:
    old, new = new_key(), new_key()
    before = vault(tmp_path, old).seal("hunter2")
    assert vault(tmp_path, new, old).open(before) == "hunter2"
    after = vault(tmp_path, new, old).seal("hunter2")
    assert vault(tmp_path, new).open(after) == "hunter2"
    with pytest.raises(InfrastructureError, match="sealed with a key that is not here"):
        vault(tmp_path, old).open(after)


def test_a_key_file_may_hold_several_keys_too(tmp_path: Path) -> None:
    before = vault(tmp_path).seal("hunter2")
    file = tmp_path / "secret.key"
    file.write_text(f"{new_key()}\n{file.read_text()}")
    assert vault(tmp_path).open(before) == "hunter2"


def test_who_has_another_key_is_told_what_to_do(tmp_path: Path) -> None:
    sealed = vault(tmp_path, new_key()).seal("hunter2")
    with pytest.raises(InfrastructureError, match="check FANFOLD_SECRET_KEY"):
        vault(tmp_path, new_key()).open(sealed)


def test_opening_without_any_key_makes_none(tmp_path: Path) -> None:
    sealed = vault(tmp_path, new_key()).seal("hunter2")
    with pytest.raises(InfrastructureError, match="set FANFOLD_SECRET_KEY"):
        vault(tmp_path).open(sealed)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("change", [lambda s: s[:-4], lambda s: "x" + s, lambda _: "", lambda _: "ключ"])
def test_what_was_changed_is_not_opened(tmp_path: Path, change) -> None:  # type: ignore[no-untyped-def]
    sealed = vault(tmp_path).seal("hunter2")
    with pytest.raises(InfrastructureError, match="was changed since"):
        vault(tmp_path).open(change(sealed))


@pytest.mark.parametrize("keys", ["hunter2-hunter2", "A" * 43 + "=,hunter2-hunter2", " , "])
def test_a_key_that_is_none_is_refused_at_once_and_not_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keys: str
) -> None:
    monkeypatch.setenv("FANFOLD_HOME", str(tmp_path))
    monkeypatch.setenv("FANFOLD_SECRET_KEY", keys)
    with pytest.raises(BadInput, match=r"FANFOLD_SECRET_KEY: .*openssl rand -base64 32") as told:
        load_settings()
    assert "hunter2" not in str(told.value)


def test_a_key_file_with_something_else_in_it_is_told(tmp_path: Path) -> None:
    (tmp_path / "secret.key").write_text("hunter2-hunter2")
    with pytest.raises(BadInput, match=r"secret\.key in FANFOLD_HOME.* no key"):
        vault(tmp_path).seal("x")


def test_a_url_safe_key_is_the_same_key(tmp_path: Path) -> None:
    raw = bytes([0xFB, 0xFF] * 16)
    sealed = vault(tmp_path, base64.b64encode(raw).decode()).seal("x")
    assert vault(tmp_path, base64.urlsafe_b64encode(raw).decode()).open(sealed) == "x"


def test_the_settings_do_not_show_the_key(tmp_path: Path) -> None:
    key = new_key()
    settings = Settings(home=tmp_path, secret_key=SecretStr(key))
    assert key not in repr(settings)
    assert key not in str(settings.model_dump(mode="json"))


def test_processes_that_begin_at_once_share_one_key(tmp_path: Path) -> None:
    command = [sys.executable, "-c", SEAL, str(tmp_path)]
    waiting, gate = os.pipe()
    started = [subprocess.Popen(command, stdin=waiting, stdout=subprocess.PIPE, text=True) for _ in range(PROCESSES)]
    os.close(waiting)
    os.close(gate)  # they begin now
    sealed = [process.communicate()[0].strip() for process in started]
    assert [vault(tmp_path).open(one) for one in sealed] == ["hunter2"] * PROCESSES
    assert [path.name for path in tmp_path.iterdir()] == ["secret.key"]
