// The time line: a few lanes around the current step under each game, and the whole recording under the slider.
const FOOT = 14; // below the lanes: the names of games
const view = { start: 0, span: Math.min(T, 240), hover: null };

function sized(canvas) {
  const { width, height } = canvas.getBoundingClientRect(), sharp = window.devicePixelRatio || 1;
  canvas.width = Math.round(width * sharp), canvas.height = Math.round(height * sharp);
  const ctx = canvas.getContext("2d");
  ctx.scale(sharp, sharp);
  return [ctx, width, height];
}

const colour = name => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

/** From the lowest to the highest value and 0; a few spikes of bars may leave the lane, so that the rest can be read. */
function limits(values, kind) {
  const sorted = Float32Array.from(values).sort(), last = sorted.length - 1;
  const low = Math.min(0, sorted[kind === "bars" ? Math.floor(last * .004) : 0]);
  const high = Math.max(0, sorted[kind === "bars" ? Math.ceil(last * .996) : last]);
  return high > low ? [low, high] : [low, low + 1];
}

const KINDS = [
  { name: "mega-reward", trace: "reward", ink: "amber", kind: "bars", shown: recording => recording.mapped },
  { name: "control, the sum of g", trace: "control", ink: "teal", kind: "line", shown: recording => recording.mapped },
  { name: "score", trace: "score", ink: "ink", kind: "steps", shown: recording => recording.facts.score },
];

/** The lanes of a recording; `values` is null where only the game beside it has such a lane. Games share their scales. */
function lanesOf(recording) {
  return KINDS.filter(lane => recordings.some(lane.shown)).map(lane => {
    const every = recordings.filter(lane.shown).flatMap(other => [...other.traces[lane.trace].subarray(0, T)]);
    return { ...lane, values: lane.shown(recording) ? recording.traces[lane.trace] : null, range: limits(every, lane.kind) };
  });
}

/** Keep t inside the window: a page turns when playing leaves it. */
function follow(t) {
  const margin = view.span * .04;
  if (t > view.start + view.span - 1 - margin) view.start = t - view.span * .15;
  if (t < view.start + margin) view.start = t - view.span * .85;
  view.start = Math.round(Math.max(0, Math.min(view.start, T - view.span)));
}

const xOf = (t, width) => ((t - view.start + .5) / view.span) * width;
const stepUnder = (event, canvas) => {
  const box = canvas.getBoundingClientRect();
  const t = view.start + Math.floor(((event.clientX - box.left) / box.width) * view.span);
  return Math.max(0, Math.min(T - 1, t));
};

function drawLanes(canvas, lanes, traces, t) {
  follow(t);
  const [ctx, width, height] = sized(canvas);
  const each = (height - FOOT) / lanes.length, from = Math.max(0, view.start), to = Math.min(T, view.start + view.span);
  const faint = colour("faint"), line = colour("line");
  ctx.font = '12px system-ui, "DejaVu Sans", sans-serif';
  lanes.forEach((lane, i) => {
    if (!lane.values) return (ctx.fillStyle = faint, ctx.fillText(`${lane.name}: not kept by this method`, 2, i * each + 12));
    const top = i * each + 17, bottom = (i + 1) * each - 4, [low, high] = lane.range;
    const y = v => bottom - ((v - low) / (high - low)) * (bottom - top);
    ctx.strokeStyle = line, ctx.lineWidth = 1;
    ctx.beginPath(), ctx.moveTo(0, y(0) + .5), ctx.lineTo(width, y(0) + .5), ctx.stroke();
    ctx.fillStyle = ctx.strokeStyle = colour(lane.ink);
    ctx.save(), ctx.beginPath(), ctx.rect(0, i * each + 1, width, each - 1), ctx.clip();
    plot(ctx, lane, traces, from, to, width, y);
    ctx.restore();
  });
  drawBegins(ctx, traces, from, to, width, height, faint);
  const x = xOf(t, width);
  ctx.strokeStyle = colour("accent"), ctx.lineWidth = 2;
  ctx.beginPath(), ctx.moveTo(x, 0), ctx.lineTo(x, height), ctx.stroke();
  lanes.forEach((lane, i) => lane.values && nameLane(ctx, lane, t, width, i * each + 12, (i + 1) * each - 4));
  if (view.hover !== null) drawHover(ctx, lanes, width, height, each);
}

/** What a lane is and its value at step t; on the right its scale: the highest value and, below 0, the lowest. */
function nameLane(ctx, { name, values, range: [low, high] }, t, width, top, bottom) {
  const faint = colour("faint"), highest = signed(+high.toPrecision(3)), lowest = signed(+low.toPrecision(3));
  const after = label(ctx, `${name}  `, 2, top, faint);
  label(ctx, signed(values[t]), after, top, colour("ink"));
  label(ctx, highest, width - 2 - ctx.measureText(highest).width, top, faint);
  if (low < 0) label(ctx, lowest, width - 2 - ctx.measureText(lowest).width, bottom, faint);
}

