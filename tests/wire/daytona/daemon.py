"""What runs in each sandbox of the wire server: it starts processes and opens files for the server outside.

A connection is one request: a line of JSON, with descriptors beside it. The descriptors of what was asked for go back the same
way, so that no byte of a process or of a file passes through here. Standard library only.
"""

import array
import contextlib
import fcntl
import json
import os
import pty
import shutil
import signal
import socket
import stat
import struct
import subprocess
import sys
import termios
import threading

REQUEST_CAP = 4 * 1024 * 1024
"""Bytes of a request."""
DESCRIPTORS = 4


def main():
    """Serve the listening socket whose descriptor is the one argument."""
    listener = socket.socket(fileno=int(sys.argv[1]))
    os.set_inheritable(listener.fileno(), False)
    os.umask(0o022)
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
        # A handler, though we were started with these ignored: then every process in the sandbox would ignore them.
        signal.signal(number, lambda *_: None)
    while True:
        connection, _ = listener.accept()
        threading.Thread(target=serve, args=(connection,), daemon=True).start()


def serve(connection):
    """Answer one request."""
    with connection:
        request, given = receive(connection)
        try:
            OPERATIONS[request.pop("op")](connection, given, **request)
        except OSError as exc:
            answer(connection, {"error": exc.errno or 5, "message": exc.strerror or str(exc)})
        except (KeyError, TypeError, ValueError) as exc:
            answer(connection, {"error": 22, "message": repr(exc)})


def receive(connection):
    """The request, and the descriptors that came with its first bytes."""
    data, ancillary, _, _ = connection.recvmsg(65536, socket.CMSG_SPACE(4 * DESCRIPTORS))
    given = array.array("i")
    for _, _, packed in ancillary:
        given.frombytes(packed[: len(packed) // 4 * 4])
    while not data.endswith(b"\n"):
        more = connection.recv(65536)
        if not more or len(data) > REQUEST_CAP:
            raise SystemExit
        data += more
    return json.loads(data), list(given)


def answer(connection, fields, descriptors=()):
    """Send a line of JSON, with descriptors beside it."""
    packed = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))] if descriptors else []
    with contextlib.suppress(OSError):  # the server has lost its interest
        connection.sendmsg([json.dumps(fields).encode() + b"\n"], packed)


def run(connection, given, argv, cwd, env, size=None):
    """Start a process, with the given descriptors as stdin, stdout and stderr, or on a terminal of `size` rows and columns."""
    os.chdir("/")
    environment = dict(os.environ, **env)
    if size is None:
        try:
            process = subprocess.Popen(
                argv, cwd=cwd, env=environment, stdin=given[0], stdout=given[1], stderr=given[2], start_new_session=True
            )
        finally:
            close(given)
        answer(connection, {"pid": process.pid})
    else:
        process, master = on_a_terminal(argv, cwd, environment, size)
        answer(connection, {"pid": process.pid}, [master])
        os.close(master)
    threading.Thread(target=listen, args=(connection, process), daemon=True).start()
    code = process.wait()
    answer(connection, {"exit": code if code >= 0 else 128 - code})


def on_a_terminal(argv, cwd, env, size):
    """A process whose controlling terminal is a new one, and the other end of that."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", size[0], size[1], 0, 0))

    def take_terminal():
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)

    process = subprocess.Popen(
        argv, cwd=cwd, env=env, stdin=slave, stdout=slave, stderr=slave, start_new_session=True, preexec_fn=take_terminal
    )
    os.close(slave)
    return process, master


def listen(connection, process):
    """Send the process the signals that the server asks for."""
    for line in connection.makefile("rb"):
        told = json.loads(line)
        try:
            if told.get("group"):
                os.killpg(process.pid, told["signal"])
            else:
                process.send_signal(told["signal"])
        except OSError:
            pass


def close(descriptors):
    """Close them all."""
    for descriptor in descriptors:
        os.close(descriptor)


def open_file(connection, _given, path, write=False):
    """A descriptor of a file; one that is to be written is made, with its folders."""
    if write:
        os.makedirs(os.path.dirname(path) or "/", exist_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC if write else os.O_RDONLY, 0o644)
    try:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise IsADirectoryError(21, "is a directory")
        answer(connection, {"size": os.fstat(descriptor).st_size}, [descriptor])
    finally:
        os.close(descriptor)


def describe(path):
    """What is at a path, in the words of the toolbox."""
    found = os.lstat(path)
    return {
        "name": os.path.basename(path),
        "isDir": stat.S_ISDIR(found.st_mode),
        "size": found.st_size,
        "modTime": str(int(found.st_mtime)),
        "modifiedAt": str(int(found.st_mtime)),
        "mode": stat.filemode(found.st_mode),
        "permissions": f"{stat.S_IMODE(found.st_mode):04o}",
        "owner": str(found.st_uid),
        "group": str(found.st_gid),
    }


def info(connection, _given, path):
    """What is at a path."""
    answer(connection, {"info": describe(path)})


def listed(connection, _given, path):
    """What is in a folder."""
    answer(connection, {"files": [describe(os.path.join(path, name)) for name in sorted(os.listdir(path))]})


def folder(connection, _given, path, mode):
    """Make a folder."""
    os.makedirs(path, int(mode, 8), exist_ok=True)
    answer(connection, {})


def remove(connection, _given, path, recursive=False):
    """Remove what is at a path."""
    if os.path.isdir(path) and not os.path.islink(path):
        (shutil.rmtree if recursive else os.rmdir)(path)
    else:
        os.unlink(path)
    answer(connection, {})


def move(connection, _given, source, destination):
    """Move a file or folder."""
    os.rename(source, destination)
    answer(connection, {})


def permit(connection, _given, path, mode):
    """Change the permissions of a path."""
    os.chmod(path, int(mode, 8))
    answer(connection, {})


OPERATIONS = {
    "run": run,
    "open": open_file,
    "info": info,
    "list": listed,
    "folder": folder,
    "remove": remove,
    "move": move,
    "permit": permit,
}

if __name__ == "__main__":
    main()
