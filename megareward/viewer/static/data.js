// Recordings, unpacked on demand. Layout: see page.py.
const $ = id => document.getElementById(id);
const TOUCHED = matchMedia("(pointer: coarse)").matches;
const KEPT = 12; // unpacked chunks of a recording in memory: enough for a few seconds at the highest speed

async function unpack(id) {
  const text = atob($(id).textContent);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/** One game as it was recorded. `number` names its elements; the first has 0, the one beside it 1. */
class Recording {
  constructor(number, facts) {
    this.number = number, this.suffix = number ? `-${number}` : "", this.facts = facts, this.T = facts.steps;
    [this.PX_H, this.PX_W] = facts.size, [this.H, this.W] = facts.grid, this.HW = this.H * this.W;
    this.maps = Object.keys(facts.maps), this.mapped = this.maps.length > 0; // an oracle has maps and no relation
    this.audited = "true_direct" in facts.maps;
    this.chunks = new Map(), this.arriving = new Map(), this.traces = null;
  }

  async readTraces() {
    const bytes = await unpack(`traces-${this.number}`), { T } = this;
    const floats = new Float32Array(bytes.buffer, 0, 3 * T);
    const [score, reward, control] = [0, 1, 2].map(i => floats.subarray(i * T, (i + 1) * T));
    const action = bytes.subarray(12 * T, 13 * T), first = bytes.subarray(13 * T, 14 * T);
    const game = new Uint16Array(T);
    for (let t = 0, n = 0; t < T; t++) game[t] = n += first[t] || t === 0 ? 1 : 0;
    const events = [];
    for (let t = 1; t < T; t++) if (first[t] || score[t] !== score[t - 1]) events.push(t);
    this.traces = { score, reward, control, action, first, game, events };
  }

  async readChunk(k) {
    const bytes = await unpack(`chunk-${this.number}-${k}`), size = this.PX_H * this.PX_W;
    const n = Math.min(this.facts.chunk, this.T - k * this.facts.chunk);
    for (let i = size; i < n * size; i++) bytes[i] ^= bytes[i - size];
    let end = 0;
    const take = length => bytes.subarray(end, (end += length));
    const chunk = { frames: take(n * size), maps: {}, relation: null };
    for (const name of this.maps) chunk.maps[name] = take(n * this.HW);
    if (this.facts.relation) chunk.relation = take(n * this.HW * this.HW);
    return chunk;
  }

  /** The chunk that holds step t, or null while it is being unpacked; `redraw` is called when it is there. */
  chunkOf(t, redraw) {
    const k = Math.floor(t / this.facts.chunk), { chunks, arriving } = this;
    if (k < 0 || k * this.facts.chunk >= this.T) return null;
    const chunk = chunks.get(k);
    if (chunk) {
      chunks.delete(k), chunks.set(k, chunk); // the most recently used is the last to go
      return chunk;
    }
    if (!arriving.has(k)) {
      arriving.set(k, this.readChunk(k).then(read => {
        arriving.delete(k), chunks.set(k, read);
        if (chunks.size > KEPT) chunks.delete(chunks.keys().next().value);
        redraw();
      }));
    }
    return null;
  }

  /** Everything known of step t, or null while it is being unpacked. */
  stepAt(t, redraw) {
    const chunk = this.chunkOf(t, redraw), before = t > 0 ? this.chunkOf(t - 1, redraw) : chunk, length = this.facts.chunk;
    this.chunkOf(t + length / 2, redraw); // what playing will need next
    if (!chunk || !before) return null;
    const row = (array, at, size) => array.subarray(at * size, (at + 1) * size), pixels = this.PX_H * this.PX_W;
    const i = t % length, old = Math.max(t - 1, 0) % length;
    const step = { frame: row(chunk.frames, i, pixels), before: row(before.frames, old, pixels), maps: {} };
    for (const name of this.maps) step.maps[name] = row(chunk.maps[name], i, this.HW);
    step.relation = chunk.relation && row(chunk.relation, i, this.HW * this.HW);
    step.begins = Boolean(this.traces.first[t]) || t === 0;
    return step;
  }

  /** [cell, percent] of the sources of a cell, strongest first. */
  sourcesOf(relation, cell) {
    const found = [];
    for (let from = 0; from < this.HW; from++) {
      const percent = relation[cell * this.HW + from];
      if (percent > 0) found.push([from, percent]);
    }
    return found.sort((a, b) => b[1] - a[1]);
  }

  /** The value of a map in a cell, in the map's own unit. */
  valueOf(step, name, cell) {
    return (step.maps[name][cell] * this.facts.maps[name]) / 255;
  }

  nameOf(cell) {
    return `row ${Math.floor(cell / this.W) + 1}, column ${(cell % this.W) + 1}`;
  }

  shortNameOf(cell) {
    return `r${Math.floor(cell / this.W) + 1} c${(cell % this.W) + 1}`;
  }

  /** The cell that lies where `cell` of another recording does; grids may differ. */
  cellLike(cell, other) {
    if (cell === null) return null;
    const y = Math.floor(((Math.floor(cell / other.W) + .5) / other.H) * this.H);
    return y * this.W + Math.floor((((cell % other.W) + .5) / other.W) * this.W);
  }
}

const recordings = JSON.parse($("facts").textContent).map((facts, number) => new Recording(number, facts));
const T = Math.min(...recordings.map(recording => recording.T)), TWO = recordings.length > 1;
