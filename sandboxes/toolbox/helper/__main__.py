"""The helper's command line: `serve` in the sandbox's first process, `connect` in a further one that bridges to it."""

import argparse
import fcntl
import os
import resource
import select
import signal
import socket
import sys
import threading
import time

BULK = 1024 * 1024
"""Bytes that a bridge carries at once, and that a pipe or socket is asked to hold."""
F_SETPIPE_SZ = 1031
FIRST_CHILD = 2
"""The helper's id in a PID namespace of its own. On the machine itself that is a thread of the kernel."""
LINE_OUT = 3
"""With --stdio, the descriptor on which the first client is told that it was dropped: its stdout may stay open in others."""


def main():
    """Parse the command line and go."""
    parser = argparse.ArgumentParser(prog="toolbox")
    commands = parser.add_subparsers(dest="command", required=True)
    serve = commands.add_parser("serve")
    where = serve.add_mutually_exclusive_group(required=True)
    where.add_argument("--socket", help="path of the Unix socket to make and listen on")
    where.add_argument("--listen-fd", type=int, help="inherited descriptor that listens already")
    serve.add_argument("--state", required=True, help="folder for the journal and the output of commands")
    serve.add_argument("--workdir", required=True)
    serve.add_argument("--upper", help="folder with what was written to the workdir, where that is an overlay")
    serve.add_argument("--lifetime", type=float, default=0, help="seconds; 0 is for ever")
    serve.add_argument("--idle", type=float, default=0, help="seconds without a request or a running command; 0 is for ever")
    serve.add_argument("--unclaimed", type=float, default=0, help="seconds for the first client to come; 0 is for ever")
    serve.add_argument("--limit", action="append", default=[], metavar="NAME=N", help="resource limit, hard: NPROC, AS")
    serve.add_argument("--ward", action="store_true", help="drop privileges, and end every process with the server")
    serve.add_argument("--namespace", action="store_true", help="end every process of this PID namespace with the server")
    serve.add_argument("--user", metavar="UID:GID", help="with --ward: whom root becomes")
    serve.add_argument("--stdio", action="store_true", help="the first client is on stdin and stdout; it is told `helper`")
    connect = commands.add_parser("connect")
    connect.add_argument("--socket", required=True)
    connect.add_argument("--wait", type=float, default=10, help="seconds to wait for the socket")
    connect.add_argument("--terminal", nargs=2, metavar="HALF", help="stdin is a terminal; the halves of a mark")
    arguments = parser.parse_args()
    return _serve(arguments) if arguments.command == "serve" else _connect(arguments)


def _serve(arguments):
    from .drafts import UMASK
    from .server import Server

    if arguments.namespace and os.getpid() != FIRST_CHILD:
        sys.exit("toolbox: --namespace is for a PID namespace whose first child this is: it ends all that it can reach")
    if arguments.ward:
        from . import ward

        ward.enter(arguments.user)
    os.umask(UMASK)
    for limit in arguments.limit:
        name, _, value = limit.partition("=")
        resource.setrlimit(getattr(resource, "RLIMIT_" + name), (int(value), int(value)))
    sys.setswitchinterval(0.001)
    if arguments.socket is None:
        listener = socket.socket(fileno=arguments.listen_fd)
        os.set_inheritable(listener.fileno(), False)
    else:
        listener = _listen(arguments.socket)
    os.makedirs(arguments.workdir, exist_ok=True)
    os.chdir(arguments.workdir)
    limits = (arguments.lifetime, arguments.idle, arguments.unclaimed)
    server = Server(listener, arguments.state, arguments.workdir, arguments.upper, *limits)
    try:
        server.run(_on_stdio() if arguments.stdio else None)
    finally:
        if arguments.namespace:
            os.kill(-1, signal.SIGKILL)
    os._exit(0)


def _on_stdio():
    """A socket whose other end is stdin and stdout, which are empty from now on."""
    source, sink, line_out = (fcntl.fcntl(one, fcntl.F_DUPFD_CLOEXEC, LINE_OUT + 1) for one in (0, 1, LINE_OUT))
    os.close(LINE_OUT)
    nothing = os.open(os.devnull, os.O_RDWR)
    for one in (0, 1):
        os.dup2(nothing, one)
    os.close(nothing)
    outer, inner = socket.socketpair()
    threading.Thread(target=_carry, args=(outer, source, sink, line_out), daemon=True).start()
    return inner


def _carry(sock, source, sink, line_out):
    try:
        os.write(sink, b"helper\n")
        _bridge(sock, source, sink)
        os.write(line_out, b"dropped\n")
    except OSError:  # nobody is there any more
        pass
    sock.close()
    for one in (source, sink, line_out):
        os.close(one)


def _listen(path):
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass
    listener = socket.socket(socket.AF_UNIX)
    # Bound under another name first: whoever sees the socket can connect to it.
    listener.bind(path + ".new")
    listener.listen(64)
    os.rename(path + ".new", path)
    return listener


def _connect(arguments):
    deadline = time.monotonic() + arguments.wait
    while True:
        sock = socket.socket(socket.AF_UNIX)
        try:
            sock.connect(arguments.socket)
            break
        except OSError as exc:
            sock.close()
            if time.monotonic() > deadline:
                sys.stderr.write("toolbox: cannot connect to {}: {}\n".format(arguments.socket, exc))
                return 1
            time.sleep(0.01)
    if arguments.terminal:
        from . import terminal

        terminal.bridge(sock, "".join(arguments.terminal).encode())
        return 0
    _bridge(sock, 0, 1)
    return 0


def _bridge(sock, source, sink):
    """Carry bytes both ways until either end closes; between pipes and the socket they need not come through here."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, BULK)
    to_socket = _carrier(source, sock.fileno())
    to_client = _carrier(sock.fileno(), sink)
    while True:
        readable, _, _ = select.select([source, sock], [], [])
        if sock in readable and not to_client():
            return
        if source in readable and not to_socket():
            return


def _carrier(source, sink):
    """A function that carries what `source` has to `sink`, and tells how much that was: nothing at its end."""
    buffer = memoryview(bytearray(BULK))

    def copy():
        count = os.readv(source, [buffer])
        rest = buffer[:count]
        while rest:
            rest = rest[os.write(sink, rest) :]
        return count

    def splice():
        return os.splice(source, sink, BULK)

    for end in (source, sink):
        try:
            fcntl.fcntl(end, F_SETPIPE_SZ, BULK)
        except OSError:
            continue  # no pipe, or no more room for pipes
        if hasattr(os, "splice"):
            return splice
    return copy


if __name__ == "__main__":
    sys.exit(main())
