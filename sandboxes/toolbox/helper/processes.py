"""Starting commands in sessions of their own, and killing whole trees of processes."""

import os
import subprocess

from . import text

COOKIE = "FANFOLD_CALL"
"""Environment variable that marks every process of a command, wherever it moves itself."""
ARGUMENT_CAP = 120 * 1024
"""Bytes of one argument that every kernel takes; a longer script goes through a file."""
_ROUNDS = 50


def start(command, cwd, env, cookie, stdin, merge, script_folder):
    """Start a command; raises `OSError` when it cannot be started."""
    environment = dict(os.environ)
    environment.update(env)
    environment[COOKIE] = cookie
    return subprocess.Popen(
        _argv(command, cookie, script_folder),
        cwd=cwd,
        env=environment,
        stdin=subprocess.PIPE if stdin else subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT if merge else subprocess.PIPE,
        bufsize=0,
        start_new_session=True,
    )


def _argv(command, cookie, script_folder):
    if not isinstance(command, str):
        return [os.fsencode(word) for word in command]
    script = command.encode("utf-8", "surrogateescape")
    if b"\0" in script:
        raise text.Refused("invalid_argument", "Error: the command has a NUL byte")
    if len(script) <= ARGUMENT_CAP:
        return ["/bin/sh", "-c", "--", script]
    path = os.path.join(script_folder, cookie + ".sh")
    with open(path, "wb") as file:
        file.write(script)
    return ["/bin/sh", path]


def kill_tree(leader, cookie):
    """Kill a command's session, its descendants, and whatever carries its cookie, also what tries to outrun this.

    First everything is stopped, so that nothing can fork any more, then everything is killed.
    """
    stopped = set()
    for _ in range(_ROUNDS):
        fresh = _members(leader, cookie) - stopped
        if not fresh:
            break
        for pid in fresh:
            _signal(pid, 19)
        stopped |= fresh
    for pid in stopped:
        _signal(pid, 9)
    try:
        os.killpg(leader, 9)
    except OSError:
        pass


def _signal(pid, number):
    try:
        os.kill(pid, number)
    except OSError:
        pass


def _members(leader, cookie):
    mark = "{}={}".format(COOKIE, cookie).encode()
    parents, members = {}, set()
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        pid = int(name)
        parent, session = _parent_and_session(name)
        parents[pid] = parent
        if pid == leader or session == leader or mark in _environ(name):
            members.add(pid)
    grown = True
    while grown:
        children = {pid for pid, parent in parents.items() if parent in members} - members
        grown = bool(children)
        members |= children
    members.discard(os.getpid())
    return members


def _parent_and_session(name):
    try:
        with open("/proc/{}/stat".format(name), "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
        return int(fields[1]), int(fields[3])
    except (OSError, IndexError, ValueError):
        return 0, 0


def _environ(name):
    try:
        with open("/proc/{}/environ".format(name), "rb") as file:
            return file.read().split(b"\0")
    except OSError:
        return ()
