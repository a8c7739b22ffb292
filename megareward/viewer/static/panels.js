// The stage: the frame, the maps laid over it, and where a cell comes from.
const WORDS = {
  frame: ["Frame", "what the agent sees; amber corners: where its last action shows most"],
  direct: ["Direct control", "what the last action moved (Eq. 3)"],
  g: ["Control g", "what all actions so far reach (Eq. 10)"],
  true_direct: ["True direct", "cells that another last action would change"],
  true_g: ["True g", "discounted share of past actions that reach the cell (Eq. 9)"],
  sources: ["Sources", "which cells of the frame before explain a cell (Eq. 8)"],
};

function rampOf(stops) {
  const colours = new Uint8Array(256 * 3);
  for (let v = 0; v < 256; v++) {
    const place = (v / 255) * (stops.length - 1), i = Math.min(Math.floor(place), stops.length - 2);
    for (let c = 0; c < 3; c++) colours[v * 3 + c] = stops[i][c] + (place - i) * (stops[i + 1][c] - stops[i][c]);
  }
  return colours;
}
const STOPS = recordings[0].facts.ramps, stopsOf = name => (name.endsWith("direct") ? STOPS.direct : STOPS.g);
const RAMPS = { direct: rampOf(STOPS.direct), g: rampOf(STOPS.g) };
const rampFor = name => (name.endsWith("direct") ? RAMPS.direct : RAMPS.g);

const still = new OffscreenCanvas(1, 1), stillCtx = still.getContext("2d");
const faint = new Float32Array(256), counts = new Uint32Array(256);

/** How far each grey is from the frame's most common one, in [0, 1]; the root lifts faint shapes. */
function contrasts(frame) {
  counts.fill(0);
  for (const grey of frame) counts[grey]++;
  const ground = counts.indexOf(Math.max(...counts)), most = Math.max(ground, 255 - ground);
  for (let grey = 0; grey < 256; grey++) faint[grey] = Math.sqrt(Math.abs(grey - ground) / most);
  return faint;
}

/** Paint a frame, magnified; with `values` (a byte per cell) its cells are coloured by the ramp. */
function paint(ctx, width, height, { PX_H, PX_W, H, W }, frame, values, ramp) {
  if (still.width !== PX_W || still.height !== PX_H) still.width = PX_W, still.height = PX_H;
  const image = stillCtx.createImageData(PX_W, PX_H), out = image.data;
  const cellH = PX_H / H, cellW = PX_W / W, shares = values && contrasts(frame);
  for (let y = 0, p = 0; y < PX_H; y++) {
    const row = Math.floor(y / cellH) * W;
    for (let x = 0; x < PX_W; x++, p++) {
      const grey = frame[p];
      if (values) {
        const v = values[row + Math.floor(x / cellW)] * 3;
        // The ground keeps the cell's colour. Shapes lighten a dark cell and darken a light one.
        const light = ramp[v] + 2 * ramp[v + 1] + ramp[v + 2] > 560, share = shares[grey];
        for (let c = 0; c < 3; c++) {
          const base = ramp[v + c];
          out[p * 4 + c] = light ? base * (1 - .5 * share) : base + (255 - base) * .45 * share;
        }
      } else out[p * 4] = out[p * 4 + 1] = out[p * 4 + 2] = grey;
      out[p * 4 + 3] = 255;
    }
  }
  stillCtx.putImageData(image, 0, 0);
  ctx.imageSmoothingEnabled = false;
  ctx.drawImage(still, 0, 0, width, height);
}

function drawGrid(ctx, width, height, { H, W }) {
  ctx.strokeStyle = "#ffffff26";
  ctx.lineWidth = 1;
  ctx.beginPath();
  for (let i = 1; i < W; i++) ctx.moveTo((i * width) / W, 0), ctx.lineTo((i * width) / W, height);
  for (let i = 1; i < H; i++) ctx.moveTo(0, (i * height) / H), ctx.lineTo(width, (i * height) / H);
  ctx.stroke();
}

