"""Who looks after the helper where no namespace of its own does: it takes privileges away, and leaves no process behind."""

import ctypes
import os
import time

SET_CHILD_SUBREAPER = 36
SET_NO_NEW_PRIVS = 38
CAPBSET_DROP = 24
CAPABILITIES = 64
"""More than any kernel has."""
KEPT = (0, 1, 3, 6, 7)
"""What root keeps who may change the system: CHOWN, DAC_OVERRIDE, FOWNER, SETGID, SETUID, which package managers need."""
END_SECONDS = 10.0
"""How long the processes that are left may take to die."""
_VERSION = 0x20080522


def enter(user):
    """Go on as a child without privileges; this process stays, and when the child ends it ends everything that began in it.

    `user` is `UID:GID` to become, when this is root; None stays who it is, root with as little as package managers need.
    """
    system = ctypes.CDLL(None, use_errno=True)
    _prctl(system, SET_CHILD_SUBREAPER, 1)
    child = os.fork()
    if child:
        _look_after(child)
    keep = KEPT if user is None and os.geteuid() == 0 else ()
    if os.geteuid() == 0:
        for number in range(CAPABILITIES):
            if number not in keep:
                system.prctl(CAPBSET_DROP, number, 0, 0, 0)
    if user is not None and os.geteuid() == 0:
        uid, _, gid = user.partition(":")
        os.setgroups([])
        os.setresgid(int(gid), int(gid), int(gid))
        os.setresuid(int(uid), int(uid), int(uid))
    _limit(system, sum(1 << number for number in keep))
    _prctl(system, SET_NO_NEW_PRIVS, 1)


def _prctl(system, option, value):
    if system.prctl(option, value, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl {}: {}".format(option, os.strerror(ctypes.get_errno())))


def _limit(system, kept):
    """Hold no capability but these."""
    header = (ctypes.c_uint32 * 2)(_VERSION, 0)
    data = (ctypes.c_uint32 * 6)(kept, kept, 0, 0, 0, 0)
    if system.capset(header, data) != 0:
        # We had fewer: then there are none to give back.
        system.capset(header, (ctypes.c_uint32 * 6)())


def _look_after(child):
    """Reap what dies. When the child has ended, kill what is left, and end."""
    os.closerange(3, 256)
    code = None
    while code is None:
        pid, status = os.wait()
        if pid == child:
            code = status
    end = time.monotonic() + END_SECONDS
    while time.monotonic() < end and _reaped_all():
        for pid in _descendants(os.getpid()):
            try:
                os.kill(pid, 9)
            except OSError:
                pass
        time.sleep(0.01)
    os._exit(0 if code == 0 else 1)


def _reaped_all():
    """Reap what is dead; whether there are children still."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return False
    return True


def _descendants(top):
    parents = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open("/proc/{}/stat".format(name), "rb") as file:
                    parents[int(name)] = int(file.read().rpartition(b")")[2].split()[1])
            except (OSError, IndexError, ValueError):
                pass
    found = {top}
    grown = True
    while grown:
        more = {pid for pid, parent in parents.items() if parent in found} - found
        grown = bool(more)
        found |= more
    return found - {top}
