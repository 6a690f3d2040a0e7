"""A system-call filter for programs in bubblewrap: what no program of ours needs and what kernels were broken through,
and memory that no limit counts (System V, memfd, rare kinds of sockets).

A classic BPF program (seccomp(2)) for x86_64 and aarch64; on other machines there is none. Refused calls give EPERM;
clone3, whose flags a filter cannot see, and calls that are newer than this list give ENOSYS, after which the C library
uses older ones. A foreign calling convention (32-bit, x32) ends the program.
"""

from __future__ import annotations

import errno
import platform
import struct

_ARCHES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}

# name: (x86_64, aarch64)
_REFUSALS = {
    "acct": (163, 89),
    "add_key": (248, 217),
    "bpf": (321, 280),
    "delete_module": (176, 106),
    "finit_module": (313, 273),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fsopen": (430, 430),
    "fspick": (433, 433),
    "init_module": (175, 105),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "io_uring_setup": (425, 425),
    "kexec_file_load": (320, 294),
    "kexec_load": (246, 104),
    "keyctl": (250, 219),
    "memfd_create": (319, 279),
    "memfd_secret": (447, 447),
    "mount": (165, 40),
    "mount_setattr": (442, 442),
    "move_mount": (429, 429),
    "msgget": (68, 186),
    "open_by_handle_at": (304, 265),
    "open_tree": (428, 428),
    "perf_event_open": (298, 241),
    "pivot_root": (155, 41),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "quotactl": (179, 60),
    "reboot": (169, 142),
    "request_key": (249, 218),
    "semget": (64, 190),
    "setns": (308, 268),
    "shmget": (29, 194),
    "swapoff": (168, 225),
    "swapon": (167, 224),
    "syslog": (103, 116),
    "umount2": (166, 39),
    "unshare": (272, 97),
    "userfaultfd": (323, 282),
}
_CLONE = (56, 220)
_CLONE3 = (435, 435)
_SOCKET = (41, 198)
_UNIX, _INET, _INET6, _NETLINK = 1, 2, 10, 16
_KINDS = (1, 2)
_KIND = 0xF  # the rest of a socket's type are flags
_PROTOCOLS = (0, 6, 17)
"""Internet sockets that may be made: streams by TCP and datagrams by UDP. Of netlink there is protocol 0, which lists
interfaces. What the kernel queues for others (UDP-Lite, netlink's other protocols) no limit counts everywhere."""

_NEWEST = 462  # the newest call that was looked at; its number is the same on all machines
_NEW_NAMESPACES = 0x7E020000  # CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET

_LOAD, _EQUAL, _AT_LEAST, _ANY_OF, _AND, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x54, 0x06
_ALLOW, _ERRNO, _KILL = 0x7FFF0000, 0x00050000, 0x80000000
_NUMBER, _ARCH, _FIRST, _SECOND, _THIRD = 0, 4, 16, 24, 32
_X32 = 0x40000000


def filter_for(machine: str | None = None) -> bytes | None:
    """Return the filter as bubblewrap's `--seccomp` reads it, None for a machine that it is not written for."""
    machine = machine or platform.machine()
    if machine not in _ARCHES:
        return None
    column = list(_ARCHES).index(machine)
    refusal = _ERRNO | errno.EPERM
    code = [(_LOAD, 0, 0, _ARCH), (_EQUAL, 1, 0, _ARCHES[machine]), (_RETURN, 0, 0, _KILL), (_LOAD, 0, 0, _NUMBER)]
    if machine == "x86_64":
        code += [(_AT_LEAST, 0, 1, _X32), (_RETURN, 0, 0, _KILL)]
    code += [(_AT_LEAST, 0, 1, _NEWEST + 1), (_RETURN, 0, 0, _ERRNO | errno.ENOSYS)]
    for numbers in _REFUSALS.values():
        code += [(_EQUAL, 0, 1, numbers[column]), (_RETURN, 0, 0, refusal)]
    code += [(_EQUAL, 0, 1, _CLONE3[column]), (_RETURN, 0, 0, _ERRNO | errno.ENOSYS)]
    code += [
        (_EQUAL, 0, 4, _CLONE[column]),
        (_LOAD, 0, 0, _FIRST),
        (_ANY_OF, 0, 1, _NEW_NAMESPACES),
        (_RETURN, 0, 0, refusal),
        (_RETURN, 0, 0, _ALLOW),
    ]
    return b"".join(struct.pack("<HBBI", *instruction) for instruction in [*code, *_sockets(_SOCKET[column], refusal)])


def _sockets(number: int, refusal: int) -> list[tuple[int, int, int, int]]:
    """Return the end of a filter: any call but socket(2) is allowed, and that for some kinds of sockets."""
    absent = _ERRNO | errno.EPROTONOSUPPORT
    return [
        (_EQUAL, 1, 0, number),
        (_RETURN, 0, 0, _ALLOW),
        (_LOAD, 0, 0, _FIRST),
        (_EQUAL, 0, 1, _UNIX),
        (_RETURN, 0, 0, _ALLOW),
        (_EQUAL, 0, 4, _NETLINK),
        (_LOAD, 0, 0, _THIRD),
        (_EQUAL, 0, 1, 0),
        (_RETURN, 0, 0, _ALLOW),
        (_RETURN, 0, 0, absent),
        (_EQUAL, 2, 0, _INET),
        (_EQUAL, 1, 0, _INET6),
        (_RETURN, 0, 0, refusal),
        (_LOAD, 0, 0, _SECOND),
        (_AND, 0, 0, _KIND),
        *((_EQUAL, len(_KINDS) - index, 0, kind) for index, kind in enumerate(_KINDS)),
        (_RETURN, 0, 0, absent),
        (_LOAD, 0, 0, _THIRD),
        *((_EQUAL, len(_PROTOCOLS) - index, 0, protocol) for index, protocol in enumerate(_PROTOCOLS)),
        (_RETURN, 0, 0, absent),
        (_RETURN, 0, 0, _ALLOW),
    ]