function boxOf(cell, width, height, { H, W }) {
  const w = width / W, h = height / H;
  return [(cell % W) * w, Math.floor(cell / W) * h, w, h];
}

function outline(ctx, cell, width, height, grid, dashed = false) {
  const [x, y, w, h] = boxOf(cell, width, height, grid);
  for (const [colour, line] of [["#000", 5], ["#fff", 2.5]]) {
    ctx.setLineDash(dashed && colour === "#fff" ? [5, 4] : []);
    ctx.strokeStyle = colour, ctx.lineWidth = line;
    ctx.strokeRect(x + 2, y + 2, w - 4, h - 4);
  }
  ctx.setLineDash([]);
}

/** Amber corners around the cell of most direct control, if it stands out: this is where the agent believes to be. */
function markAgent(ctx, step, width, height, recording) {
  const values = step.maps.direct;
  if (!values) return;
  const most = values.indexOf(Math.max(...values));
  if (recording.valueOf(step, "direct", most) < 2 / recording.HW) return;
  const [x, y, w, h] = boxOf(most, width, height, recording), arm = Math.min(w, h) * .28;
  for (const [ink, line] of [["#000c", 5], ["#ffb238", 2.5]]) {
    ctx.strokeStyle = ink, ctx.lineWidth = line, ctx.lineCap = "round";
    ctx.beginPath();
    for (const [cx, cy, sx, sy] of [[x + 3, y + 3, 1, 1], [x + w - 3, y + 3, -1, 1], [x + 3, y + h - 3, 1, -1], [x + w - 3, y + h - 3, -1, -1]])
      ctx.moveTo(cx + sx * arm, cy), ctx.lineTo(cx, cy), ctx.lineTo(cx, cy + sy * arm);
    ctx.stroke();
  }
}

/** A number in the lower corner of a cell, with a halo, so that it reads on any colour. */
function write(ctx, text, cell, width, height, grid) {
  const [x, y, w, h] = boxOf(cell, width, height, grid), size = Math.min(15, w * .3, h * .36);
  if (size < 8) return;
  ctx.font = `600 ${size}px system-ui, "DejaVu Sans", sans-serif`;
  ctx.textAlign = "right", ctx.textBaseline = "alphabetic", ctx.lineJoin = "round";
  ctx.strokeStyle = "#000c", ctx.lineWidth = 3.2, ctx.fillStyle = "#fff";
  ctx.strokeText(text, x + w - 5, y + h - 6);
  ctx.fillText(text, x + w - 5, y + h - 6);
}

function shortNumber(value) {
  if (value < .005) return "";
  if (value >= 9.95) return value.toFixed(0);
  if (value >= .995) return value.toFixed(1).replace(/\.0$/, "");
  return value.toFixed(2).replace(/^0/, "");
}

/** A bent arrow from one cell to another, as wide as the weight; a ring where both are one. */
function arrow(ctx, from, to, percent, width, height, grid) {
  const [fx, fy, w, h] = boxOf(from, width, height, grid), [tx, ty] = boxOf(to, width, height, grid), unit = Math.min(w, h);
  const line = 1.6 + (percent / 100) * unit * .12, head = 4 + line * 1.6;
  const [x0, y0, x1, y1] = [fx + w / 2, fy + h / 2, tx + w / 2, ty + h / 2];
  const length = Math.hypot(x1 - x0, y1 - y0) || 1, ux = (x1 - x0) / length, uy = (y1 - y0) / length;
  const [ex, ey] = [x1 - ux * unit * .3, y1 - uy * unit * .3]; // the tip, short of the ring
  const bend = Math.min(length * .14, 22), mx = (x0 + ex) / 2 - uy * bend, my = (y0 + ey) / 2 + ux * bend;
  const turn = Math.atan2(ey - my, ex - mx), wing = side => turn + side * .5;
  ctx.lineJoin = ctx.lineCap = "round";
  for (const [colour, extra] of [["#000c", 3], ["#fff", 0]]) {
    ctx.strokeStyle = ctx.fillStyle = colour;
    ctx.lineWidth = line + extra;
    ctx.beginPath();
    if (from === to) {
      ctx.arc(x0, y0, unit * .14, 0, 7), ctx.stroke();
      continue;
    }
    ctx.moveTo(x0, y0), ctx.quadraticCurveTo(mx, my, ex - Math.cos(turn) * head, ey - Math.sin(turn) * head);
    ctx.stroke();
    ctx.beginPath(), ctx.arc(x0, y0, line * .9 + extra / 2, 0, 7), ctx.fill();
    ctx.beginPath(), ctx.moveTo(ex, ey);
    for (const side of [-1, 1]) ctx.lineTo(ex - Math.cos(wing(side)) * head * 1.5, ey - Math.sin(wing(side)) * head * 1.5);
    ctx.closePath(), ctx.fill();
    if (extra) ctx.lineWidth = extra, ctx.stroke();
  }
}

