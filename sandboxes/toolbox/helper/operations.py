"""What a client can ask for: a method `op_NAME` for each operation, from a checked request to a reply.

A method returns (fields, payload), or None when it replies later by itself. It raises `Refused` or `OSError`.
"""

import os

from . import edits, files, hashed, layer, search, text, wire

SHORT = 64 * 1024
"""Bytes up to which a file is read or written faster than another thread is woken."""
OUTPUT_CAP = 1024 * 1024
"""Bytes of a command's output in one reply at most."""


class Operations:
    """The operations on one sandbox's files and commands."""

    def __init__(self, commands, journal, state, workdir, upper, about):
        self._commands = commands
        self._journal = journal
        self._hashed = hashed.Hashed(state)
        self._hashed_upper = hashed.Hashed(state, name="hashed-upper")
        self._workdir = workdir
        self._upper = upper
        self._about = about

    def short(self, op, header, payload):
        """Whether a request takes less time than handing it to another thread would."""
        if op == "put":
            return len(payload) <= SHORT
        if op == "piece":
            return True  # its payload lies in a buffer that the next request takes
        if op == "read":
            try:
                return os.stat(self._path(header)).st_size <= SHORT
            except (OSError, text.Refused, KeyError, TypeError, ValueError):
                return True  # it will be refused
        return op == "hello"

    def op_hello(self, _connection, header, _payload):
        """Who we are."""
        if header.get("protocol") != wire.PROTOCOL:
            raise text.Refused("protocol", "Error: this helper speaks protocol {}".format(wire.PROTOCOL))
        return dict(self._about, protocol=wire.PROTOCOL, workdir=self._workdir), b""

    def _path(self, header):
        return text.absolute(header["path"], self._workdir)

    def op_ls(self, _connection, header, _payload):
        """List a directory."""
        return files.ls(self._path(header)), b""

    def op_read(self, _connection, header, _payload):
        """Read a window; text goes as payload."""
        result = files.read(self._path(header), header["offset"], header["limit"], header.get("byte_offset"))
        content = result.pop("content")
        return result, content.encode("utf-8")

    def op_get(self, _connection, header, _payload):
        """Read a range of bytes."""
        return files.get(self._path(header), header["offset"], min(header["length"], wire.PIECE))

    def op_put(self, _connection, header, payload):
        """Write a whole file from the payload."""
        path, exclusive = self._path(header), header.get("exclusive", False)
        action = lambda: files.put(path, payload, exclusive, header.get("mode"))  # noqa: E731
        return self._journal.once(header.get("key"), action), b""

    def op_puts(self, _connection, header, payload):
        """Write many small files, which lie one after the other in the payload; each has an outcome of its own."""
        outcomes, at = [], 0
        for item in header["files"]:
            content, at = payload[at : at + item["size"]], at + item["size"]
            try:
                path = self._path(item)
                self._journal.once(item.get("key"), lambda path=path, content=content: files.put(path, content, False))
                outcomes.append(None)
            except text.Refused as exc:
                outcomes.append([exc.code, exc.message])
        return {"outcomes": outcomes}, b""

    def op_gets(self, _connection, header, _payload):
        """Read many files, as far as they fit into one payload: [size in it] or [code, message] for each that was come to."""
        outcomes, contents, room = [], [], wire.PIECE
        for path in header["paths"]:
            try:
                about, content = files.get(text.absolute(path, self._workdir), 0, room)
            except text.Refused as exc:
                outcomes.append([exc.code, exc.message])
                continue
            if about["size"] > len(content):
                break
            room -= len(content)
            outcomes.append([len(content)])
            contents.append(content)
        return {"outcomes": outcomes}, b"".join(contents)

    def op_begin(self, connection, header, _payload):
        """Begin a long file; without a path, something that will be no file of its own."""
        path = os.path.join(self._commands.folder, "upload") if header["path"] is None else self._path(header)
        return connection.uploads.begin(header["token"], path, header.get("mode")), b""

    def op_piece(self, connection, header, payload):
        """Write one piece of a long file."""
        return connection.uploads.piece(header["token"], header["offset"], payload), b""

    def op_publish(self, connection, header, _payload):
        """Finish a long file. When this was done before, what has come this time is dropped."""
        token = header["token"]
        action = lambda: connection.uploads.finish(token, header.get("exclusive", False))  # noqa: E731
        try:
            return self._journal.once(header.get("key"), action), b""
        finally:
            connection.uploads.drop(token)

    def op_apply(self, connection, header, _payload):
        """Change many files or none, with contents that were sent. It goes to its end, whether its client stays or not."""
        draft = connection.uploads.take(header["token"])
        try:
            contents = edits.Contents(draft.descriptor, header["blobs"])
            path = self._path(header)
            upper = layer.counterpart(path, self._workdir, self._upper)
            action = lambda: edits.apply(path, header["edits"], contents, upper)  # noqa: E731
            return self._journal.once(header["key"], action), b""
        finally:
            draft.close()

    def op_drop(self, connection, header, _payload):
        """Give up a long file."""
        return connection.uploads.drop(header["token"]), b""

    def op_edit(self, _connection, header, _payload):
        """Replace a string."""
        path = self._path(header)
        action = lambda: files.edit(path, header["old"], header["new"], header["replace_all"])  # noqa: E731
        return self._journal.once(header.get("key"), action), b""

    def op_delete(self, _connection, header, _payload):
        """Delete a file or a tree."""
        path = self._path(header)
        return self._journal.once(header.get("key"), lambda: files.delete(path)), b""

    def op_glob(self, connection, header, _payload):
        """Find files."""
        return search.glob(header["pattern"], self._path(header), self._cancelled(connection, header)), b""

    def op_grep(self, connection, header, _payload):
        """Find lines."""
        gone = self._cancelled(connection, header)
        found = search.grep(header["pattern"], self._path(header), header.get("glob"), header.get("max_count"), gone)
        return found, b""

    def op_manifest(self, connection, header, _payload):
        """List and hash a tree. A long answer is left in a file, for `get`."""
        return self._long({}, self._manifest(connection, header))

    def _manifest(self, connection, header):
        gone = self._cancelled(connection, header)
        walk = self._hashed.walk()
        folders, closed = header.get("folders", False), header.get("closed", ())
        records = search.manifest(self._path(header), header["exclude"], gone, walk, folders, closed)
        self._hashed.save(walk)
        return records

    def op_changes(self, connection, header, _payload):
        """What was written below a folder since its sandbox began; all that is there, where that is not kept apart."""
        path = self._path(header)
        upper = layer.counterpart(path, self._workdir, self._upper)
        if upper is None:
            return self._long({"layer": False}, self._manifest(connection, header))
        walk = self._hashed_upper.walk()
        wanted = search.chooser(header["exclude"], header["closed"])
        records, listings = layer.written(path, upper, wanted, self._cancelled(connection, header), walk)
        self._hashed_upper.save(walk)
        return self._long({"layer": True, "records": len(records)}, records + listings)

    def _long(self, fields, content):
        """An answer of any length: in a file, where it does not fit into a payload."""
        if len(content) <= wire.PIECE:
            return fields, content
        name = os.path.join(self._commands.folder, "manifest-" + os.urandom(6).hex())
        files.put(name, content, exclusive=True, mode=0o600)
        return dict(fields, file=name, size=len(content)), b""

    def _cancelled(self, connection, header):
        number = header["id"]
        return lambda: not connection.open or number in connection.cancelled

    # -- commands

    def op_start(self, connection, header, _payload):
        """Start a command (or find the one of this key) and answer at once."""
        self._start(header, lambda command: connection.reply(header["id"], {"ok": {}}))

    def op_run(self, connection, header, _payload):
        """Start a command (or find the one of this key) and answer when it has ended."""
        number, cap = header["id"], min(header["cap"], OUTPUT_CAP)

        def ended(command):
            if command.result is None:
                return not connection.open or number in connection.cancelled
            self._reply_result(connection, number, command, cap)
            return True

        self._start(header, lambda command: self._commands.wait(command, ended))

    def _start(self, header, then):
        timeout = header.get("timeout")
        self._commands.start(
            header["key"],
            header["command"],
            text.absolute(header.get("cwd") or self._workdir, self._workdir),
            header.get("env") or {},
            None if timeout is None else float(timeout),
            header.get("stdin", False),
            header.get("merge", False),
            then,
        )

    def _reply_result(self, connection, number, command, cap):
        if "error" in command.result:
            connection.reply(number, dict(command.result))
            return
        head, omitted, tail = command.out.digest(cap)
        done = dict(command.result, head=len(head), omitted=omitted, file=command.out.path)
        connection.reply(number, {"ok": done}, head + tail)

    def op_poll(self, connection, header, _payload):
        """What a command printed after the given offsets; waits for something new, or for the end."""
        command = self._known(header)
        number, out, err = header["id"], header["out"], header["err"]

        def fresh(command):
            return self._reply_fresh(connection, number, command, out, err)

        self._commands.call_soon(lambda: self._commands.wait(command, fresh))

    def _reply_fresh(self, connection, number, command, out, err):
        if not connection.open or number in connection.cancelled:
            return True
        done = command.result
        if done is not None and "error" in done:
            connection.reply(number, dict(done))
            return True
        # What background children print after the end is no longer the command's.
        ends = (command.out.kept, command.err.kept) if done is None else (done["out"], done["err"])
        first = command.out.read(out, min(OUTPUT_CAP, max(0, ends[0] - out)))
        second = command.err.read(err, min(OUTPUT_CAP, max(0, ends[1] - err)))
        if done is None and not first and not second:
            return False
        complete = done is not None and out + len(first) >= ends[0] and err + len(second) >= ends[1]
        connection.reply(number, {"ok": {"out": len(first), "done": done if complete else None}}, first + second)
        return True

    def op_wait(self, connection, header, _payload):
        """Answer when a command has ended."""
        number = header["id"]

        def ended(command):
            if command.result is None:
                return not connection.open or number in connection.cancelled
            body = dict(command.result)
            connection.reply(number, body if "error" in body else {"ok": body})
            return True

        command = self._known(header)
        self._commands.call_soon(lambda: self._commands.wait(command, ended))

    def op_known(self, _connection, header, _payload):
        """Whether a command was started under this id."""
        return {"known": self._commands.get(header["key"]) is not None}, b""

    def _known(self, header):
        command = self._commands.get(header["key"])
        if command is None:
            raise text.Refused("no_such_call", "Error: no command was started under this id")
        return command

    def op_input(self, connection, header, payload):
        """Write to a command's stdin; answers when it has been written."""
        command = self._known(header)
        number = header["id"]
        done = lambda taken: connection.reply(number, {"ok": {"taken": taken}})  # noqa: E731
        offset, eof = header["offset"], header.get("eof", False)
        self._commands.call_soon(lambda: self._commands.send(command, offset, payload, eof, done))

    def op_kill(self, _connection, header, _payload):
        """Kill a command's whole tree. One that has ended, or never was, is no error."""
        command = self._commands.get(header["key"])
        if command is not None:
            self._commands.kill(command)
        return {}, b""
