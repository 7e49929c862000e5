// Pictures as SVG: score against cost and time, how task scores are spread, and the course of one trial.
//
//   <${SuitePictures} index=${INDEX} old=${INDEX.old} />     both of the next two, for each suite
//   <${ScoreAgainst} sides=${sides} old=${0} />              a point a side, from its figures
//   <${Distribution} index=${INDEX} old=${0} new=${1} />     two sides; old and new null: each side
//   <${Waterfall} trial=${trial} />                          a trial as `readTrial` gives it
//
// Each has one tab stop: arrow keys go from mark to mark, and what is marked is written below, as it is where the
// mouse points. A table beside it has the same figures.

const hasValue = (value) => value !== null && value !== undefined;
const clamped = (value, low, high) => Math.min(high, Math.max(low, value));
const shortened = (text, most = 24) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);

const pen = document.createElement('canvas').getContext('2d');
function textWidth(text, font = '550 12px') {
  pen.font = `${font} ${getComputedStyle(document.body).fontFamily}`;
  return pen.measureText(text).width;
}

// Steps of 1, 2 or 5 times a power of ten; of minutes and hours those that clocks have.
const CLOCK = [15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400];
function niceStep(range, most, isTime) {
  if (isTime && range / most > 10) return CLOCK.find((step) => step >= range / most) ?? 86400 * Math.ceil(range / most / 86400);
  const rough = range / most, power = 10 ** Math.floor(Math.log10(rough));
  return power * [1, 2, 5, 10].find((factor) => factor * power >= rough * 0.999);
}
function ticksUpTo(high, most, isTime) {
  const step = niceStep(high, most, isTime);
  return Array.from({length: Math.floor(high / step + 1e-9) + 1}, (_, number) => number * step);
}

function clockTick(seconds) {
  if (seconds < 60) return seconds < 0.1 && seconds > 0 ? `${Number((seconds * 1000).toPrecision(2))} ms` : `${Number(seconds.toPrecision(3))} s`;
  return seconds % 3600 === 0 ? `${seconds / 3600} h` : seconds % 60 === 0 && seconds < 3600 ? `${seconds / 60} min` : duration(seconds);
}

// A drawing that knows its width and which of its marks is looked at. `draw(width, at)` gives its height and its
// parts, and perhaps a note; a part with `data-mark` is a mark, whose words are `marks[number]`.
class Picture extends Component {
  constructor(props) {
    super(props);
    this.state = {width: 0, at: -1};
    this.onKey = this.onKey.bind(this);
    this.point = (event) => this.look(Number(event.target.closest('[data-mark]')?.dataset.mark ?? -1));
    this.leave = () => this.look(-1);
  }

  componentDidMount() {
    this.watcher = new ResizeObserver(([{contentRect: {width}}]) => {
      if (width > 0 && Math.abs(width - this.state.width) >= 1) this.setState({width: Math.floor(width)});
    });
    this.watcher.observe(this.box);
  }

  componentWillUnmount() { this.watcher.disconnect(); }

  look(at) { if (at !== this.state.at) this.setState({at}); }

