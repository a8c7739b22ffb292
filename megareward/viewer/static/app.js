// State, controls and the loop.
const STEPS_PER_SECOND = 15; // what 60 Atari frames a second are at one decision in four
const state = { t: 0, playing: false, debt: 0, last: 0, hover: null, pinned: null, numbers: true };
const panels = [];
const TOUCHED = matchMedia("(pointer: coarse)").matches;
const TILES = {
  step: "agent decisions since the recording began",
  game: "number of the game",
  action: "what the agent did before this frame",
  score: "points of this game so far; hidden from the agent",
  reward: "growth of control in this step (Eq. 11)",
  control: "sum of g over all cells: how much is under control",
};
let traces = null;

const picked = () => state.hover ?? state.pinned;
const speed = () => Number($("speed").value);
let asked = false;
function redraw() {
  if (asked) return;
  asked = true;
  requestAnimationFrame(() => (asked = false, draw()));
}

function draw() {
  const step = stepAt(state.t, redraw);
  if (!step) return false;
  const cell = MAPPED ? picked() : null;
  for (const panel of panels) panel.draw(step, cell, state);
  drawLanes(state.t);
  tell(step, cell);
  if (!document.body.dataset.ready) document.body.dataset.ready = Math.round(performance.now());
  document.body.dataset.shown = state.t;
  return true;
}

/** The step in words and numbers: for readers, and for those who cannot see the pictures. */
function tell(step, cell) {
  const t = state.t, game = traces.game[t], begins = traces.first[t] || t === 0;
  const action = begins ? "–" : facts.actions[traces.action[t]] ?? traces.action[t];
  const tiles = { step: t, game, action, ...(facts.score && { score: signed(traces.score[t]) }) };
  if (MAPPED) Object.assign(tiles, { reward: signed(traces.reward[t]), control: signed(traces.control[t]) });
  for (const [name, value] of Object.entries(tiles)) $(`tile-${name}`).textContent = value;
  $("slider").value = t;
  $("slider").setAttribute("aria-valuetext", Object.entries(tiles).map(([k, v]) => `${k} ${v}`).join(", "));
  $("clock").textContent = `step ${t} of ${T - 1}, game ${game} of ${traces.game[T - 1]}`;
  $("lanes").setAttribute("aria-label", `Around step ${t}: ${LANES.map(l => `${l.name} ${signed(l.values[t])}`).join(", ")}`);
  if (MAPPED) tellCell(step, cell, begins);
}

function tellCell(step, cell, begins) {
  const box = $("picked");
  box.setAttribute("aria-live", state.playing ? "off" : "polite");
  if (cell === null) {
    box.innerHTML = `<span class="hint">${TOUCHED ? "Tap a cell to see where it comes from; tap it again to let go."
      : "Point at a cell (or press W A S D) to see where it comes from; click to keep it."}</span>`;
    return;
  }
  const chip = (inner, kind = "") => `<span class="chip ${kind}">${inner}</span>`;
  const parts = [chip(`<b>${nameOf(cell)}</b>${state.pinned === cell ? " (kept)" : ""}`)];
  for (const name of MAPS)
    parts.push(chip(`${WORDS[name][0].toLowerCase()} <b>${(step.maps[name][cell] * facts.maps[name] / 255).toFixed(2)}</b>`));
  if (begins) parts.push(chip("a game begins: no sources", "hint"));
  else if (step.relation) {
    parts.push(chip("comes from", "hint"));
    for (const [from, percent] of sourcesOf(step.relation, cell).slice(0, 4))
      parts.push(chip(`<span class="bar" style="width:${Math.max(3, percent * .5)}px"></span>${from === cell ? "itself" : shortNameOf(from)} <b>${percent}%</b>`));
  }
  box.innerHTML = parts.join("");
}

// Moving through time ---------------------------------------------------------------------------------------------

function go(t) {
  state.t = Math.max(0, Math.min(T - 1, Math.round(t)));
  redraw();
}

