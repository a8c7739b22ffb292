// State, controls and the loop.
const STEPS_PER_SECOND = 15; // what 60 Atari frames a second are at one decision in four
const state = { t: 0, playing: false, debt: 0, last: 0, hover: null, pinned: null, numbers: true, truth: false };
const TILES = {
  step: "agent decisions since the recording began",
  game: "number of the game",
  action: "what the agent did before this frame",
  score: "points of this game so far; hidden from the agent",
  reward: "growth of control in this step (Eq. 11)",
  control: "sum of g over all cells: how much is under control",
};
const sides = [];
const MAPPED = recordings.some(recording => recording.mapped), AUDITED = recordings.some(recording => recording.audited);

/** Cells are picked in the grid of the first game; another finds its own at the same place. */
const picked = () => state.hover ?? state.pinned;
const speed = () => Number($("speed").value);
let asked = false;
function redraw() {
  if (asked) return;
  asked = true;
  requestAnimationFrame(() => (asked = false, draw()));
}

function draw() {
  const steps = recordings.map(recording => recording.stepAt(state.t, redraw));
  if (!steps.every(Boolean)) return false;
  sides.forEach((side, i) => side.draw(steps[i]));
  tell();
  if (!document.body.dataset.ready) document.body.dataset.ready = Math.round(performance.now());
  document.body.dataset.shown = state.t;
  return true;
}

/** One game of the page: its panels, its step in numbers, its lanes. */
class Side {
  constructor(recording) {
    const { facts, suffix } = recording;
    this.recording = recording, this.numbers = {};
    const root = $("side").content.cloneNode(true).firstElementChild;
    $("sides").append(root);
    for (const name of ["stage", "tiles", "picked", "lanes"])
      this[name] = root.querySelector(`.${name}`), this[name].id = name + suffix;
    root.setAttribute("aria-label", aboutRun(facts));
    root.querySelector("h2").textContent = TWO ? aboutRun(facts) : "";
    this.panels = panelNames(recording).map(name => new Panel(recording, name));
    this.stage.append(...this.panels.map(panel => panel.figure));
    if (!TWO) this.stage.classList.add(recording.audited ? "audited" : this.panels.length === 1 ? "lonely" : "usual");
    const tiles = ["step", "game", "action", ...(facts.score ? ["score"] : []), ...(recording.mapped ? ["reward", "control"] : [])];
    this.tiles.innerHTML = tiles.map(name =>
      `<div class="${name}" title="${TILES[name]}"><dt>${name}</dt><dd id="tile-${name}${suffix}"></dd></div>`).join("");
    this.picked.hidden = !recording.mapped;
    this.plotted = lanesOf(recording);
    listenToLanes(this.lanes);
    for (const panel of this.panels) listenToPanel(panel);
  }

  draw(step) {
    const { recording } = this, cell = recording.mapped ? recording.cellLike(picked(), recordings[0]) : null;
    for (const panel of this.panels) panel.draw(step, cell, state);
    drawLanes(this.lanes, this.plotted, recording.traces, state.t);
    this.tell(step);
    if (recording.mapped) this.tellCell(step, cell);
  }

  /** The step in words and numbers: for readers, and for those who cannot see the pictures. */
  tell(step) {
    const t = state.t, { facts, traces, mapped, suffix } = this.recording;
    const action = step.begins ? "–" : facts.actions[traces.action[t]] ?? traces.action[t];
    this.numbers = { step: t, game: traces.game[t], action, ...(facts.score && { score: signed(traces.score[t]) }) };
    if (mapped) Object.assign(this.numbers, { reward: signed(traces.reward[t]), control: signed(traces.control[t]) });
    for (const [name, value] of Object.entries(this.numbers)) $(`tile-${name}${suffix}`).textContent = value;
    const lanes = this.plotted.filter(lane => lane.values).map(lane => `${lane.name} ${signed(lane.values[t])}`).join(", ");
    this.lanes.setAttribute("aria-label", `Around step ${t}: ${lanes}`);
  }