  onKey(event) {
    const last = this.props.marks.length - 1, {at} = this.state;
    const next = {ArrowRight: at + 1, ArrowDown: at + 1, ArrowLeft: at < 0 ? last : at - 1, ArrowUp: at < 0 ? last : at - 1, Home: 0, End: last}[event.key];
    if (next === undefined || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    this.look(clamped(next, 0, last));
  }

  render({label, marks, draw, hint}, {width, at}) {
    const wide = width || 640, seen = at < marks.length ? at : -1, {height, parts, note} = draw(wide, seen);
    return html`<div class="picture" ref=${(box) => { if (box) this.box = box; }}>
      <svg viewBox=${`0 0 ${wide} ${height}`} role="img" aria-label=${label} tabindex="0" onKeyDown=${this.onKey}
        onMouseOver=${this.point} onMouseLeave=${this.leave} onBlur=${this.leave}>${parts}</svg>
      <p class="readout" role="status">${seen >= 0 ? marks[seen] : html`<span class="dim">${hint}</span>`}</p>${note && html`<p class="note">${note}</p>`}</div>`;
  }
}

// The figures behind a picture; the first cell of a row is its head.
function FigureTable({caption, heads, rows}) {
  return html`<details class="fold figure-table"><summary>as a table</summary><div class="inside scroll" tabindex="0" role="region" aria-label=${caption}>
    <table><caption class="hidden">${caption}</caption><thead><tr>${heads.map((head) => html`<th scope="col">${head}</th>`)}</tr></thead>
    <tbody>${rows.map(([head, ...cells]) => html`<tr><th scope="row">${head}</th>${cells.map((cell) => html`<td>${cell}</td>`)}</tr>`)}</tbody></table></div></details>`;
}

// ---- score against cost, tokens or time

// `unknown` counts the parts of a sum that are not known: such a side has no place on the axis.
const MEASURES = {
  __proto__: null,
  cost: {words: 'cost', value: (figures) => figures.usd, unknown: (figures) => figures.usd_unknown, text: money, tick: (usd) => `$${Number(usd.toPrecision(2))}`, isSum: true},
  tokens: {words: 'tokens', value: (figures) => figures.tokens, unknown: (figures) => figures.tokens_unknown, text: short, isSum: true},
  wall: {words: 'wall time', value: (figures) => figures.wall, unknown: (figures) => figures.wall_unknown, text: duration, tick: clockTick, isTime: true},
  seconds: {words: 'agents’ time', value: (figures) => figures.seconds, unknown: (figures) => figures.seconds_unknown, text: duration, tick: clockTick, isTime: true, isSum: true},
};

function measured({value, unknown}, {figures}) {
  const known = value(figures);
  return unknown?.(figures) || !hasValue(known) ? null : known;
}

const isOld = ({number, side}, old) => side.isOld ?? number === old;
const trialsOf = ({trials, errored}) => trials + errored;
const ROOM = {left: 40, right: 16, top: 12, bottom: 40};

// Sides with other numbers of trials are compared by what one trial took, but for wall time, which trials share.
function pointsOf(sides, measure, each) {
  return sides.map((side, number) => {
    const sum = measured(measure, side), {score, low, high} = side.figures, trials = trialsOf(side.figures);
    return {side, number, sum, score, low, high, x: sum === null ? null : each ? (trials ? sum / trials : null) : sum};
  });
}

// What no other side beats: it scores higher than all that took no more.
function markEfficient(points) {
  let best = -Infinity;
  const ordered = [...points].sort((a, b) => a.x - b.x || b.score - a.score);
  for (const point of ordered) {
    point.efficient = point.score > best + 1e-9 || (point.score > best - 1e-9 && ordered.some((other) => other.efficient && other.x === point.x));
    best = Math.max(best, point.score);
  }
  return ordered.filter((point) => point.efficient);
}

const overlap = (a, b) => Math.max(0, Math.min(a.x + a.w, b.x + b.w) - Math.max(a.x, b.x)) * Math.max(0, Math.min(a.y + a.h, b.y + b.h) - Math.max(a.y, b.y));

// Each label goes where it covers nothing: beside its point, else above or below, else further off with a line, else
// across the bar of an interval. Where even that has no room there is none, and the point is named below.
function placeLabels(points, frame) {
  const taken = points.map(({px, py}) => ({x: px - 6, y: py - 6, w: 12, h: 12})), bars = points.map(({px, top, bottom}) => ({x: px - 2, y: top, w: 4, h: bottom - top}));
  const height = 15, gap = 9;
  return points.map((point) => {
    const {px, py, words} = point, w = textWidth(words), at = (x, y, far) => ({x, y, w, h: height, far});
    const spots = [at(px + gap, py - height / 2), at(px - gap - w, py - height / 2), at(px + gap, py - height - 3), at(px + gap, py + 3), at(px - gap - w, py - height - 3),
      at(px - gap - w, py + 3), at(px - w / 2, point.top - height - 2), at(px - w / 2, point.bottom + 2)];
    for (let off = 1; off <= 12; off += 1) {
      for (const y of [py - height / 2 - off * height, py - height / 2 + off * height]) spots.push(at(px + 2 * gap, y, true), at(px - 2 * gap - w, y, true));
    }
    const fits = (spot) => spot.x >= frame.x && spot.x + w <= frame.x + frame.w && spot.y >= 0 && spot.y + height <= frame.y + frame.h
      && taken.every((other) => overlap(spot, other) < 1);
    const spot = spots.find((each) => fits(each) && bars.every((bar) => overlap(each, bar) < 1)) ?? spots.find(fits);
    if (spot) taken.push(spot);
    return {...point, spot};
  });
}

function scoreRange(points) {
  const lows = points.map((point) => point.low ?? point.score), highs = points.map((point) => point.high ?? point.score);
  let low = Math.floor(Math.min(...lows) * 10 + 1e-9) / 10, high = Math.ceil(Math.max(...highs) * 10 - 1e-9) / 10;
  if (high - low < 0.4) [low, high] = high - 0.4 >= 0 ? [high - 0.4, high] : [low, low + 0.4];
  return [low, high];
}

// From 0 on; logarithmic where one side takes twenty times what another does.
function scaleOf(values, width, isTime) {
  const most = Math.max(...values), least = Math.min(...values), span = width - ROOM.left - ROOM.right, many = clamped(Math.floor(width / 110), 3, 7);
  if (least > 0 && most / least > 20) {
    const from = Math.log10(least / 1.3), to = Math.log10(most * 1.3), ticks = [];
    for (let power = Math.floor(from); power <= to; power += 1) ticks.push(10 ** power, ...(to - from < 2.2 ? [2 * 10 ** power, 5 * 10 ** power] : []));
    return {log: true, ticks: ticks.filter((tick) => Math.log10(tick) >= from && Math.log10(tick) <= to), place: (value) => ROOM.left + (span * (Math.log10(value) - from)) / (to - from)};
  }
  const high = (most || 1) * 1.08;
  return {log: false, ticks: ticksUpTo(high, many, isTime), place: (value) => ROOM.left + (span * value) / high};
}

function drawScores(points, efficient, measure, title, width, at, old) {
  const height = Math.round(clamped(width * 0.46, 230, 360)), {ticks, place, log} = scaleOf(points.map((point) => point.x), width, measure.isTime);
  const [low, high] = scoreRange(points), bottom = height - ROOM.bottom, y = (score) => bottom - ((bottom - ROOM.top) * (clamped(score, low, high) - low)) / (high - low);
  const placed = placeLabels(points.map((point) => ({...point, px: place(point.x), py: y(point.score), top: y(point.high ?? point.score), bottom: y(point.low ?? point.score),
    words: shortened(plain(point.side.label)) + (isOld(point, old) ? ' (old)' : '')})), {x: ROOM.left, y: 0, w: width - ROOM.left, h: bottom});
  const line = efficient.map((point, number) => (number ? `H${place(point.x)}V${y(point.score)}` : `M${place(point.x)} ${y(point.score)}`)).join('');
  const steps = Math.round((high - low) / 0.1), every = steps > 5 ? 2 : 1, levels = Array.from({length: steps + 1}, (_, number) => low + number / 10).filter((_, number) => number % every === 0);
  const parts = html`<g class="grid">${levels.map((level) => html`<line x1=${ROOM.left} x2=${width - ROOM.right} y1=${y(level)} y2=${y(level)} /><text x=${ROOM.left - 8} y=${y(level) + 4} text-anchor="end">${fixed(level, 1)}</text>`)}
      ${ticks.map((tick) => html`<line x1=${place(tick)} x2=${place(tick)} y1=${bottom} y2=${bottom + 4} /><text x=${place(tick)} y=${bottom + 17} text-anchor="middle">${(measure.tick ?? measure.text)(tick)}</text>`)}
      <text x=${width - ROOM.right} y=${height - 4} text-anchor="end">${title}${log ? ', logarithmic' : ''}</text><text x="0" y=${height - 4}>score, 95 %</text></g>
    ${new Set(efficient.map((point) => point.x)).size > 1 && html`<path class="frontier" d=${`${line}H${width - ROOM.right}`} />`}
    ${placed.map((point, number) => html`<g key=${point.number} class=${`spot ${point.efficient ? 'efficient' : ''} ${at === number ? 'seen' : ''}`} data-mark=${number}>
      ${point.spot?.far && html`<line class="leader" x1=${point.px} y1=${point.py} x2=${point.spot.x > point.px ? point.spot.x - 3 : point.spot.x + point.spot.w + 3} y2=${point.spot.y + 8} />`}
      <line class="reach" x1=${point.px} x2=${point.px} y1=${point.top} y2=${point.bottom} />
      <circle class="halo" cx=${point.px} cy=${point.py} r="14" /><circle class="point" cx=${point.px} cy=${point.py} r="5" />
      ${point.spot && html`<text x=${point.spot.x} y=${point.spot.y + 12}>${point.words}</text>`}</g>`)}`;
  const unnamed = placed.filter(({spot}) => !spot);
  return {height, parts, note: unnamed.length > 0 && `without a label: ${sideNames(unnamed)}`};
}

const listed = (names) => (names.length < 2 ? names.join('') : `${names.slice(0, -1).join(', ')} and ${names.at(-1)}`);
const sideNames = (points) => listed(points.map((point) => plain(point.side.label)));

class ScoreAgainst extends Component {
  render({sides, old}, {chosen}) {
    const known = (name) => sides.filter((side) => measured(MEASURES[name], side) !== null);
    const offered = Object.keys(MEASURES).filter((name) => known(name).some((side) => measured(MEASURES[name], side) > 0));
    const scored = sides.filter((side) => hasValue(side.figures.score));
    if (!scored.length || !offered.length) return html`<p class="dim">${scored.length ? 'Cost, tokens and time are 0 or unknown: there is nothing to set scores against.' : 'No side has a score.'}</p>`;
    // Tokens where the cost of some side is unknown, for one does not choose what one cannot see.
    const whole = offered.filter((name) => known(name).length === sides.length), first = whole.find((name) => name !== 'seconds') ?? whole[0] ?? offered[0];
    const name = offered.includes(chosen) ? chosen : first, measure = MEASURES[name];
    const each = Boolean(measure.isSum) && new Set(sides.map((side) => trialsOf(side.figures))).size > 1;
    const all = pointsOf(sides, measure, each), points = all.filter((point) => point.x !== null && hasValue(point.score));
    const unknown = all.filter((point) => point.x === null && hasValue(point.score)), unscored = all.filter((point) => !hasValue(point.score));
    const efficient = markEfficient(points), several = new Set(efficient.map(({x, score}) => `${x} ${score}`)).size > 1, title = each ? `${measure.words} of a trial` : measure.words;
    const words = ({side, x, sum, score, low, high, efficient: best}) => html`<b>${plain(side.name || side.label)}</b> score ${figure(score)}${side.figures.mark}
      ${low !== null && html` (${interval(low, high)})`}, ${measure.text(x)}${each && html` a trial, ${measure.text(sum)} for ${plural(trialsOf(side.figures), 'trial')}`}${best && several && ': no side scores higher for less'}`;
    const partly = (point) => (hasValue(measure.value(point.side.figures)) && measure.value(point.side.figures) > 0
      ? ` (${measure.text(measure.value(point.side.figures))} and ${plural(measure.unknown?.(point.side.figures) ?? 1, 'unknown part')})` : '');
    const unpriced = sides.filter((side) => measured(MEASURES.cost, side) === null);
    return html`<figure class="figure score-against">
      <figcaption><b>Score against ${title}</b>
        <span class="switch" role="group" aria-label="against">${offered.map((other) => html`<button aria-pressed=${other === name} onClick=${() => this.setState({chosen: other})}>${MEASURES[other].words}</button>`)}</span></figcaption>
      ${name === 'tokens' && unpriced.length > 0 && html`<p class="note">The cost of ${unpriced.length === sides.length ? 'every side' : listed(unpriced.map((side) => plain(side.label)))} is unknown, so tokens are shown.</p>`}
      ${points.length > 0 && html`<${Picture} label=${`Score against ${title}: ${points.map((point) => `${plain(point.side.label)} ${figure(point.score)} at ${measure.text(point.x)}`).join('; ')}`}
        marks=${points.map(words)} draw=${(width, at) => drawScores(points, efficient, measure, title, width, at, old)}
        hint=${several ? 'On the light line no side scores higher for less. Scores are estimates: their bars may overlap.' : points.length > efficient.length ? `${sideNames(efficient)}: no side scores higher, and none takes less.` : ''} />`}
      ${unknown.length > 0 && html`<p class="note">${title} unknown: ${unknown.map((point, number) => html`${number ? ', ' : ''}<b>${plain(point.side.label)}</b> ${figure(point.score)}${partly(point)}`)}</p>`}
      ${unscored.length > 0 && html`<p class="note">no score: ${sideNames(unscored)}</p>`}
      <${FigureTable} caption=${`score against ${title}`} heads=${['side', 'score', '95 %', ...offered.map((other) => MEASURES[other].words), 'trials']}
        rows=${all.map(({side, score, low, high}) => [plain(side.name || side.label), figure(score), interval(low, high),
          ...offered.map((other) => (measured(MEASURES[other], side) === null ? 'unknown' : MEASURES[other].text(measured(MEASURES[other], side)))), count(trialsOf(side.figures))])} />
    </figure>`;
  }
}

// ---- how task scores are spread

const BINS = 10;
const binOf = (score) => clamped(Math.floor(score * BINS + 1e-9), 0, BINS - 1);
const binWords = (bin) => (bin === BINS - 1 ? '0.9 to 1' : `${fixed(bin / BINS, 1)} to below ${fixed((bin + 1) / BINS, 1)}`);

function spreadOf(side, number, scores) {
  const known = scores.filter(hasValue), bins = Array(BINS).fill(0);
  for (const score of known) bins[binOf(score)] += 1;
  return {number, side, bins, tasks: known.length, unscored: scores.length - known.length, full: known.filter((score) => score > 1 - 1e-9).length, none: known.filter((score) => Math.abs(score) < 1e-9).length};
}

// The scores of the tasks that a side has tried, of all suites or of one lane.
const scoresOf = (index, number, lane) => index.tasks.filter((task) => (lane === undefined || task.suite === lane) && task.sides[number]?.trials.length).map((task) => task.sides[number].score);

function binFacts({bins, full, none}, bin) {
  const ends = bin === BINS - 1 && full && full < bins[bin] ? `, ${count(full)} of them 1.00` : bin === 0 && none && none < bins[bin] ? `, ${count(none)} of them 0.00` : '';
  return `${plural(bins[bin], 'task')} at ${binWords(bin)}${ends}`;
}

function spreadHead(spread, wide, old) {
  const {tasks, unscored, side: {label, figures: {score, mark}}} = spread;
  return {
    name: shortened(plain(label), Math.floor(wide / 12)) + (isOld(spread, old) ? ' (old)' : ''),
    facts: [plural(tasks, 'task'), hasValue(score) && `mean ${figure(score)}${mark}`, unscored && `${count(unscored)} without a score`].filter(Boolean).join(', '),
  };
}

// One below the other, so that what moved is seen; from four sides on as many beside each other as have room.
function drawSpreads(spreads, width, at, old) {
  const columns = spreads.length < 4 ? 1 : clamped(Math.floor(width / 230), 1, spreads.length), gap = 24, wide = (width - gap * (columns - 1)) / columns;
  const heads = spreads.map((spread) => spreadHead(spread, wide, old)), head = heads.some(({name, facts}) => textWidth(name, '600 12px') + textWidth(facts, '11.5px') + 12 > wide) ? 15 : 0;
  const bars = columns === 1 && spreads.length < 3 ? 78 : 56, panel = bars + head + 62, most = Math.max(1, ...spreads.flatMap((spread) => spread.bins)), step = wide / BINS;
  const parts = spreads.map((spread, place) => {
    const left = (place % columns) * (wide + gap), top = Math.floor(place / columns) * panel, base = top + head + 36 + bars, {score} = spread.side.figures;
    const {name, facts} = heads[place];
    return html`<g key=${spread.number} class=${`spread ${isOld(spread, old) ? 'old' : ''}`}>
      <text class="name" x=${left} y=${top + 13}>${name}</text><text class="counted" x=${head ? left : left + textWidth(name, '600 12px') + 10} y=${top + 13 + head}>${facts}</text>
      <line class="base" x1=${left} x2=${left + wide} y1=${base + 0.5} y2=${base + 0.5} />
      ${spread.bins.map((tasks, bin) => { const high = (bars * tasks) / most, x = left + bin * step, mark = place * BINS + bin; return html`<g class=${at === mark ? 'seen' : ''} data-mark=${mark}>
        <rect class="target" x=${x} y=${top + head + 18} width=${step} height=${bars + 18} />
        ${tasks > 0 && html`<rect class="bar" x=${x + 2} y=${base - Math.max(2, high)} width=${Math.max(1, step - 4)} height=${Math.max(2, high)} /><text x=${x + step / 2} y=${base - Math.max(2, high) - 4} text-anchor="middle">${count(tasks)}</text>`}</g>`; })}
      ${hasValue(score) && html`<path class="mean" d=${`M${left + wide * clamped(score, 0, 1)} ${base + 1}l4 6h-8z`} />`}
      ${[0, 0.5, 1].map((tick) => html`<text class="tick" x=${left + wide * tick} y=${base + 19} text-anchor=${['start', 'middle', 'end'][2 * tick]}>${tick}</text>`)}</g>`;
  });
  return {height: Math.ceil(spreads.length / columns) * panel, parts};
}

function Distribution({index, old, new: newer}) {
  const numbers = hasValue(old) && hasValue(newer) && old !== newer ? [old, newer] : index.sides.map((_, number) => number);
  return html`<${Spreads} spreads=${numbers.map((number) => spreadOf(index.sides[number], number, scoresOf(index, number)))} old=${old} />`;
}

function Spreads({spreads: all, old}) {
  const spreads = all.filter((spread) => spread.tasks), most = ({bins}) => bins.indexOf(Math.max(...bins));
  if (!spreads.length) return html`<p class="dim">No task has a score.</p>`;
  const marks = spreads.flatMap((spread) => spread.bins.map((_, bin) => html`<b>${plain(spread.side.name || spread.side.label)}</b> ${binFacts(spread, bin)}`));
  return html`<figure class="figure distribution"><figcaption><b>Task scores</b> <span class="dim">how many tasks score how much</span></figcaption>
    <${Picture} label=${`Task scores: ${spreads.map((spread) => `${plain(spread.side.label)}: most, ${binFacts(spread, most(spread))}`).join('; ')}`} marks=${marks}
      draw=${(width, at) => drawSpreads(spreads, width, at, spreads.length > 1 ? old : null)} hint="A bar is a tenth of the scale, ▲ the mean." />
    <${FigureTable} caption="tasks by score" heads=${['score', ...spreads.map((spread) => plain(spread.side.label))]} rows=${Array.from({length: BINS}, (_, bin) => [binWords(bin), ...spreads.map((spread) => count(spread.bins[bin]))])} />
  </figure>`;
}

// ---- both, suite by suite: scores of different suites are on scales of their own

const MOST_SUITES = 4;

// A suite's figures side by side; where its models have rows of their own, each of them with each side.
function suiteSides({suites, sides}, name, old) {
  const lanes = suites.flatMap((suite, lane) => (suite.suite === name ? [lane] : []));
  return lanes.flatMap((lane) => sides.map((side, number) => {
    const who = lanes.length > 1 ? suites[lane].who : '', words = (text) => [who, sides.length > 1 || !who ? text : ''].filter(Boolean).join(' ');
    return {label: words(side.label), name: words(side.name), figures: suites[lane].sides[number], isOld: number === old && sides.length > 1, lane, number};
  })).filter(({figures}) => figures);
}

class SuitePictures extends Component {
  render({index, old}, {all}) {
    const names = [...new Set(index.suites.map(({suite}) => suite))], shown = all ? names : names.slice(0, MOST_SUITES);
    return html`${shown.map((name) => {
      const sides = suiteSides(index, name, old), spreads = sides.map((side, at) => spreadOf(side, at, scoresOf(index, side.number, side.lane)));
      return html`<section class="of-suite" key=${name} aria-label=${plain(name)}>${names.length > 1 && html`<h3>${plain(name)}</h3>`}
        <div class="pictures">${sides.length > 1 && html`<${ScoreAgainst} sides=${sides} old=${null} />`}<${Spreads} spreads=${spreads} old=${null} /></div></section>`;
    })}${names.length > shown.length && html`<button class="more" onClick=${() => this.setState({all: true})}>${plural(names.length - shown.length, 'more suite')}</button>`}`;
  }
}

// ---- the course of a trial

const MOST_LANES = 14;
const LEAST_GAP = 0.005;

const repliesText = (number) => (number === 1 ? '1 reply' : `${count(number)} replies`);
const timed = ({started, ended}) => ended > started || started > 0;

// What took time: replies, requests that failed, calls of tools, and what was neither.
function timedSteps(trial) {
  const replies = (trial.asks ?? []).map(({turn, started, ended, first_token_s: first, model}) => ({kind: 'reply', from: started, to: ended, name: `${turn}`,
    words: `reply ${turn}${model ? ` of ${plain(model)}` : ''}`, more: hasValue(first) ? `, first token after ${duration(first)}` : ''}));
  const calls = trial.messages.flatMap((message) => message.calls).filter((call) => call.executed && call.by !== 'seed');
  const tools = calls.filter(timed).map((call) => ({kind: call.error ? 'call failed' : 'call', from: call.started, to: call.ended, name: plain(call.tool), words: `${plain(call.tool)}, turn ${call.turn}`, more: call.error ? `, ${oneLine(call.error.type, 40)}` : ''}));
  const retries = trial.events.filter((event) => event.kind === 'chat_retry' && event.details?.seconds >= 0).flatMap(({at, details: {seconds, wait_s: wait}}) => [
    {kind: 'retry', from: Math.max(0, at - seconds), to: at, name: '', words: 'request that failed', more: ''},
    ...(wait > 0 ? [{kind: 'wait', from: at, to: at + wait, name: '', words: 'waiting before the next attempt', more: ''}] : [])]);
  return {steps: [...replies, ...retries, ...tools].sort((a, b) => a.from - b.from || a.to - b.to), untimed: calls.length - tools.length};
}

const covered = (steps) => {
  const parts = [];
  for (const {from, to} of [...steps].sort((a, b) => a.from - b.from)) {
    if (parts.length && from <= parts.at(-1).to) parts.at(-1).to = Math.max(parts.at(-1).to, to); else parts.push({from, to});
  }
  return parts;
};
const lasted = (parts) => parts.reduce((sum, {from, to}) => sum + to - from, 0);

function gapsOf(steps, end) {
  const gaps = [];
  let at = 0;
  for (const {from, to} of [...covered(steps), {from: end, to: end}]) {
    if (from - at > LEAST_GAP * end) gaps.push({kind: 'gap', from: at, to: from, name: '', words: 'neither model nor tool', more: ''});
    at = Math.max(at, to);
  }
  return gaps;
}

// Each step in the first lane that is free: what overlaps stands in several.
function lanesOf(steps) {
  const ends = [];
  const placed = steps.map((step) => {
    let lane = ends.findIndex((end) => end <= step.from + 1e-9);
    if (lane < 0) lane = ends.length;
    ends[lane] = Math.max(step.to, step.from);
    return {...step, lane};
  });
  return {placed, lanes: ends.length};
}

function courseOf(trial) {
  const {steps, untimed} = timedSteps(trial), end = Math.max(trial.seconds ?? 0, ...steps.map((step) => step.to));
  const gaps = gapsOf(steps, end), isCall = (step) => step.kind.startsWith('call');
  const model = lanesOf([...steps.filter((step) => !isCall(step)), ...gaps].sort((a, b) => a.from - b.from)), tools = lanesOf(steps.filter(isCall));
  // Judges are asked after the agent has ended; when they answered is known, and not how long they took.
  const judged = trial.events.filter((event) => event.kind === 'judge_ask');
  return {end, gaps, untimed, model, tools, judged: judged.length, replies: steps.filter((step) => step.kind === 'reply'), calls: steps.filter(isCall),
    steps: [...model.placed.map((step) => ({...step, row: step.lane})), ...tools.placed.map((step) => ({...step, row: model.lanes + step.lane}))].sort((a, b) => a.from - b.from || a.row - b.row)};
}

// Where there is much to see, time goes on in the next line, as words do.
const MOST_LINES = 8;
const LEAST_STEP = 9;

function drawCourse({steps, end, model, tools}, width, at) {
  const left = 48, right = 14, top = 22, lanes = model.lanes + tools.lanes, pitch = lanes > MOST_LANES ? Math.max(4, (MOST_LANES * 20) / lanes) : 20, space = tools.lanes && model.lanes ? 6 : 0;
  const lines = lanes > 4 ? 1 : clamped(Math.ceil((steps.length * LEAST_STEP) / (width - left - right)), 1, MOST_LINES), slice = end / lines, line = top + lanes * pitch + space + (lines > 1 ? 16 : 6);
  const high = Math.max(2, pitch - 4), offset = (row) => top + row * pitch + (row >= model.lanes ? space : 0), many = clamped(Math.floor(width / 110), 2, 8), step = niceStep(slice, many, true);
  const parts = Array.from({length: lines}, (_, number) => {
    const from = number * slice, to = from + slice, above = number * line, x = (seconds) => left + ((width - left - right) * (clamped(seconds, from, to) - from)) / slice;
    const ticks = Array.from({length: many + 2}, (_, tick) => (Math.ceil(from / step - 1e-9) + tick) * step).filter((tick) => tick <= to + 1e-9 * end);
    const title = (row, words) => html`<text x="0" y=${above + offset(row) + Math.min(high, 16) / 2 + 4}>${words}</text>`;
    return html`<g class="grid" key=${`grid ${number}`}>${ticks.map((tick) => { const place = x(tick), edge = place > width - 40 ? 'end' : place < left + 8 ? 'start' : 'middle'; return html`<line x1=${place} x2=${place} y1=${above + top - 4} y2=${above + line - 4} /><text x=${edge === 'end' ? Math.min(width, place + 12) : place} y=${above + 11} text-anchor=${edge}>${clockTick(tick)}</text>`; })}
        ${model.lanes > 0 && title(0, 'model')}${tools.lanes > 0 && title(model.lanes, 'tools')}</g>
      ${steps.map((each, mark) => ((each.to > from || each.from >= from) && (each.from < to || number === lines - 1) ? html`<${Step} key=${`${number} ${mark}`} step=${each} mark=${mark} seen=${at === mark} x=${x} y=${above + offset(each.row)} high=${high} pitch=${pitch} />` : null))}`;
  });
  return {height: lines * line, parts};
}

function Step({step: {kind, from, to, name}, mark, seen, x, y, high, pitch}) {
  const wide = Math.max(1.5, x(to) - x(from) - 0.5), letters = Math.floor((wide - 8) / 6.6), quiet = kind === 'gap' || kind === 'wait';
  return html`<g class=${`step ${kind} ${seen ? 'seen' : ''}`} data-mark=${mark}>
    <rect class="target" x=${x(from) - 1} y=${y - 2} width=${wide + 2} height=${pitch} />
    ${quiet ? html`<line class="hatch" x1=${x(from) + 1} x2=${x(from) + Math.max(1.5, wide - 1)} y1=${y + high / 2} y2=${y + high / 2} stroke-width=${high} />`
      : html`<rect class="bar" x=${x(from)} y=${y} width=${wide} height=${high} rx=${Math.min(2, wide / 3)} />`}
    ${high > 10 && name && letters >= Math.min(name.length, 4) && html`<text x=${x(from) + 4} y=${y + high / 2 + 4}>${shortened(name, letters)}</text>`}</g>`;
}

const stepTimes = ({from, to}) => `${duration(to - from)}, from ${duration(from)} on`;

function Waterfall({trial}) {
  const course = courseOf(trial), {steps, end, gaps, untimed, tools, judged, replies, calls} = course;
  if (!steps.some((step) => step.kind !== 'gap') || !(end > 0)) return null;
  const busy = (some, what, many) => some.length > 0 && html`<span><b>${what}</b> ${duration(lasted(covered(some)))} in ${many}</span>`;
  return html`<${Fold} kind="waterfall" title=${html`Course: <span class="dim">${repliesText(replies.length)}, ${plural(calls.length, 'call')} in ${duration(end)}</span>`}>
    <figure class="figure course">
      <${Picture} label=${`Course of the trial: ${repliesText(replies.length)} and ${plural(calls.length, 'call')} in ${duration(end)}`} draw=${(width, at) => drawCourse(course, width, at)}
        marks=${steps.map((step) => html`<b>${step.words}</b> ${stepTimes(step)}${step.more}`)} hint="Seconds since the trial began, waiting included. Point at a bar, or go from bar to bar with the arrow keys." />
      <p class="sums">${busy(replies, 'model', repliesText(replies.length))}
        ${busy(calls, 'tools', `${plural(calls.length, 'call')}${tools.lanes > 1 ? `, up to ${tools.lanes} at once` : ''}`)}
        ${gaps.length > 0 && html`<span><b>neither</b> ${duration(lasted(gaps))}: the agent's own code, or waiting</span>`}
        ${untimed > 0 && html`<span>${plural(untimed, 'call')} of unknown time</span>`}
        ${judged > 0 && html`<span>judges: ${repliesText(judged)} afterwards, their time is not known</span>`}</p>
      <${FigureTable} caption="course of the trial" heads=${['what', 'from', 'took']} rows=${steps.map((step) => [`${step.words}${step.more}`, duration(step.from), duration(step.to - step.from)])} />
    </figure><//>`;
}
