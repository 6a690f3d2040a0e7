"""Attempts to get out of a sandbox. Each succeeds outside of it (test_escape.py runs it there too).

A program that gets at something prints what it got, or calls `won()`; W knows where everything is (world.py).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from agentorchestra.sandbox import SandboxLimits
from agentorchestra.sandbox.base import MIB

Outside = Literal["plain", "mounts", "read_only_mounts", "nobody", "terminal", "parent"]
LIMITS = SandboxLimits(seconds=20)
SMALL = replace(LIMITS, memory_bytes=256 * MIB, work_bytes=48 * MIB, files=1_000, processes=40)


@dataclass(frozen=True)
class Attempt:
    """One attempt.

    Attributes:
        name: what is tried.
        code: the program.
        language: of the program.
        limits: inside.
        root: whether only root could do it outside.
        outside: where it is harmless there: `plain`; with `mounts` of its own, or with a `read_only_mount` of the
            folder; as a user of no one; with a terminal; below a parent of its own.
    """

    name: str
    code: str
    language: Literal["python", "bash"] = "python"
    limits: SandboxLimits = LIMITS
    root: bool = False
    outside: Outside = "plain"


def _python(name: str, code: str, *, root: bool = False, outside: Outside = "plain") -> Attempt:
    return Attempt(name, code, root=root, outside=outside)


def _bash(name: str, code: str, *, root: bool = False, outside: Outside = "plain") -> Attempt:
    return Attempt(name, code, language="bash", root=root, outside=outside)


def _bomb(name: str, code: str) -> Attempt:
    return Attempt(name, code, limits=SMALL)


FILES = (
    _python("absolute path", "print(open(W['secret']).read())"),
    _python("dots", "print(open('../' * 20 + W['secret'].lstrip('/')).read())"),
    _python("symlink", "os.symlink(W['secret'], 'l'); print(open('l').read())"),
    _python("symlink taken out", "os.symlink(W['secret'], 'taken.txt')"),
    _python("symlinked folder taken out", "os.symlink(os.path.dirname(W['secret']), 'taken')"),
    _python("hard link", "os.link(W['secret'], 'l'); print(open('l').read())"),
    _python("link in the task's folder", "print(open('files/link.txt').read())"),
    _python(
        "roots of processes",
        "path = 'root' + W['secret']\n"
        "for text in tried(lambda pid: open(f'/proc/{pid}/{path}').read(), 'self', *others()): print(text)",
    ),
    _python(
        "working folders of processes",
        "for text in tried(lambda pid: open(f'/proc/{pid}/cwd/secret.txt').read(), *others()): print(text)",
    ),
    _python(
        "open files of processes",
        "def read(pid):\n"
        "    paths = [f'/proc/{pid}/fd/{fd}' for fd in os.listdir(f'/proc/{pid}/fd')]\n"
        "    return [open(p).read(99) for p in paths if os.path.isfile(p)]\n"
        "for text in tried(read, *others()): print(text)",
    ),
    _python("other runs", "for n in os.listdir(W['other_run']): print(open(W['other_run'] + '/' + n).read())"),
    _python(
        "the workspace's database",
        "import sqlite3\nprint(sqlite3.connect(W['database']).execute('select body from events').fetchall())",
    ),
    _python("users of the host", "if 'root:' in open('/etc/passwd').read(): won()"),
    _python("write outside", "open(W['outside'], 'w').write('changed')"),
    _python("write through a root", "open('/proc/1/root' + W['outside'], 'w').write('changed')", root=True),
    _python("write into the task's folder", "open('files/given.txt', 'w').write('changed')"),
    _python("make the task's folder writable", "os.chmod('files', 0o777); open('files/new.txt', 'w'); won()"),
    _python("replace a file of the task", "os.rename('files/given.txt', 'files/renamed'); won()"),
    _python("write a program of the system", "os.open(sys.executable, os.O_WRONLY | os.O_APPEND); won()", root=True),
    _bash("cat", 'cat "$secret"'),
    _bash("find", 'find "$(dirname "$secret")" -name "*.txt" -exec cat {} +'),
    _bash("tar up a link", 'ln -s "$secret" l; tar chf archive.tar l; tr -d "\\0" < archive.tar'),
    _bash("redirect outside", 'echo changed > "$outside"'),
    _bash("copy of the database", 'cat "$database" | tr -d "\\0"'),
)

ENVIRONMENT = (
    _python("own environment", "print(dict(os.environ))"),
    _python(
        "environments of processes",
        "for text in tried(lambda pid: open(f'/proc/{pid}/environ').read(), W['victim'], os.getppid(), 1): print(text)",
    ),
    _python(
        "arguments of processes",
        "for text in tried(lambda pid: open(f'/proc/{pid}/cmdline').read(), *os.listdir('/proc')): print(text)",
    ),
    _python("name of the host", "if socket.gethostname() == W['hostname']: won()"),
    _python(
        "paths of the host in arguments",
        "for text in tried(lambda pid: open(f'/proc/{pid}/cmdline').read(), *os.listdir('/proc')):\n"
        "    if W['task'] in text: won(text)",
    ),
    _python("command line of the kernel", "if open('/proc/cmdline').read().strip(): won()"),
    _python("symbols of the kernel", "if open('/proc/kallsyms').read(99): won()"),
    _python("users of keys", "if open('/proc/key-users').read(): won()"),
    _python(
        "memory of the kernel",
        "names = ('kcore', 'iomem', 'slabinfo', 'vmallocinfo', 'pagetypeinfo', 'timer_list')\n"
        "for text in tried(lambda n: open('/proc/' + n, 'rb').read(64), *names):\n    if text: won()",
        root=True,
    ),
    _bash("env", "env"),
    _bash("ps", "cat /proc/[0-9]*/cmdline | tr '\\0' ' '"),
    _bash("environ", 'cat "/proc/$victim/environ" /proc/1/environ /proc/$PPID/environ | tr "\\0" "\\n"'),
)

NETWORK = (
    _python("loopback", "print(socket.create_connection(('127.0.0.1', W['tcp']), 2).recv(99).decode())"),
    _python("loopback, IPv6", "print(socket.create_connection(('::1', W['tcp6']), 2).recv(99).decode())"),
    _python("loopback, mapped", "print(socket.create_connection(('::ffff:127.0.0.1', W['tcp']), 2).recv(99))"),
    _python(
        "datagram and name server",
        "s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(2)\n"
        "asked = b'ab\\1\\0\\0\\1\\0\\0\\0\\0\\0\\0\\7example\\3com\\0\\0\\1\\0\\1'\n"
        "s.sendto(asked, ('127.0.0.1', W['udp']))\n"
        "if s.recv(500)[-4:] == bytes([10, 1, 2, 3]): won()",
    ),
    _python("abstract socket", "s = socket.socket(socket.AF_UNIX); s.connect(W['abstract']); print(s.recv(99))"),
    _python("socket file", "s = socket.socket(socket.AF_UNIX); s.connect(W['unix']); print(s.recv(99))"),
    _python("interfaces", "if [n for _, n in socket.if_nameindex() if n != 'lo']: won()"),
    _python("raw sockets", "socket.socket(socket.AF_INET, socket.SOCK_RAW, 1); won()", root=True),
    _python("packet sockets", "socket.socket(socket.AF_PACKET, socket.SOCK_RAW); won()", root=True),
    _python("key sockets", "socket.socket(15, socket.SOCK_RAW, 2); won()", root=True),
    _python("crypto sockets", "socket.socket(socket.AF_ALG, socket.SOCK_SEQPACKET); won()"),
    _python("sockets of the virtual machine", "socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM); won()"),
    _bash("/dev/tcp", 'exec 3<>"/dev/tcp/127.0.0.1/$tcp"; head -c 99 <&3'),
)

PROCESSES = (
    _python("kill by number", "os.kill(W['victim'], 9)"),
    _python("kill by file descriptor", "signal.pidfd_send_signal(os.pidfd_open(W['victim']), 9)"),
    _bash("kill", 'kill -9 "$victim"'),
    _bash("kill everything", "sleep 0.3; kill -9 -1", root=True, outside="nobody"),
    _python("trace", "for pid in others():\n    if system_call(101, 0x4206, pid, 0, 0) >= 0: won(pid)"),
    _python(
        "memory of processes",
        "def read(pid):\n"
        "    start = int(open(f'/proc/{pid}/maps').read().split('-')[0], 16)\n"
        "    with open(f'/proc/{pid}/mem', 'rb', 0) as memory: memory.seek(start); return memory.read(4)\n"
        "for data in tried(read, *others()): won(data)",
    ),
    _python(
        "memory of processes, by a call",
        "import ctypes.util\n"
        "class Vector(ctypes.Structure): _fields_ = [('base', ctypes.c_void_p), ('size', ctypes.c_size_t)]\n"
        "buffer = ctypes.create_string_buffer(16)\n"
        "own = Vector(ctypes.addressof(buffer), 16)\n"
        "for pid in others():\n"
        "    for start in tried(lambda pid: int(open(f'/proc/{pid}/maps').read().split('-')[0], 16), pid):\n"
        "        if libc.process_vm_readv(pid, ctypes.byref(own), 1, ctypes.byref(Vector(start, 16)), 1, 0) > 0: won()",
        root=True,
    ),
    _python(
        "namespaces of processes",
        "for fd in tried(lambda pid: os.open(f'/proc/{pid}/ns/net', os.O_RDONLY), *others()):\n"
        "    if libc.setns(fd, 0) == 0: won()",
        root=True,
    ),
    _python(
        "output of the parent",
        "for fd in tried(lambda fd: os.open(f'/proc/{os.getppid()}/fd/{fd}', os.O_WRONLY), 1):\n"
        '    os.write(fd, b\'{"kind": "note", "text": "W\' + b\'ON"}\\n\')\n'
        "time.sleep(0.3)",
        outside="parent",
    ),
    _python(
        "output of the first process",
        "for pid in range(1, os.getpid()) if os.getpid() < 20 else [os.getppid()]:\n"
        "    for fd in tried(lambda fd: os.open(f'/proc/{pid}/fd/{fd}', os.O_WRONLY), 1, 2):\n"
        '        os.write(fd, b\'{"kind": "note", "text": "W\' + b\'ON"}\\n\')\n'
        "time.sleep(0.3)",
        outside="parent",
    ),
    _python(
        "daemon",
        "if os.fork() == 0:\n"
        "    os.setsid()\n"
        "    if os.fork() == 0:\n"
        "        for n in (1, 2, 15): signal.signal(n, signal.SIG_IGN)\n"
        "        for fd in (0, 1, 2): os.close(fd)\n"
        "        os.execv('/bin/sh', ['/bin/sh', '-c', 'sleep 300; :', 'left-' + W['token_end']])\n"
        "    os._exit(0)\n"
        "os.wait()",
    ),
    _bash("nohup", 'setsid nohup sh -c "sleep 300; :" "left-$token_end" >/dev/null 2>&1 & sleep 0.2'),
)

PRIVILEGES = (
    _python("users' namespace", "if libc.unshare(0x10000000) == 0: won()"),
    _python(
        "users' namespace, by clone",
        "pid = system_call(56, 0x10000000 | 17, 0, 0, 0, 0)\nif pid == 0: os._exit(0)\nif pid > 0: won()",
    ),
    _python(
        "users' namespace, by clone3",
        "arguments = struct.pack('QQQQQQQQ', 0x10000000, 0, 0, 0, 17, 0, 0, 0)\n"
        "pid = system_call(435, ctypes.c_char_p(arguments), len(arguments))\n"
        "if pid == 0: os._exit(0)\n"
        "if pid > 0: won()",
    ),
    _bash("unshare", 'test "$(unshare -Ur id -u)" = 0 && echo W"ON"'),
    _bash("bubblewrap in bubblewrap", 'bwrap --unshare-user --dev-bind / / true && echo W"ON"'),
    _python(
        "mount",
        "os.mkdir('m')\nif libc.mount(b'none', b'm', b'tmpfs', 0, None) == 0: won()",
        root=True,
        outside="mounts",
    ),
    _python(
        "bind",
        "os.mkdir('m')\nif libc.mount(b'/proc', b'm', None, 4096, None) == 0: won()",
        root=True,
        outside="mounts",
    ),
    _python("new mount calls", "if system_call(430, ctypes.c_char_p(b'tmpfs'), 0) >= 0: won()", root=True),
    _bash("mount command", 'mount -t tmpfs none "$PWD" && echo W"ON"', root=True, outside="mounts"),
    _python(
        "read-only mounts made writable",
        "for line in open('/proc/self/mountinfo'):\n"
        "    fields = line.split()\n"
        "    place = fields[4].encode()\n"
        "    if 'ro' in fields[5].split(',') and libc.mount(None, place, None, 32 | 4096, None) == 0: won()",
        root=True,
        outside="read_only_mounts",
    ),
    _python(
        "unmount",
        "for line in open('/proc/self/mountinfo'):\n    if libc.umount2(line.split()[4].encode(), 2) == 0: won()",
        root=True,
        outside="read_only_mounts",
    ),
    _python("chroot", "os.chroot('.'); won()", root=True),
    _python(
        "pivot_root",
        "os.mkdir('m'); libc.mount(b'none', b'm', b'tmpfs', 0, None); os.mkdir('m/old')\n"
        "if system_call(155, ctypes.c_char_p(b'm'), ctypes.c_char_p(b'm/old')) == 0: won()",
        root=True,
        outside="mounts",
    ),
    _python("become root", "os.setresuid(0, 0, 0); won()", root=True),
    _python("become another group", "os.setgroups([0]); won()", root=True),
    _bash(
        "program with the rights of its owner",
        'test "$(files/setuid-id -u)" = 0 && echo W"ON"',
        root=True,
        outside="nobody",
    ),
    _bash("su", 'test "$(su root -c "id -u" </dev/null)" = 0 && echo W"ON"', root=True),
    _python(
        "capabilities",
        "if [l for l in open('/proc/self/status') if l.startswith(('CapE', 'CapP', 'CapB', 'CapI', 'CapA')) "
        "and int(l.split()[1], 16)]: won()",
    ),
    _python("new privileges", "if 'NoNewPrivs:\\t0' in open('/proc/self/status').read(): won()"),
    _python("larger limits", "resource.setrlimit(resource.RLIMIT_NOFILE, (9999, 9999)); won()", root=True),
    _python("core dumps", "resource.setrlimit(resource.RLIMIT_CORE, (1, 1)); won()", root=True),
    _python("clock", "time.clock_settime(time.CLOCK_REALTIME, time.time()); won()", root=True),
    _python("host name", "socket.sethostname(socket.gethostname()); won()", root=True),
    _python("priority", "os.setpriority(os.PRIO_PROCESS, 0, -1); won()", root=True),
    _python("devices", "os.mknod('m', stat.S_IFCHR | 0o666, os.makedev(1, 1)); won()", root=True),
    _python(
        "disks and memory",
        "names = [l.split()[3] for l in open('/proc/partitions').read().splitlines()[2:]]\n"
        "for fd in tried(lambda n: os.open('/dev/' + n, os.O_RDONLY), *names, 'mem', 'kmsg', 'port'): won()",
        root=True,
    ),
    _python(
        "settings of the kernel",
        "for path in ('/proc/sys/kernel/core_pattern', '/proc/sys/kernel/printk', '/proc/sys/vm/overcommit_memory'):\n"
        "    for old in tried(lambda p: open(p).read(), path):\n"
        "        for file in tried(lambda p: open(p, 'w', buffering=1), path): file.write(old); won(path)\n"
        "opened = ('/proc/sysrq-trigger', '/sys/fs/cgroup/cgroup.procs')\n"
        "for fd in tried(lambda p: os.open(p, os.O_WRONLY), *opened): won()",
        root=True,
    ),
    _python("devices of the machine", "if os.listdir('/sys'): won()"),
    _python(
        "keys in a terminal",
        "import fcntl\nwith open('/dev/tty', 'w') as t: fcntl.ioctl(t, 0x5412, b'x'); won()",
        root=True,
        outside="terminal",
    ),
)

BOMBS = (
    _bomb(
        "processes",
        "made = 0\n"
        "try:\n"
        "    while made < 120:\n"
        "        if os.fork() == 0: time.sleep(5); os._exit(0)\n"
        "        made += 1\n"
        "except OSError: pass\n"
        "if made > 50: won()\n"
        "signal.signal(15, signal.SIG_IGN); os.killpg(0, 15) if made > 50 else None",
    ),
    _bomb(
        "threads",
        "import threading\n"
        "try:\n"
        "    for n in range(120): threading.Thread(target=time.sleep, args=(60,), daemon=True).start()\n"
        "    won()\n"
        "except RuntimeError: pass",
    ),
    replace(
        _bash(
            "processes of a shell",
            'for n in $(seq 120); do sleep 30 & done; test "$(jobs -r | wc -l)" -gt 50 && echo W"ON"; kill $(jobs -p)',
        ),
        limits=replace(SMALL, seconds=4),
    ),
    _bomb("memory of one process", "held = b'x' * (600 << 20)\nwon()"),
    _bomb(
        "memory of many processes",
        "read, write = os.pipe()\n"
        "for n in range(8):\n"
        "    if os.fork() == 0: held = b'x' * (60 << 20); os.write(write, b'1'); time.sleep(4); os._exit(0)\n"
        "seen = 0\n"
        "while seen < 8: seen += len(os.read(read, 8))\n"
        "time.sleep(1)\n"
        "won()",
    ),
    _bomb(
        "memory shared by processes",
        "import mmap\nheld = []\n"
        "for n in range(12):\n"
        "    if os.fork() == 0:\n"
        "        for m in range(40): held.append(mmap.mmap(-1, 1 << 20)); held[-1].write(b'x' * (1 << 20))\n"
        "        time.sleep(4); os._exit(0)\n"
        "time.sleep(3)\n"
        "won()",
    ),
    _bomb(
        "memory without a name",
        "held = [os.memfd_create(str(n)) for n in range(12)]\n"
        "for fd in held:\n    for n in range(40): os.write(fd, b'x' * (1 << 20))\n"
        "time.sleep(1)\n"
        "won()",
    ),
    _bomb(
        "memory of System V",
        "libc.shmat.restype = ctypes.c_void_p\nheld = []\n"
        "for n in range(10):\n"
        "    held.append(libc.shmget(0, ctypes.c_size_t(40 << 20), 0o1600))\n"
        "    at = libc.shmat(held[-1], None, 0)\n"
        "    if held[-1] < 0 or at in (None, 2**64 - 1): break\n"
        "    ctypes.memset(at, 1, 40 << 20); libc.shmdt(ctypes.c_void_p(at))\n"
        "else:\n    time.sleep(1); won()\n"
        "for n in held: libc.shmctl(n, 0, None)",
    ),
    _bomb(
        "memory in sockets",
        "def fill(pairs):\n"
        "    for one in [one for pair in pairs for one in pair]:\n"
        "        one.setblocking(False)\n"
        "        for m in tried(lambda _: one.send(b'x' * 4096), *range(60)): pass\n"
        "for n in range(15):\n"
        "    if os.fork() == 0:\n"
        "        pairs = [socket.socketpair() for _ in range(100)]; fill(pairs); time.sleep(4); os._exit(0)\n"
        "time.sleep(3)\n"
        "won()",
    ),
    _bomb(
        "memory in connections",
        "server = socket.create_server(('127.0.0.1', 0)); held = []\n"
        "for n in range(150):\n"
        "    one = socket.create_connection(server.getsockname()); held += [one, server.accept()[0]]\n"
        "    one.setblocking(False)\n"
        "    for m in tried(lambda _: one.send(b'x' * (1 << 20)), *range(8)): pass\n"
        "time.sleep(1)\n"
        "won()",
    ),
    _bomb(
        "memory in queues of news",
        "held = [libc.inotify_init1(0) for n in range(100)]\n"
        "if min(libc.inotify_add_watch(fd, b'.', 0x3C8) for fd in held) < 0: sys.exit()\n"
        "for n in range(8000):\n"
        "    name = 'x' * 200 + str(n)\n"
        "    open(name, 'w').close(); os.remove(name)\n"
        "time.sleep(1)\n"
        "won()",
    ),
    _bomb(
        "memory in pipes",
        "import fcntl\nheld = size = 0\nkept = []\n"
        "for n in range(8):\n"
        "    read, write = os.pipe()\n"
        "    if os.fork(): os.close(write); held += int(os.read(read, 20) or 0); continue\n"
        "    try:\n"
        "        for m in range(200):\n"
        "            kept.append(os.pipe()); os.set_blocking(kept[-1][1], False)\n"
        "            for act in (lambda: fcntl.fcntl(kept[-1][1], 1031, 1 << 20),\n"
        "                        lambda: [os.write(kept[-1][1], b'x' * 4096) for _ in range(256)]):\n"
        "                try: act()\n"
        "                except OSError: pass\n"
        "            data = bytearray(4); fcntl.ioctl(kept[-1][0], 0x541B, data)\n"
        "            size += int.from_bytes(data, sys.byteorder)\n"
        "    except OSError: pass\n"
        "    os.write(write, str(size).encode()); time.sleep(8); os._exit(0)\n"
        "if held > 300 << 20: won(held)",
    ),
    replace(
        _bomb(
            "memory in queues of messages",
            "try: resource.setrlimit(resource.RLIMIT_MSGQUEUE, (-1, -1))\n"
            "except (OSError, ValueError): pass\n"
            "sizes, held = ctypes.c_char_p(struct.pack('8l', 0, 10, 8192, 0, 0, 0, 0, 0)), 0\n"
            "for n in range(200):\n"
            "    name = ctypes.c_char_p(f'left{W[\"token_end\"]}{n}'.encode())\n"
            "    fd = system_call(240, name, 0o102, 0o600, sizes)\n"
            "    system_call(241, name)\n"
            "    for m in range(10 if fd >= 0 else 0):\n"
            "        if system_call(242, fd, ctypes.c_char_p(b'x' * 8192), 8192, 0, 0) == 0: held += 8192\n"
            "if held > 4 << 20: won(held)",
        ),
        root=True,
    ),
    replace(
        _bomb(
            "memory in files of all folders",
            "for folder in ('.', '/tmp', '/dev/shm'):\n"
            "    with open(f'{folder}/left-{W[\"token_end\"]}', 'wb') as file:\n"
            "        for n in range(45): file.write(b'x' * (1 << 20))\n"
            "time.sleep(1)\n"
            "won()\n"
            "os.remove(f'/dev/shm/left-{W[\"token_end\"]}'), os.remove(f'/tmp/left-{W[\"token_end\"]}')",
        ),
        limits=replace(SMALL, memory_bytes=100 * MIB),
    ),
    _bomb(
        "one large file",
        "with open('large', 'wb') as file:\n    for n in range(100): file.write(b'x' * (1 << 20))\nwon()",
    ),
    _bomb("many large files", "for n in range(20): open(f'f{n}', 'wb').write(b'x' * (5 << 20))\nwon()"),
    _bomb("many files", "for n in range(4000): open(f'f{n}', 'w').close()\ntime.sleep(1); won()"),
    _bomb("many folders", "for n in range(4000): os.mkdir(f'f{n}')\ntime.sleep(1); won()"),
    _bomb("a file with a hole", "open('hole', 'wb').truncate(1 << 40); won()"),
)

KERNEL = tuple(
    _python(name, f"if system_call({call}) >= 0: won()", root=root)
    for name, call, root in (
        ("keys", "250, 0, -3, 1", False),
        ("keys, added", "248, ctypes.c_char_p(b'user'), ctypes.c_char_p(b'name'), ctypes.c_char_p(b'x'), 1, -3", False),
        ("bpf", "321, 0, ctypes.c_char_p(struct.pack('IIII', 2, 4, 8, 1) + bytes(56)), 72", True),
        ("performance counters", "298, ctypes.c_char_p(struct.pack('IIQ', 1, 112, 0) + bytes(96)), 0, -1, -1, 0", True),
        ("io_uring", "425, 4, ctypes.create_string_buffer(120)", False),
        ("userfaultfd", "323, 1", False),
        ("kernel log", "103, 3, ctypes.create_string_buffer(10), 10", True),
        ("accounting", "163, None or 0", True),
    )
)

ATTEMPTS = (*FILES, *ENVIRONMENT, *NETWORK, *PROCESSES, *PRIVILEGES, *BOMBS, *KERNEL)

__all__ = ["ATTEMPTS", "LIMITS", "SMALL", "Attempt"]
