"""A program with a window, which tells what is done to it: a line of JSON each, on its output and in seen.jsonl.

Run by the system's Python on the desktop, with a title as its argument.
"""

import json
import sys
import tkinter as tk
from pathlib import Path

root = tk.Tk()
root.title(sys.argv[1] if len(sys.argv) > 1 else "Form")
root.geometry("600x400")
root.configure(background="#808080")


def tell(what: str, **more: object) -> None:
    line = json.dumps({"what": what, **more})
    print(line, flush=True)
    with Path("seen.jsonl").open("a", encoding="utf-8") as file:
        file.write(line + "\n")


def close() -> None:
    tell("closed")
    root.destroy()


field = tk.Entry(root)
field.place(x=20, y=20, width=400, height=30)
field.bind("<Control-Key-a>", lambda event: (field.select_range(0, "end"), "break")[1])
button = tk.Button(
    root, text="Save", background="#ff0000", activebackground="#ff0000", command=lambda: tell("saved", text=field.get())
)
button.place(x=20, y=70, width=120, height=50)
area = tk.Frame(root, background="#0000ff")
area.place(x=20, y=150, width=300, height=200)
hover = tk.Frame(root, background="#00ff00")
hover.place(x=400, y=150, width=100, height=100)
hover.bind("<Enter>", lambda event: tell("hovered"))
area.bind("<Button-1>", lambda event: tell("pressed", x=event.x, y=event.y, ctrl=bool(int(event.state) & 4)))
area.bind("<ButtonRelease-1>", lambda event: tell("let go", x=event.x, y=event.y))
area.bind("<Double-Button-1>", lambda event: tell("double"))
area.bind("<Button-3>", lambda event: tell("right"))
area.bind("<Button-4>", lambda event: tell("wheel", up=True))
area.bind("<Button-5>", lambda event: tell("wheel", up=False))
root.bind("<Control-Shift-Key-T>", lambda event: tell("chord"))
root.bind("<F5>", lambda event: tell("F5"))
root.bind("<KeyPress-F6>", lambda event: tell("F6 down"))
root.bind("<KeyRelease-F6>", lambda event: tell("F6 up"))
root.bind("<Next>", lambda event: tell("page down"))
root.protocol("WM_DELETE_WINDOW", close)
root.after(10, field.focus_set)
root.mainloop()
