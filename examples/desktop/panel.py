"""A panel with four fields of colour, in another order each time; it says which one was pressed. Of the example."""

import random
import tkinter as tk
from functools import partial

COLOURS = {"red": "#ff0000", "green": "#00ff00", "blue": "#0000ff", "yellow": "#ffff00"}

root = tk.Tk()
root.title("Panel")
root.geometry("480x360")
pressed: list[str] = []


def press(name: str, event: object) -> None:
    pressed.append(name)
    root.title("Panel: " + " ".join(pressed))
    print(name, flush=True)


for number, name in enumerate(random.sample(list(COLOURS), k=len(COLOURS))):
    field = tk.Frame(root, background=COLOURS[name])
    field.place(relx=number % 2 / 2, rely=number // 2 / 2, relwidth=0.5, relheight=0.5)
    field.bind("<Button-1>", partial(press, name))
root.mainloop()
