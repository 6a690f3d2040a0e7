"use strict";

// # wall, . mark, $ box, * box on a mark, @ player, + player on a mark
const LEVELS = [
  ["######", "#@$ .#", "######"],
  ["  #####", "###   #", "#.@$  #", "### $.#", "#.##$ #", "# # . ##", "#$ *$$.#", "#   .  #", "########"],
  ["########", "#      #", "# .**$@#", "#      #", "#####  #", "    ####"],
];
const MOVES = { up: [-1, 0], down: [1, 0], left: [0, -1], right: [0, 1] };
const KEYS = {
  ArrowUp: "up", ArrowDown: "down", ArrowLeft: "left", ArrowRight: "right",
  w: "up", s: "down", a: "left", d: "right",
};

function load(level) {
  const state = { walls: new Set(), marks: new Set(), boxes: new Set(), player: null, rows: 0, columns: 0, past: [] };
  LEVELS[level].forEach((line, row) => [...line].forEach((sign, column) => {
    const place = `${row},${column}`;
    if (sign === "#") state.walls.add(place);
    if (".*+".includes(sign)) state.marks.add(place);
    if ("$*".includes(sign)) state.boxes.add(place);
    if ("@+".includes(sign)) state.player = [row, column];
    state.rows = Math.max(state.rows, row + 1);
    state.columns = Math.max(state.columns, column + 1);
  }));
  return state;
}

function step([row, column], [down, right]) {
  return [row + down, column + right];
}

// The state after a move; the same object where nothing can move.
function move(state, direction) {
  const to = step(state.player, MOVES[direction]);
  const behind = step(to, MOVES[direction]).join(",");
  if (state.walls.has(to.join(","))) return state;
  const boxes = new Set(state.boxes);
  if (boxes.has(to.join(","))) {
    if (state.walls.has(behind) || boxes.has(behind)) return state;
    boxes.delete(to.join(","));
    boxes.add(behind);
  }
  return { ...state, boxes, player: to, past: [...state.past, state] };
}

function solved(state) {
  return [...state.boxes].every((place) => state.marks.has(place));
}

// What is inside the walls: everything the player could walk to if there were no boxes.
function inside(state) {
  const seen = new Set([state.player.join(",")]);
  const open = [state.player];
  while (open.length) {
    const place = open.pop();
    for (const direction of Object.values(MOVES)) {
      const to = step(place, direction);
      if (!state.walls.has(to.join(",")) && !seen.has(to.join(","))) {
        seen.add(to.join(","));
        open.push(to);
      }
    }
  }
  return seen;
}

let level = 0;
let state = load(level);

function draw() {
  const board = document.getElementById("board");
  const floor = inside(state);
  board.style.gridTemplateColumns = `repeat(${state.columns}, var(--tile))`;
  board.replaceChildren();
  for (let row = 0; row < state.rows; row += 1) {
    for (let column = 0; column < state.columns; column += 1) {
      const place = `${row},${column}`;
      const tile = document.createElement("div");
      if (state.walls.has(place)) tile.className = "wall";
      else if (floor.has(place)) tile.className = "floor";
      tile.classList.toggle("mark", state.marks.has(place));
      tile.classList.toggle("box", state.boxes.has(place));
      tile.classList.toggle("player", place === state.player.join(","));
      board.append(tile);
    }
  }
  const done = solved(state);
  const left = [...state.boxes].filter((place) => !state.marks.has(place)).length;
  const how = done ? "solved" : `${left} to go`;
  document.getElementById("status").textContent = `Level ${level + 1} of ${LEVELS.length}, ${state.past.length} moves, ${how}`;
  document.getElementById("next").hidden = !done || level + 1 === LEVELS.length;
}

function act(what) {
  if (what in MOVES) {
    if (!solved(state)) state = move(state, what);
  } else if (what === "undo") {
    state = state.past.at(-1) ?? state;
  } else if (what === "again") {
    state = load(level);
  } else if (what === "next" && solved(state) && level + 1 < LEVELS.length) {
    level += 1;
    state = load(level);
  }
  draw();
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
  const what = KEYS[key] ?? { u: "undo", r: "again", n: "next" }[key];
  if (what === undefined) return;
  event.preventDefault();
  act(what);
});
document.querySelectorAll("button").forEach((button) => {
  button.addEventListener("click", () => act(button.dataset.move ?? button.id));
});
draw();