/** The numbers of the step that is pointed at, one beside each lane. */
function drawHover(ctx, lanes, width, height, each) {
  const x = xOf(view.hover, width), left = x > width - 150;
  ctx.strokeStyle = colour("faint"), ctx.lineWidth = 1;
  ctx.beginPath(), ctx.moveTo(x, 0), ctx.lineTo(x, height), ctx.stroke();
  lanes.forEach((lane, i) => {
    if (!lane.values) return;
    const text = signed(lane.values[view.hover]) + (i ? "" : ` at step ${view.hover}`);
    const wide = ctx.measureText(text).width, from = left ? x - wide - 8 : x + 8, y = i * each + each / 2 + 4;
    ctx.fillStyle = colour("card"), ctx.fillRect(from - 3, y - 12, wide + 6, 16);
    ctx.textAlign = "left", ctx.fillStyle = colour("ink"), ctx.fillText(text, from, y);
  });
  document.body.dataset.pointed = view.hover;
}

function plot(ctx, lane, traces, from, to, width, y) {
  const values = lane.values, step = width / view.span;
  if (lane.kind === "bars") {
    for (let t = from; t < to; t++)
      ctx.fillRect(xOf(t, width) - step * .4, Math.min(y(values[t]), y(0)), Math.max(step * .8, 1), Math.abs(y(values[t]) - y(0)));
    return;
  }
  ctx.lineWidth = 1.8;
  ctx.beginPath();
  let begun = false;
  for (let t = from; t < to; t++) {
    const x = xOf(t, width), fresh = traces.first[t] || !begun;
    if (fresh) ctx.moveTo(x, y(values[t]));
    else if (lane.kind === "steps") ctx.lineTo(x, y(values[t - 1])), ctx.lineTo(x, y(values[t]));
    else ctx.lineTo(x, y(values[t]));
    begun = true;
  }
  ctx.stroke();
  if (lane.kind !== "steps") return;
  for (const t of traces.events) {
    if (t < from || t >= to || traces.first[t]) continue;
    const up = values[t] > values[t - 1] ? 1 : -1, x = xOf(t, width), tip = y(values[t]);
    ctx.beginPath(); // won points up, lost points down: a shape, not only a place
    ctx.moveTo(x, tip - 5 * up), ctx.lineTo(x - 4.5, tip + 3 * up), ctx.lineTo(x + 4.5, tip + 3 * up);
    ctx.fill();
  }
}

/** Text that stays legible over curves. Returns where it ends. */
function label(ctx, text, x, y, ink) {
  const wide = ctx.measureText(text).width;
  ctx.textAlign = "left", ctx.textBaseline = "alphabetic";
  ctx.fillStyle = colour("card"), ctx.globalAlpha = .8;
  ctx.fillRect(x - 2, y - 11, wide + 4, 14);
  ctx.globalAlpha = 1;
  ctx.fillStyle = ink, ctx.fillText(text, x, y);
  return x + wide;
}

function drawBegins(ctx, traces, from, to, width, height, faint) {
  ctx.setLineDash([3, 4]);
  ctx.strokeStyle = ctx.fillStyle = faint, ctx.lineWidth = 1;
  for (let t = from; t < to; t++) {
    if (!traces.first[t] || t === 0) continue;
    const x = xOf(t, width) - (width / view.span) / 2;
    ctx.beginPath(), ctx.moveTo(x, 0), ctx.lineTo(x, height), ctx.stroke();
    if (x < width - 50) ctx.fillText(`game ${traces.game[t]}`, x + 5, height - 3);
  }
  ctx.setLineDash([]);
}

/** The whole recording: bright where much was earned, a triangle for every point, a bar where a game begins. Games beside
 * each other have a band each. */
function drawOverview() {
  const [ctx, width, whole] = sized($("overview"));
  ctx.fillStyle = colour("paper"), ctx.fillRect(0, 0, width, whole);
  const height = whole / recordings.length;
  for (const recording of recordings) drawBand(ctx, recording, width, height), ctx.translate(0, height);
}

function drawBand(ctx, { traces, mapped }, width, height) {
  const columns = Math.max(1, Math.min(Math.floor(width / 2), T)), most = new Float32Array(columns);
  for (let t = 0; t < T && mapped; t++) {
    const c = Math.floor((t / T) * columns);
    most[c] = Math.max(most[c], Math.abs(traces.reward[t]));
  }
  const high = Math.max(...most) || 1, events = traces.events.filter(t => t < T), tip = Math.min(5, height / 4);
  ctx.fillStyle = colour("amber");
  most.forEach((v, c) => {
    const tall = Math.sqrt(v / high) * (height - 2.4 * tip);
    ctx.fillRect((c / columns) * width, height - tall, width / columns - .4, tall);
  });
  ctx.fillStyle = ctx.strokeStyle = colour("ink");
  const crowded = events.length > width / 6; // then only where games begin
  for (const t of events) {
    const x = ((t + .5) / T) * width;
    if (traces.first[t]) ctx.fillRect(x - .75, 0, 1.5, height);
    if (traces.first[t] || crowded) continue;
    const up = traces.score[t] > traces.score[t - 1] ? 1 : -1;
    ctx.beginPath(), ctx.moveTo(x, tip - 4 * up), ctx.lineTo(x - 3.5, tip + 3 * up), ctx.lineTo(x + 3.5, tip + 3 * up), ctx.fill();
  }
}

function signed(value) {
  const text = Number.isInteger(value) ? `${Math.abs(value)}` : Math.abs(value).toFixed(2);
  return value < 0 && !/^0(\.0+)?$/.test(text) ? `−${text}` : text;
}