function play(on) {
  if (on && state.t === T - 1) state.t = 0;
  state.playing = on, state.debt = 0, state.last = performance.now();
  $("play").querySelector("path").setAttribute("d", on ? "M6 4h4v16H6zM14 4h4v16h-4z" : "M7 4v16l13-8z");
  $("play").querySelector("span").textContent = on ? "Pause" : "Play";
  $("play").setAttribute("aria-label", on ? "Pause" : "Play");
  document.body.dataset.playing = on;
  if (on) requestAnimationFrame(tick);
  else redraw(), remember();
}

function tick(now) {
  if (!state.playing) return;
  state.debt += ((now - state.last) / 1000) * STEPS_PER_SECOND * speed();
  state.last = now;
  const whole = Math.floor(state.debt);
  if (whole >= 1) {
    const next = Math.min(T - 1, state.t + whole);
    if (chunkOf(next, redraw) && chunkOf(next - 1, redraw)) state.t = next, draw(); // else wait for it
    state.debt -= whole;
    if (state.t === T - 1) return play(false);
  }
  requestAnimationFrame(tick);
}

function jump(way) {
  const { events } = traces;
  const found = way > 0 ? events.find(t => t > state.t) : events.findLast(t => t < state.t);
  go(found ?? (way > 0 ? T - 1 : 0));
  remember();
}

function changeSpeed(way) {
  const select = $("speed");
  select.selectedIndex = Math.max(0, Math.min(select.options.length - 1, select.selectedIndex + way));
}

/** Step and cell live in the address, so that a link shows the same moment. */
function remember() {
  const cell = state.pinned === null ? "" : `&cell=${state.pinned}`;
  history.replaceState(null, "", `#t=${state.t}${cell}`);
}

function recall() {
  const words = new URLSearchParams(location.hash.slice(1));
  const cell = Number(words.get("cell") ?? -1);
  if (MAPPED && cell >= 0 && cell < HW) state.pinned = cell;
  state.t = Math.max(0, Math.min(T - 1, Number(words.get("t") ?? facts.best) || 0));
  return words.has("t");
}

// Controls --------------------------------------------------------------------------------------------------------

function pin(cell) {
  state.pinned = state.pinned === cell ? null : cell;
  redraw(), remember();
}

function walk(dy, dx) {
  const cell = picked();
  if (cell === null) state.pinned = Math.floor(H / 2) * W + Math.floor(W / 2);
  else {
    const y = Math.max(0, Math.min(H - 1, Math.floor(cell / W) + dy)), x = Math.max(0, Math.min(W - 1, (cell % W) + dx));
    state.pinned = y * W + x;
  }
  state.hover = null;
  redraw(), remember();
}

const KEYS = {
  " ": () => play(!state.playing),
  ArrowLeft: e => (play(false), go(state.t - (e.shiftKey ? 10 : 1)), remember()),
  ArrowRight: e => (play(false), go(state.t + (e.shiftKey ? 10 : 1)), remember()),
  ArrowUp: () => changeSpeed(1),
  ArrowDown: () => changeSpeed(-1),
  Home: () => (go(0), remember()),
  End: () => (go(T - 1), remember()),
  n: () => jump(1),
  p: () => jump(-1),
  w: () => MAPPED && walk(-1, 0),
  s: () => MAPPED && walk(1, 0),
  a: () => MAPPED && walk(0, -1),
  d: () => MAPPED && walk(0, 1),
  Escape: () => ((state.pinned = state.hover = null), redraw(), remember()),
  v: () => $("numbers").click(),
  t: () => $("theme").click(),
  f: () => (document.fullscreenElement ? document.exitFullscreen() : document.documentElement.requestFullscreen()),
  "?": () => $("keys").showModal(),
};