  tellCell(step, cell) {
    const { recording, picked: box } = this;
    box.setAttribute("aria-live", state.playing ? "off" : "polite");
    box.classList.toggle("empty", cell === null);
    if (cell === null) {
      box.innerHTML = `<span class="hint">${TOUCHED ? "Tap a cell to see where it comes from; tap it again to let go."
        : TWO ? "Point at a cell to see where it comes from; click to keep it."
        : "Point at a cell (or press W A S D) to see where it comes from; click to keep it."}</span>`;
      return;
    }
    const chip = (inner, kind = "") => `<span class="chip ${kind}">${inner}</span>`;
    const parts = [chip(`<b>${recording.nameOf(cell)}</b>${state.pinned === picked() ? " (kept)" : ""}`)];
    for (const name of recording.maps)
      parts.push(chip(`${WORDS[name][0].toLowerCase()} <b>${recording.valueOf(step, name, cell).toFixed(2)}</b>`));
    if (step.begins) parts.push(chip("a game begins: no sources", "hint"));
    else if (step.relation) {
      parts.push(chip("comes from", "hint"));
      for (const [from, percent] of recording.sourcesOf(step.relation, cell).slice(0, 4))
        parts.push(chip(`<span class="bar" style="width:${Math.max(3, percent * .5)}px"></span>${from === cell ? "itself" : recording.shortNameOf(from)} <b>${percent}%</b>`));
    }
    box.innerHTML = parts.join("");
  }
}

const aboutRun = facts => `${facts.method}, seed ${facts.seed}, trained for ${facts.trained} frames`;

/** Alone, a game is shown with all its maps; beside another one with those that fit, the truth as an overlay. */
function panelNames({ audited, facts }) {
  const order = TWO ? ["frame", "direct", "g"] : audited ? ["frame", "sources", "direct", "true_direct", "g", "true_g"]
    : ["frame", "direct", "g", "sources"];
  return order.filter(name => name === "frame" || name in facts.maps || (name === "sources" && facts.relation));
}

/** What belongs to all games: the clock. */
function tell() {
  const t = state.t, { game } = recordings[0].traces;
  $("slider").value = t;
  $("slider").setAttribute("aria-valuetext", sides.map(({ numbers, recording }) => (TWO ? `${recording.facts.method}: ` : "")
    + Object.entries(numbers).map(([k, v]) => `${k} ${v}`).join(", ")).join("; "));
  $("clock").textContent = `step ${t} of ${T - 1}` + (TWO ? "" : `, game ${game[t]} of ${game[T - 1]}`);
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
    const there = recordings.every(recording => recording.chunkOf(next, redraw) && recording.chunkOf(next - 1, redraw));
    if (there) state.t = next, draw(); // else wait for it
    state.debt -= whole;
    if (state.t === T - 1) return play(false);
  }
  requestAnimationFrame(tick);
}

function jump(way) {
  const events = recordings.flatMap(recording => recording.traces.events).filter(t => (t - state.t) * way > 0 && t < T);
  const found = events.length ? (way > 0 ? Math.min(...events) : Math.max(...events)) : null;
  go(found ?? (way > 0 ? T - 1 : 0));
  remember();
}

function changeSpeed(way) {
  const select = $("speed");
  select.selectedIndex = Math.max(0, Math.min(select.options.length - 1, select.selectedIndex + way));
}

/** Step, cell and truth live in the address, so that a link shows the same moment. */
function remember() {
  const cell = state.pinned === null ? "" : `&cell=${state.pinned}`;
  history.replaceState(null, "", `#t=${state.t}${cell}${state.truth ? "&truth=1" : ""}`);
}

