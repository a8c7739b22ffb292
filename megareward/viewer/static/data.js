// The recording, unpacked on demand. Layout: see page.py.
const $ = id => document.getElementById(id);
const facts = JSON.parse($("facts").textContent);
const T = facts.steps, [PX_H, PX_W] = facts.size, [H, W] = facts.grid, HW = H * W;
const MAPS = Object.keys(facts.maps), MAPPED = MAPS.length > 0; // an oracle has maps and no relation
const KEPT = 12; // unpacked chunks in memory: enough for a few seconds at the highest speed

async function unpack(id) {
  const text = atob($(id).textContent);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

async function readTraces() {
  const bytes = await unpack("traces");
  const floats = new Float32Array(bytes.buffer, 0, 3 * T);
  const [score, reward, control] = [0, 1, 2].map(i => floats.subarray(i * T, (i + 1) * T));
  const action = bytes.subarray(12 * T, 13 * T), first = bytes.subarray(13 * T, 14 * T);
  const game = new Uint16Array(T);
  for (let t = 0, n = 0; t < T; t++) game[t] = n += first[t] || t === 0 ? 1 : 0;
  const events = [];
  for (let t = 1; t < T; t++) if (first[t] || score[t] !== score[t - 1]) events.push(t);
  return { score, reward, control, action, first, game, events };
}

async function readChunk(k) {
  const bytes = await unpack(`chunk-${k}`), size = PX_H * PX_W;
  const n = Math.min(facts.chunk, T - k * facts.chunk);
  for (let i = size; i < n * size; i++) bytes[i] ^= bytes[i - size];
  let end = 0;
  const take = length => bytes.subarray(end, (end += length));
  const chunk = { frames: take(n * size), maps: {}, relation: null };
  for (const name of MAPS) chunk.maps[name] = take(n * HW);
  if (facts.relation) chunk.relation = take(n * HW * HW);
  return chunk;
}

const chunks = new Map(), arriving = new Map();

/** The chunk that holds step t, or null while it is being unpacked; `redraw` is called when it is there. */
function chunkOf(t, redraw) {
  const k = Math.floor(t / facts.chunk);
  if (k < 0 || k * facts.chunk >= T) return null;
  const chunk = chunks.get(k);
  if (chunk) {
    chunks.delete(k), chunks.set(k, chunk); // the most recently used is the last to go
    return chunk;
  }
  if (!arriving.has(k)) {
    arriving.set(k, readChunk(k).then(read => {
      arriving.delete(k), chunks.set(k, read);
      if (chunks.size > KEPT) chunks.delete(chunks.keys().next().value);
      redraw();
    }));
  }
  return null;
}

/** Everything known of step t, or null while it is being unpacked. */
function stepAt(t, redraw) {
  const chunk = chunkOf(t, redraw), before = t > 0 ? chunkOf(t - 1, redraw) : chunk;
  chunkOf(t + facts.chunk / 2, redraw); // what playing will need next
  if (!chunk || !before) return null;
  const row = (array, at, length) => array.subarray(at * length, (at + 1) * length);
  const i = t % facts.chunk, old = Math.max(t - 1, 0) % facts.chunk;
  const step = { frame: row(chunk.frames, i, PX_H * PX_W), before: row(before.frames, old, PX_H * PX_W), maps: {} };
  for (const name of MAPS) step.maps[name] = row(chunk.maps[name], i, HW);
  step.relation = chunk.relation && row(chunk.relation, i, HW * HW);
  return step;
}

/** [cell, percent] of the sources of a cell, strongest first. */
function sourcesOf(relation, cell) {
  const found = [];
  for (let from = 0; from < HW; from++) {
    const percent = relation[cell * HW + from];
    if (percent > 0) found.push([from, percent]);
  }
  return found.sort((a, b) => b[1] - a[1]);
}

const nameOf = cell => `row ${Math.floor(cell / W) + 1}, column ${(cell % W) + 1}`;
const shortNameOf = cell => `r${Math.floor(cell / W) + 1} c${(cell % W) + 1}`;
