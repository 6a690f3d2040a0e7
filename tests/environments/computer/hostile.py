"""A program that misuses its display, by the C library: python3 hostile.py WHAT. Run on the desktop by the tests."""

import ctypes
import os
import signal
import sys
import time

x = ctypes.CDLL("libX11.so.6")
x.XOpenDisplay.restype = ctypes.c_void_p
x.XDefaultRootWindow.restype = ctypes.c_ulong
x.XCreateSimpleWindow.restype = ctypes.c_ulong
display = ctypes.c_void_p(x.XOpenDisplay(None))
root = ctypes.c_ulong(x.XDefaultRootWindow(display))
what = sys.argv[1]


def window(title: bytes = b"a window") -> ctypes.c_ulong:
    made = ctypes.c_ulong(x.XCreateSimpleWindow(display, root, 10, 10, 200, 100, 0, 0, 0xFFFFFF))
    x.XStoreName(display, made, title)
    x.XMapWindow(display, made)
    return made


if what == "grab server":
    window()
    x.XSync(display, 0)
    time.sleep(1)
    x.XGrabServer(display)
elif what == "grab input":
    window()
    x.XSync(display, 0)
    time.sleep(0.3)
    print(
        x.XGrabPointer(display, root, 0, 0, 1, 1, ctypes.c_ulong(0), ctypes.c_ulong(0), ctypes.c_ulong(0)),
        x.XGrabKeyboard(display, root, 0, 1, 1, ctypes.c_ulong(0)),
    )
elif what == "long title":
    made = window(b"short")
    for _ in range(3):
        x.XStoreName(display, made, "ü\x1b[2Jx".encode() * 30_000)
elif what == "many windows":
    for number in range(int(sys.argv[2])):
        window(b"window %d" % number)
        if number % 100 == 0:
            x.XSync(display, 0)
elif what == "windows without end":
    while True:
        made = window()
        x.XSync(display, 0)
        x.XDestroyWindow(display, made)
elif what == "frozen":
    window(b"frozen")
    x.XSync(display, 0)
    print("frozen", flush=True)
    os.kill(os.getpid(), signal.SIGSTOP)
elif what == "polite":  # answers the question whether it keeps up, as most toolkits do
    made = window(b"polite")
    x.XInternAtom.restype = ctypes.c_ulong
    ping = x.XInternAtom(display, b"_NET_WM_PING", 0)
    close = x.XInternAtom(display, b"WM_DELETE_WINDOW", 0)  # which it never does
    x.XSetWMProtocols(display, made, (ctypes.c_ulong * 2)(ping, close), 2)
    x.XSelectInput(display, made, ctypes.c_long(1))
    event = (ctypes.c_ulong * 24)()
    print("ready", flush=True)
    while True:
        x.XNextEvent(display, event)
        kind = event[0] & 0xFFFFFFFF
        if kind == 2:
            print("key", flush=True)
        if kind == 33 and event[7] == ping:
            event[4] = root.value
            x.XSendEvent(display, root, 0, ctypes.c_long(0x180000), event)
elif what == "much memory":
    x.XCreatePixmap.restype = ctypes.c_ulong
    while True:  # kept by the server, not by this program
        made = x.XCreatePixmap(display, root, 4000, 4000, 24)
        x.XCreateGC.restype = ctypes.c_void_p
        gc = ctypes.c_void_p(x.XCreateGC(display, ctypes.c_ulong(made), 0, None))
        x.XFillRectangle(display, ctypes.c_ulong(made), gc, 0, 0, 4000, 4000)
        x.XSync(display, 0)
x.XSync(display, 0)
print("done", flush=True)
time.sleep(600)
