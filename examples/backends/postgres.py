"""A table as an agent's files: `PostgresBackend(create_engine("postgresql+psycopg://..."))`.

Needs `pip install sqlalchemy 'psycopg[binary]'`. Any number of processes may use one table: a file is created by one of
them, and edits of one file come one after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import (
    ARRAY,
    Column,
    ColumnElement,
    Connection,
    DateTime,
    Engine,
    MetaData,
    Row,
    Select,
    Table,
    Text,
    any_,
    case,
    delete,
    func,
    literal,
    select,
)  # fmt: skip
from sqlalchemy.dialects.postgresql import insert

from sandboxes.backends import KeyValueBackend
from sandboxes.backends.keyed.operations import below, checked
from sandboxes.protocol import EditResult, FileData, FileInfo, GrepResult, LsResult, WriteResult
from sandboxes.toolbox.helper.files import exists
from sandboxes.toolbox.helper.text import Refused

PAGE = 250
"""Rows that come at once."""


def files_table(name: str = "files") -> Table:
    """The table, for your own migrations too. Paths compare by their bytes: so an index serves `LIKE 'folder/%'`."""
    return Table(
        name,
        MetaData(),
        Column("path", Text(collation="C"), primary_key=True),
        Column("content", Text, nullable=False),
        Column("encoding", Text, nullable=False),
        Column("mime_type", Text, nullable=False),
        Column("created_at", DateTime(timezone=True), nullable=False),
        Column("modified_at", DateTime(timezone=True), nullable=False),
    )


def _iso(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="microseconds")


class Rows(KeyValueBackend):
    """The files of a table; `connect` gives a connection whose transaction ends with it."""

    path_cap = 2600  # an index has room for 2,704 bytes

    def __init__(self, table: Table, connect: Callable[[], AbstractContextManager[Connection]]) -> None:
        super().__init__()
        self.table = table
        self._connect = connect

    @property
    def _size(self) -> ColumnElement[int]:
        content = self.table.c.content
        return case(
            (self.table.c.encoding == "base64", func.octet_length(func.decode(content, "base64"))),
            else_=func.octet_length(content),
        )

    def _below(self, prefix: str) -> ColumnElement[bool]:
        return self.table.c.path.startswith(prefix, autoescape=True)

    def _file(self, row: Row[Any]) -> FileData:
        return {
            "content": row.content,
            "encoding": row.encoding,
            "mime_type": row.mime_type,
            "created_at": _iso(row.created_at),
            "modified_at": _iso(row.modified_at),
        }

    def _rows(self, query: Select[Any]) -> Iterator[Row[Any]]:
        with self._connect() as connection, connection.execute(query.execution_options(yield_per=PAGE)) as rows:
            yield from rows

    def load(self, path: str) -> FileData | None:
        """One row."""
        return self.load_all([path]).get(path)

    def load_all(self, paths: Sequence[str]) -> dict[str, FileData]:
        """Rows, by one query."""
        with self._connect() as connection:
            return {row.path: self._file(row) for row in connection.execute(self._chosen(paths))}

    def _chosen(self, paths: Sequence[str]) -> Select[Any]:
        return select(self.table).where(self._among(paths))

    def _among(self, paths: Sequence[str]) -> ColumnElement[bool]:
        return self.table.c.path == any_(literal(list(paths), ARRAY(Text)))

    def save(self, files: Mapping[str, FileData]) -> None:
        """Insert rows, or put them in place of those that are there. Of these the time of creation stays."""
        query = insert(self.table)
        changed = {name: query.excluded[name] for name in ("content", "encoding", "mime_type", "modified_at")}
        query = query.on_conflict_do_update(index_elements=["path"], set_=changed)
        with self._connect() as connection:
            connection.execute(query, [_row(path, kept) for path, kept in files.items()])

    def remove(self, paths: Sequence[str]) -> None:
        """Delete rows."""
        with self._connect() as connection:
            connection.execute(delete(self.table).where(self._among(paths)))

    def scan(self, prefix: str) -> Iterator[tuple[str, FileData]]:
        """The rows below a folder, a page at a time."""
        for row in self._rows(select(self.table).where(self._below(prefix))):
            yield row.path, self._file(row)

    def listing(self, prefix: str) -> Iterator[FileInfo]:
        """Their paths, sizes and times; the content stays where it is."""
        columns = self.table.c.path, self._size.label("size"), self.table.c.modified_at
        for row in self._rows(select(*columns).where(self._below(prefix))):
            yield FileInfo(path=row.path, is_dir=False, size=row.size, modified_at=_iso(row.modified_at))


def _row(path: str, kept: FileData) -> dict[str, Any]:
    times = {name: datetime.fromisoformat(kept[name]) for name in ("created_at", "modified_at")}
    return {**kept, **times, "path": path}


class NewRows(Rows):
    """Rows that are only ever inserted: the table's key decides between many that try."""

    def save(self, files: Mapping[str, FileData]) -> None:
        """Insert rows; one that is there is refused."""
        query = insert(self.table).on_conflict_do_nothing(index_elements=["path"]).returning(self.table.c.path)
        with self._connect() as connection:
            for path, kept in files.items():
                if connection.execute(query, _row(path, kept)).first() is None:
                    raise exists(path)