function recall() {
  const words = new URLSearchParams(location.hash.slice(1));
  const cell = Number(words.get("cell") ?? -1);
  if (MAPPED && cell >= 0 && cell < recordings[0].HW) state.pinned = cell;
  showTruth(AUDITED && words.get("truth") === "1");
  const opening = TWO ? 0 : recordings[0].facts.best; // two games begin together
  state.t = Math.max(0, Math.min(T - 1, Number(words.get("t") ?? opening) || 0));
  return words.has("t");
}

// Controls --------------------------------------------------------------------------------------------------------

function pin(cell) {
  state.pinned = state.pinned === cell ? null : cell;
  redraw(), remember();
}

function showTruth(on) {
  state.truth = on;
  document.body.classList.toggle("truth", on);
  $("truth").setAttribute("aria-pressed", on);
  $("key").hidden = !on;
}

function walk(dy, dx) {
  const cell = picked(), { H, W } = recordings[0];
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
  o: () => AUDITED && $("truth").click(),
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
  $("truth").onclick = () => (showTruth(!state.truth), redraw(), remember());
  $("theme").onclick = () => (document.documentElement.classList.toggle("dark"), drawOverview(), redraw());
  $("help").onclick = () => $("keys").showModal();
  window.addEventListener("resize", () => (drawOverview(), redraw()));
  window.addEventListener("hashchange", () => (recall() && play(false), redraw()));
}

function listenToLanes(lanes) {
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
  if (!panel.recording.mapped) return;
  const { canvas } = panel, cellAt = event => recordings[0].cellLike(panel.cellAt(event), panel.recording);
  canvas.onpointermove = event => event.pointerType === "mouse" && ((state.hover = cellAt(event)), redraw());
  canvas.onpointerleave = () => ((state.hover = null), redraw());
  canvas.onclick = event => pin(cellAt(event));
}

const ABOUT_LANES = "Reward: growth of control in this step (Eq. 11). Control: the sum of g over all cells. On the right, the scale. ";
const ABOUT_TRIANGLES = "Triangles are points won or lost; the game's score is shown to you, never to the agent.";

function build() {
  const { facts } = recordings[0];
  document.body.classList.toggle("two", TWO);
  for (const recording of recordings) sides.push(new Side(recording));
  $("title").textContent = facts.game;
  $("subtitle").textContent = TWO ? `two games under one clock, ${T} steps; both rows of curves have the same scales`
    : `${aboutRun(facts)}; ${T} steps recorded${MAPPED ? "" : ". This method keeps no control maps"}`;
  $("slider").max = T - 1;
  const about = TWO ? `Amber corners: where the last action shows most. ${WORDS.direct[0]}: ${WORDS.direct[1]}. ${WORDS.g[0]}: ${WORDS.g[1]}. ` : "";
  const scored = recordings.some(recording => recording.facts.score);
  $("caption").textContent = (MAPPED ? about + ABOUT_LANES : "") + (scored ? ABOUT_TRIANGLES : "");
  const line = (name, words) => `<span><i style="border: 2.5px ${name === "true_g" ? "dashed" : "solid"} ${inkOf(name)}"></i>${words}</span>`;
  $("key").innerHTML = "<b>The truth, found by branching the game:</b>"
    + line("true_direct", "cells that another last action would change")
    + line("true_g", "cells that any action followed by the audit still changes (Eq. 9)");
  $("numbers").hidden = !MAPPED, $("truth").hidden = $("key-truth").hidden = !AUDITED;
}

async function open() {
  if (matchMedia("(prefers-color-scheme: dark)").matches) document.documentElement.classList.add("dark");
  if (typeof DecompressionStream === "undefined") throw new Error("This browser cannot unpack the recording; use one from 2023 or later.");
  await Promise.all(recordings.map(recording => recording.readTraces()));
  build();
  const asked = recall();
  listen(), drawOverview(), draw();
  if (!asked && !matchMedia("(prefers-reduced-motion: reduce)").matches) play(true); // at the moment worth seeing
}

open().catch(why => {
  $("sides").innerHTML = '<p class="failure"></p>';
  $("sides").firstChild.textContent = why.message;
  throw why;
});