/** Where the truth lies: a line around the cells whose byte in `values` is above 0. Dashed for g, so that both can be told
 * apart without colour. */
function drawTruth(ctx, width, height, { H, W, HW }, values, name) {
  const w = width / W, h = height / H, inset = name === "true_direct" ? 3 : 1.2;
  const inside = (y, x) => y >= 0 && y < H && x >= 0 && x < W && values[y * W + x] > 0;
  ctx.lineCap = "round";
  for (const [ink, line, dash] of [["#000d", 5.5, []], [inkOf(name), 2.8, name === "true_g" ? [6, 5] : []]]) {
    ctx.strokeStyle = ink, ctx.lineWidth = line, ctx.setLineDash(dash);
    ctx.beginPath();
    for (let cell = 0; cell < HW; cell++) {
      const y = Math.floor(cell / W), x = cell % W;
      if (!inside(y, x)) continue;
      const [up, down, left, right] = [inside(y - 1, x), inside(y + 1, x), inside(y, x - 1), inside(y, x + 1)];
      const [x0, x1] = [x * w + (left ? 0 : inset), (x + 1) * w - (right ? 0 : inset)];
      const [y0, y1] = [y * h + (up ? 0 : inset), (y + 1) * h - (down ? 0 : inset)];
      if (!up) ctx.moveTo(x0, y0), ctx.lineTo(x1, y0);
      if (!down) ctx.moveTo(x0, y1), ctx.lineTo(x1, y1);
      if (!left) ctx.moveTo(x0, y0), ctx.lineTo(x0, y1);
      if (!right) ctx.moveTo(x1, y0), ctx.lineTo(x1, y1);
    }
    ctx.stroke();
  }
  ctx.setLineDash([]);
}

/** The light end of a map's own ramp. */
const inkOf = name => `rgb(${stopsOf(name).at(-1)})`;

/** How well a learnt map agrees with the truth in this step, in words. */
function agreement(recording, step, name) {
  const truth = step.maps[`true_${name}`], sums = [0, 0], counts = [0, 0];
  for (let cell = 0; cell < recording.HW; cell++) {
    const side = truth[cell] > 0 ? 1 : 0;
    sums[side] += recording.valueOf(step, name, cell), counts[side]++;
  }
  if (!counts[1]) return "the truth: nothing is under control in this step";
  const mean = side => (counts[side] ? (sums[side] / counts[side]).toFixed(2) : "–");
  return `the line encloses the truth: mean inside ${mean(1)}, outside ${mean(0)}`;
}

class Panel {
  constructor(recording, name) {
    const title = WORDS[name][0], { PX_W, PX_H } = recording;
    this.text = recording.mapped ? WORDS[name][1] : WORDS[name][1].split(";")[0];
    this.name = name, this.recording = recording;
    this.figure = document.createElement("figure");
    this.figure.id = `panel-${name}${recording.suffix}`, this.figure.className = name;
    this.figure.innerHTML = `<canvas role="img" aria-label="${title}: ${this.text}"></canvas>
      <figcaption><b>${title}</b><span class="scale"></span><small>${this.text}</small></figcaption>`;
    this.canvas = this.figure.querySelector("canvas");
    this.canvas.style.aspectRatio = `${PX_W} / ${PX_H}`;
    this.words = this.figure.querySelector("small");
    if (name !== "frame") this.legend();
  }

