"""The shapes that the seeds give to results, entries and files, the arguments of the methods, and the types of files."""

from __future__ import annotations

import base64
import inspect
from dataclasses import fields
from typing import NotRequired, get_args, get_origin, get_type_hints

import pytest

from sandboxes import protocol as p
from sandboxes.backends import CompositeBackend, StateBackend
from sandboxes.backends.legacy import BackendProtocolV1
from sandboxes.mime import mime_type

PNG = b"\x89PNG\r\n\x1a\n\0\0"

FIELDS = {
    p.LsResult: ["error", "entries"],
    p.ReadResult: ["error", "file_data"],
    p.ReadRawResult: ["error", "data"],
    p.GrepResult: ["error", "matches"],
    p.GlobResult: ["error", "matches"],
    p.WriteResult: ["error", "path", "files_update"],
    p.EditResult: ["error", "path", "files_update", "occurrences"],
}


@pytest.mark.parametrize(("kind", "names"), FIELDS.items(), ids=lambda one: getattr(one, "__name__", ""))
def test_a_result_has_its_fields_in_this_order_and_none_where_there_is_nothing(kind, names):
    assert [one.name for one in fields(kind)][: len(names)] == names
    assert [getattr(kind(), name) for name in names] == [None] * len(names)


def test_a_result_of_a_batch_tells_path_content_and_error():
    assert [one.name for one in fields(p.FileUploadResponse)] == ["path", "error"]
    assert [one.name for one in fields(p.FileDownloadResponse)] == ["path", "content", "error"]
    assert p.FileDownloadResponse("/x") == p.FileDownloadResponse("/x", content=None, error=None)


def test_an_answer_of_a_command_has_output_exit_code_and_truncated():
    made = p.ExecuteResponse()
    assert (made.output, made.exit_code, made.truncated) == ("", None, False)


def optional(kind):
    hints = get_type_hints(kind, include_extras=True)
    return [name for name, hint in hints.items() if get_origin(hint) is NotRequired]


def test_of_an_entry_only_the_path_is_always_there():
    assert list(p.FileInfo.__annotations__) == ["path", "is_dir", "size", "modified_at"]
    assert optional(p.FileInfo) == ["is_dir", "size", "modified_at"]


def test_a_match_has_path_line_and_text():
    assert list(p.GrepMatch.__annotations__) == ["path", "line", "text"]
    assert optional(p.GrepMatch) == []


def test_a_file_has_content_encoding_type_and_times():
    assert list(p.FileData.__annotations__) == ["content", "encoding", "mime_type", "created_at", "modified_at"]


def test_the_codes_of_errors_are_these():
    codes = {"file_not_found", "permission_denied", "is_directory", "invalid_path", "already_exists"}
    assert set(get_args(p.FileOperationError)) == codes


SIGNATURES = {
    "ls": ["path"],
    "read": ["file_path", ("offset", 0), ("limit", 2000)],
    "read_raw": ["file_path"],
    "grep": ["pattern", ("path", None), ("glob", None)],
    "glob": ["pattern", ("path", None)],
    "write": ["file_path", "content"],
    "edit": ["file_path", "old_string", "new_string", ("replace_all", False)],
    "upload_files": ["files"],
    "download_files": ["paths"],
}
FIRST_SIGNATURES = {
    "ls_info": ["path"],
    "read": SIGNATURES["read"],
    "grep_raw": SIGNATURES["grep"],
    "glob_info": ["pattern", ("path", "/")],
    "write": SIGNATURES["write"],
    "edit": SIGNATURES["edit"],
    "upload_files": ["files"],
    "download_files": ["paths"],
}


def positional(method):
    found = [one for one in inspect.signature(method).parameters.values() if one.kind is one.POSITIONAL_OR_KEYWORD]
    return [one.name if one.default is one.empty else (one.name, one.default) for one in found if one.name != "self"]


@pytest.mark.parametrize(("kind", "signatures"), [(p.BackendProtocol, SIGNATURES), (BackendProtocolV1, FIRST_SIGNATURES)])
def test_the_methods_and_their_async_forms_take_these_arguments(kind, signatures):
    for name, arguments in signatures.items():
        for method in (getattr(kind, name), getattr(kind, "a" + name)):
            assert positional(method) == arguments, f"{kind.__name__}.{method.__name__}"


def test_a_backend_of_the_first_version_has_six_methods_to_write():
    six = {"ls_info", "read", "grep_raw", "glob_info", "write", "edit"}
    assert BackendProtocolV1.__abstractmethods__ == six


def test_a_sandbox_has_an_id_and_execute():
    assert p.SandboxBackendProtocol.__abstractmethods__ - p.BackendProtocol.__abstractmethods__ == {"id", "execute"}
    assert issubclass(p.SandboxBackendProtocol, p.BackendProtocol)
    assert positional(p.SandboxBackendProtocol.execute) == ["command"]


TYPES = {
    "image/png": ".png", "image/jpeg": ".jpg .jpeg", "image/gif": ".gif", "image/webp": ".webp", "image/svg+xml": ".svg",
    "image/heic": ".heic", "image/heif": ".heif", "audio/mpeg": ".mp3", "audio/wav": ".wav", "audio/aiff": ".aiff",
    "audio/aac": ".aac", "audio/ogg": ".ogg", "audio/flac": ".flac", "video/mp4": ".mp4", "video/webm": ".webm",
    "video/mpeg": ".mpeg .mpg", "video/quicktime": ".mov", "video/x-msvideo": ".avi", "video/x-flv": ".flv",
    "video/x-ms-wmv": ".wmv", "video/3gpp": ".3gpp", "application/pdf": ".pdf",
    "application/vnd.ms-powerpoint": ".ppt",
    "application/vnd.openxmlformats-officedocument.presentationml.presentation": ".pptx",
    "text/plain": ".txt", "text/html": ".html", "application/json": ".json",
}  # fmt: skip


@pytest.mark.parametrize(("kind", "extensions"), TYPES.items())
def test_every_type_of_the_table_belongs_to_its_extensions(kind, extensions):
    assert {mime_type("/x" + extension) for extension in extensions.split()} == {kind}


def test_a_binary_file_comes_whole_with_its_type_whatever_window_was_asked_for():
    backend = StateBackend()
    backend.upload_files([("/workspace/screenshot.png", PNG), ("/notes.txt", b"text\n")])
    read = backend.read("/workspace/screenshot.png", 3, 1)
    assert (read.content, read.mime_type) == (PNG, "image/png")
    assert read.file_data is not None
    assert read.file_data["encoding"] == "base64"
    assert base64.b64decode(read.file_data["content"]) == PNG
    text = backend.read("/notes.txt")
    assert (text.content, text.mime_type) == ("text\n", "text/plain")


def test_raw_data_has_the_times():
    backend = StateBackend()
    backend.write("/notes.txt", "a\nb\n")
    data = backend.read_raw("/notes.txt").data
    assert data is not None
    assert data["content"] == "a\nb\n"
    assert data["created_at"]
    assert data["modified_at"]


def test_a_missing_file_is_told_in_these_words():
    assert StateBackend().read("/x").error == "Error: File '/x' not found"


def test_a_pattern_with_the_signs_of_a_regular_expression_is_text():
    backend = StateBackend()
    backend.write("/a", "x[(y\n")
    assert backend.grep("[(").matches == [{"path": "/a", "line": 1, "text": "x[(y"}]


def test_a_composite_needs_no_routes():
    backend = CompositeBackend(StateBackend())
    assert backend.write("/a", "x").path == "/a"
    assert backend.routes == {}