function listen() {
  document.addEventListener("keydown", event => {
    if (event.ctrlKey || event.metaKey || event.altKey || $("keys").open) return;
    if (event.target.matches("select") && event.key !== " ") return;
    if (event.key === " " && event.target.matches("button")) return; // a button's own key
    const act = KEYS[event.key.length === 1 ? event.key.toLowerCase() : event.key];
    if (act) event.preventDefault(), act(event);
  });
  $("play").onclick = () => play(!state.playing);
  $("back").onclick = () => KEYS.ArrowLeft({});
  $("forward").onclick = () => KEYS.ArrowRight({});
  $("event-back").onclick = () => jump(-1);
  $("event-next").onclick = () => jump(1);
  $("speed").onchange = event => event.target.blur(); // so that the arrow keys move through time again
  $("slider").oninput = event => (play(false), go(Number(event.target.value)));
  $("slider").onchange = remember;
  $("numbers").onclick = () => ((state.numbers = !state.numbers), $("numbers").setAttribute("aria-pressed", state.numbers), redraw());
  $("theme").onclick = () => (document.documentElement.classList.toggle("dark"), drawOverview(), redraw());
  $("help").onclick = () => $("keys").showModal();
  window.addEventListener("resize", () => (drawOverview(), redraw()));
  window.addEventListener("hashchange", () => (recall() && play(false), redraw()));
  listenToLanes();
  for (const panel of panels) listenToPanel(panel);
}

function listenToLanes() {
  const lanes = $("lanes");
  const drag = event => (play(false), go(stepUnder(event, lanes)));
  lanes.onpointerdown = event => (lanes.setPointerCapture(event.pointerId), drag(event));
  lanes.onpointermove = event => {
    if (lanes.hasPointerCapture(event.pointerId)) drag(event);
    view.hover = event.pointerType === "mouse" ? stepUnder(event, lanes) : null;
    redraw();
  };
  lanes.onpointerleave = () => ((view.hover = null), redraw());
  lanes.onpointerup = remember;
  lanes.addEventListener("wheel", event => {
    event.preventDefault();
    const span = Math.round(Math.max(Math.min(T, 40), Math.min(T, 2000, view.span * (event.deltaY > 0 ? 1.25 : .8))));
    view.start += Math.round((state.t - view.start) * (1 - span / view.span)); // the current step stays where it is
    view.span = span;
    redraw();
  }, { passive: false });
}

function listenToPanel(panel) {
  if (!MAPPED) return;
  const { canvas } = panel;
  canvas.onpointermove = event => event.pointerType === "mouse" && ((state.hover = panel.cellAt(event)), redraw());
  canvas.onpointerleave = () => ((state.hover = null), redraw());
  canvas.onclick = event => pin(panel.cellAt(event));
}

function build() {
  const audited = "true_direct" in facts.maps;
  const order = audited ? ["frame", "sources", "direct", "true_direct", "g", "true_g"] : ["frame", "direct", "g", "sources"];
  const names = order.filter(name => name === "frame" || name in facts.maps || (name === "sources" && facts.relation));
  for (const name of names) panels.push(new Panel(name)), $("stage").append(panels.at(-1).figure);
  $("stage").className = audited ? "audited" : names.length === 1 ? "lonely" : "";
  $("title").textContent = facts.game;
  $("subtitle").textContent = `${facts.method}, seed ${facts.seed}, trained for ${facts.trained} frames; ${T} steps recorded`
    + (MAPPED ? "" : ". This method keeps no control maps");
  $("slider").max = T - 1;
  const tiles = ["step", "game", "action", ...(facts.score ? ["score"] : []), ...(MAPPED ? ["reward", "control"] : [])];
  $("tiles").innerHTML = tiles.map(name => `<div title="${TILES[name]}"><dt>${name}</dt><dd id="tile-${name}"></dd></div>`).join("");
  $("caption").textContent = MAPPED ? "Reward: growth of control in this step (Eq. 11). Control: the sum of g over all cells. "
    + "Triangles are points won or lost; the game's score is shown to you, never to the agent." : "Triangles are points won or lost.";
  $("picked").hidden = $("numbers").hidden = !MAPPED;
}

async function open() {
  if (matchMedia("(prefers-color-scheme: dark)").matches) document.documentElement.classList.add("dark");
  if (typeof DecompressionStream === "undefined") throw new Error("This browser cannot unpack the recording; use one from 2023 or later.");
  traces = await readTraces();
  build();
  const asked = recall();
  listen(), drawOverview(), draw();
  if (!asked && !matchMedia("(prefers-reduced-motion: reduce)").matches) play(true); // at the moment worth seeing
}

open().catch(why => {
  $("stage").innerHTML = '<p class="failure"></p>';
  $("stage").firstChild.textContent = why.message;
  throw why;
});