  legend() {
    const top = this.recording.facts.maps[this.name] ?? 1, scale = this.figure.querySelector(".scale");
    const last = this.name === "sources" ? "100%" : +top.toPrecision(2);
    scale.innerHTML = `0<i style="background:linear-gradient(90deg,${stopsOf(this.name).map(s => `rgb(${s})`)})"></i>${last}`;
  }

  /** The canvas in device pixels, drawn on in CSS pixels. */
  context() {
    const { width, height } = this.canvas.getBoundingClientRect(), sharp = window.devicePixelRatio || 1;
    const [w, h] = [Math.round(width * sharp), Math.round(height * sharp)];
    if (this.canvas.width !== w || this.canvas.height !== h) this.canvas.width = w, this.canvas.height = h;
    const ctx = this.canvas.getContext("2d");
    ctx.setTransform(sharp, 0, 0, sharp, 0, 0);
    return [ctx, width, height];
  }

  cellAt(event) {
    const box = this.canvas.getBoundingClientRect(), { H, W } = this.recording;
    const x = Math.floor(((event.clientX - box.left) / box.width) * W);
    const y = Math.floor(((event.clientY - box.top) / box.height) * H);
    return x >= 0 && x < W && y >= 0 && y < H ? y * W + x : null;
  }

  draw(step, cell, state) {
    const [ctx, width, height] = this.context(), { name, recording } = this;
    if (!width) return;
    if (name === "sources") return this.drawSources(ctx, width, height, step, cell, state);
    const values = step.maps[name];
    paint(ctx, width, height, recording, step.frame, values, values && rampFor(name));
    if (recording.mapped) drawGrid(ctx, width, height, recording);
    if (values && state.numbers) {
      for (let i = 0; i < recording.HW; i++)
        if (values[i]) write(ctx, shortNumber(recording.valueOf(step, name, i)), i, width, height, recording);
    }
    const laid = state.truth && recording.audited; // the truth, over the frame and over the maps that should show it
    if (name === "frame" && !laid) markAgent(ctx, step, width, height, recording);
    for (const truth of laid ? ["true_g", "true_direct"] : [])
      if (name === "frame" || truth === `true_${name}`) drawTruth(ctx, width, height, recording, step.maps[truth], truth);
    if (name === "frame") this.say(laid ? "what the agent sees; the lines enclose what it truly controls" : this.text);
    else if (`true_${name}` in step.maps) this.say(laid ? agreement(recording, step, name) : this.text);
    if (cell !== null) outline(ctx, cell, width, height, recording);
  }

  drawSources(ctx, width, height, step, cell, state) {
    const { recording } = this, { HW } = recording, values = new Uint8Array(HW);
    const sources = cell === null ? [] : recording.sourcesOf(step.relation, cell);
    for (const [from, percent] of sources) values[from] = percent * 2.55;
    paint(ctx, width, height, recording, step.before, values, RAMPS.g);
    drawGrid(ctx, width, height, recording);
    if (step.begins) return this.say("a game begins: nothing came before");
    if (cell === null) {
      for (let to = 0; to < HW; to++) {
        const [from, percent] = recording.sourcesOf(step.relation, to)[0] ?? [to, 0];
        if (from !== to && percent >= 15) arrow(ctx, from, to, percent, width, height, recording);
      }
      return this.say(`each cell's strongest source, if it is another cell; ${TOUCHED ? "tap" : "point at"} a cell for all`);
    }
    for (const [from, percent] of sources.slice(0, 6).reverse())
      if (percent >= 5) arrow(ctx, from, cell, percent, width, height, recording);
    outline(ctx, cell, width, height, recording, true);
    if (state.numbers)
      for (const [from, percent] of sources) if (percent >= 2) write(ctx, `${percent}%`, from, width, height, recording);
    this.say(`the frame before: which of its cells explain ${recording.nameOf(cell)} (Eq. 8)`);
  }

  say(text) {
    if (this.words.textContent !== text) this.words.textContent = text;
  }
}