class LockedRows(Rows):
    """Rows that nobody else changes until the transaction ends."""

    def _chosen(self, paths: Sequence[str]) -> Select[Any]:
        return super()._chosen(paths).with_for_update()


class RowsWith(Rows):
    """Rows whose content has `pattern`: what does not have it stays in the database."""

    def __init__(self, table: Table, connect: Callable[[], AbstractContextManager[Connection]], pattern: str) -> None:
        super().__init__(table, connect)
        self._pattern = pattern

    def scan(self, prefix: str) -> Iterator[tuple[str, FileData]]:
        """These rows. Before them an empty file says that the folder is there."""
        for row in self._rows(select(self.table.c.path).where(self._below(prefix)).limit(1)):
            yield row.path, {"content": "", "encoding": "utf-8"}
        for row in self._rows(select(self.table).where(self._below(prefix), self._has_pattern)):
            yield row.path, self._file(row)

    @property
    def _has_pattern(self) -> ColumnElement[bool]:
        content = self.table.c.content
        inside = literal(self._pattern.encode()).op("IN")(func.decode(content, "base64"))
        return case((self.table.c.encoding == "base64", func.position(inside)), else_=func.strpos(content, self._pattern)) > 0


class PostgresBackend(Rows):
    """Files in the table `table` of a database; `create_table` makes it."""

    def __init__(self, engine: Engine, *, table: str = "files") -> None:
        super().__init__(files_table(table), engine.begin)

    def create_table(self) -> None:
        """Make the table, if it is not there."""
        with self._connect() as connection:
            self.table.metadata.create_all(connection)

    def ls(self, path: str) -> LsResult:
        """One level, which the database cuts out."""
        try:
            folder = below(checked(path))
            entries = [self._entry(folder, row) for row in self._rows(self._level(folder))]
        except Refused:
            return super().ls(path)
        return LsResult(entries=sorted(entries, key=lambda info: info["path"])) if entries else super().ls(path)

    def _level(self, folder: str) -> Select[Any]:
        rest = func.substr(self.table.c.path, len(folder) + 1)
        name, deeper = func.split_part(rest, "/", 1).label("name"), (func.strpos(rest, "/") > 0).label("deeper")
        newest = func.max(self.table.c.modified_at).label("modified_at")
        size = func.max(self._size).label("size")
        return select(name, deeper, size, newest).where(self._below(folder)).group_by(name, deeper)

    def _entry(self, folder: str, row: Row[Any]) -> FileInfo:
        if row.deeper:
            return FileInfo(path=f"{folder}{row.name}/", is_dir=True)
        return FileInfo(path=folder + row.name, is_dir=False, size=row.size, modified_at=_iso(row.modified_at))

    def grep(
        self, pattern: str, path: str | None = None, glob: str | None = None, *, max_count: int | None = None
    ) -> GrepResult:
        """Let the database look for the files, and this process for the lines."""
        if "\0" in pattern or any("\ud800" <= char <= "\udfff" for char in pattern):  # a query cannot hold these
            return super().grep(pattern, path, glob, max_count=max_count)
        return RowsWith(self.table, self._connect, pattern).grep(pattern, path, glob, max_count=max_count)

    def write(self, file_path: str, content: str) -> WriteResult:
        """Create a file, once."""
        return NewRows(self.table, self._connect).write(file_path, content)

    def edit(self, file_path: str, old_string: str, new_string: str, replace_all: bool = False) -> EditResult:
        """Edit a file that nobody else can change meanwhile."""
        with self._connect() as connection:
            alone = LockedRows(self.table, lambda: nullcontext(connection))
            return alone.edit(file_path, old_string, new_string, replace_all)
