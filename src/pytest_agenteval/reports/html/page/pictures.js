// Pictures as SVG: score against cost and time, how task scores are spread, and the course of one trial.
//
//   <${SuitePictures} index=${INDEX} old=${OLD} />     the first two, for each suite
//   <${Waterfall} trial=${trial} />                    a trial as `readTrial` gives it
//
// Each has one tab stop: arrow keys go from mark to mark, and what is marked is written below, as it is where the
// mouse points. A table beside it has the same figures.

const clamped = (value, low, high) => Math.min(high, Math.max(low, value));
const shortened = (text, most = 24) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);

const pen = document.createElement('canvas').getContext('2d');
function textWidth(text, look = '550 12px') {
  pen.font = `${look} ${getComputedStyle(document.body).fontFamily}`;
  return pen.measureText(text).width;
}

// Steps of 1, 2 or 5 times a power of ten; of minutes and hours those that clocks have.
const CLOCK = [15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400];
function niceStep(range, most, isTime) {
  if (isTime && range / most > 10) return CLOCK.find((step) => step >= range / most) ?? 86400 * Math.ceil(range / most / 86400);
  const rough = range / most, power = 10 ** Math.floor(Math.log10(rough));
  return power * [1, 2, 5, 10].find((factor) => factor * power >= rough * 0.999);
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
    this.state = {width: 640, at: -1};
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
    const last = this.props.marks.length - 1, {at} = this.state, before = at < 0 ? last : at - 1;
    const next = {ArrowRight: at + 1, ArrowDown: at + 1, ArrowLeft: before, ArrowUp: before, Home: 0, End: last}[event.key];
    if (next === undefined || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    this.look(clamped(next, 0, last));
  }

  render({label, marks, draw, hint}, {width, at}) {
    const seen = at < marks.length ? at : -1, {height, parts, note} = draw(width, seen);
    return html`<div class="picture" ref=${(box) => { this.box = box; }}>
      <svg viewBox=${`0 0 ${width} ${height}`} role="img" aria-label=${label} tabindex="0" onKeyDown=${this.onKey}
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

// ---- suite by suite: scores of different suites are on scales of their own

const MOST_SUITES = 4;

// A suite's sides with their figures and the scores of their tasks; where its models have rows of their own, each of
// them with each side.
function suiteSides({suites, sides, tasks}, name, old) {
  const lanes = suites.flatMap((suite, lane) => (suite.suite === name ? [lane] : []));
  return lanes.flatMap((lane) => sides.flatMap((side, number) => {
    const figures = suites[lane].sides[number], who = lanes.length > 1 ? suites[lane].who : '';
    if (!figures) return [];
    const words = (text) => plain([who, sides.length > 1 || !who ? text : ''].filter(Boolean).join(' '));
    const scores = tasks.filter((task) => task.suite === lane && task.sides[number]?.trials.length).map((task) => task.sides[number].score);
    return [{...figures, label: words(side.label), name: words(side.name || side.label), isOld: number === old && sides.length > 1, scores}];
  }));
}

class SuitePictures extends Component {
  render({index, old}, {all}) {
    const names = [...new Set(index.suites.map(({suite}) => suite))], shown = all ? names : names.slice(0, MOST_SUITES);
    return html`${shown.map((name) => {
      const sides = suiteSides(index, name, old);
      return html`<section class="of-suite" key=${name} aria-label=${plain(name)}>${names.length > 1 && html`<h3>${plain(name)}</h3>`}
        <div class="pictures">${sides.length > 1 && html`<${ScoreAgainst} sides=${sides} />`}<${TaskScores} sides=${sides} /></div></section>`;
    })}${names.length > shown.length && html`<button class="more" onClick=${() => this.setState({all: true})}>${plural(names.length - shown.length, 'more suite')}</button>`}`;
  }
}

const namesOf = (sides) => sides.map(({label}) => label).join(', ').replace(/, ([^,]*)$/, ' and $1');

// ---- score against cost, tokens or time

// What scores are set against, by its name in the figures. Trials share their wall time; of all else each has a part.
// A side of which a part is unknown has no place on the axis.
const MEASURES = {
  __proto__: null,
  usd: {words: 'cost', text: money, tick: (usd) => `$${Number(usd.toPrecision(2))}`},
  tokens: {words: 'tokens', text: short, tick: short},
  wall: {words: 'wall time', text: duration, tick: clockTick, isTime: true, isShared: true},
  seconds: {words: 'agents’ time', text: duration, tick: clockTick, isTime: true},
};
const ROOM = {left: 40, right: 16, top: 12, bottom: 40};

const trialsOf = ({trials, errored}) => trials + errored;
const measuredText = (key, side) => partlyKnown(side, key, MEASURES[key].text);

// What no other side beats: it scores higher than all that took no more.
function efficientOf(points) {
  const beats = (a, b) => a.x <= b.x && a.score >= b.score - 1e-9 && (a.x < b.x || a.score > b.score + 1e-9);
  return points.filter((point) => !points.some((other) => beats(other, point))).sort((a, b) => a.x - b.x);
}

const overlap = (a, b) => a.x + a.w > b.x + 1 && b.x + b.w > a.x + 1 && a.y + a.h > b.y + 1 && b.y + b.h > a.y + 1;

// Each label goes where it covers nothing: beside its point, else above or below with a line, else across the bar of an
// interval. Where even that has no room there is none, and the point is named below.
function placeLabels(points, width, bottom) {
  const h = 15, taken = points.map(({px, py}) => ({x: px - 6, y: py - 6, w: 12, h: 12})), bars = points.map(({px, top, bottom: end}) => ({x: px - 2, y: top, w: 4, h: end - top}));
  return points.map((point) => {
    const {px, py, words} = point, w = textWidth(words), spots = [];
    for (let off = 0; off <= 12; off += 1) {
      for (const y of [py - h / 2 - off * h, py - h / 2 + off * h]) for (const x of [px + (off ? 18 : 9), px - w - (off ? 18 : 9)]) spots.push({x, y, w, h, isFar: off > 0});
    }
    const free = spots.filter((spot) => spot.x >= ROOM.left && spot.x + w <= width && spot.y >= 0 && spot.y + h <= bottom && !taken.some((other) => overlap(spot, other)));
    const spot = free.find((each) => !bars.some((bar) => overlap(each, bar))) ?? free[0];
    if (spot) taken.push(spot);
    return {...point, spot};
  });
}

// The tenths between which all scores and intervals lie, four of them at least.
function scoreRange(points) {
  let low = Math.floor(Math.min(...points.map((point) => point.low ?? point.score)) * 10 + 1e-9), high = Math.ceil(Math.max(...points.map((point) => point.high ?? point.score)) * 10 - 1e-9);
  if (high - low < 4) [low, high] = high >= 4 ? [high - 4, high] : [low, low + 4];
  return [low / 10, high / 10];
}

// From 0 on; logarithmic where one side takes twenty times what another does.
function scaleOf(values, width, isTime) {
  const most = Math.max(...values), least = Math.min(...values), span = width - ROOM.left - ROOM.right;
  if (least > 0 && most / least > 20) {
    const from = Math.log10(least / 1.3), to = Math.log10(most * 1.3), factors = to - from < 2.2 ? [1, 2, 5] : [1], ticks = [];
    for (let power = Math.floor(from); power <= to; power += 1) ticks.push(...factors.map((factor) => factor * 10 ** power));
    return {log: true, ticks: ticks.filter((tick) => Math.log10(tick) >= from && Math.log10(tick) <= to), place: (value) => ROOM.left + (span * (Math.log10(value) - from)) / (to - from)};
  }
  const high = (most || 1) * 1.08, step = niceStep(high, clamped(Math.floor(width / 110), 3, 7), isTime);
  return {log: false, ticks: Array.from({length: Math.floor(high / step + 1e-9) + 1}, (_, number) => number * step), place: (value) => ROOM.left + (span * value) / high};
}

function drawScores(points, efficient, measure, title, width, at) {
  const height = Math.round(clamped(width * 0.46, 230, 360)), bottom = height - ROOM.bottom, right = width - ROOM.right;
  const {ticks, place, log} = scaleOf(points.map(({x}) => x), width, measure.isTime), [low, high] = scoreRange(points);
  const y = (score) => bottom - ((bottom - ROOM.top) * (score - low)) / (high - low), many = Math.round((high - low) * 10), every = many > 5 ? 2 : 1;
  const levels = Array.from({length: Math.floor(many / every) + 1}, (_, number) => low + (number * every) / 10);
  const placed = placeLabels(points.map((point) => ({...point, px: place(point.x), py: y(point.score), top: y(point.high ?? point.score), bottom: y(point.low ?? point.score),
    words: shortened(point.label) + (point.isOld ? ' (old)' : ''), isEfficient: efficient.includes(point)})), width, bottom);
  const line = efficient.map(({x, score}, number) => (number ? `H${place(x)}V${y(score)}` : `M${place(x)} ${y(score)}`)).join('');
  const parts = html`<g class="grid">${levels.map((level) => html`<line x1=${ROOM.left} x2=${right} y1=${y(level)} y2=${y(level)} /><text x=${ROOM.left - 8} y=${y(level) + 4} text-anchor="end">${fixed(level, 1)}</text>`)}
      ${ticks.map((tick) => html`<line x1=${place(tick)} x2=${place(tick)} y1=${bottom} y2=${bottom + 4} /><text x=${place(tick)} y=${bottom + 17} text-anchor="middle">${measure.tick(tick)}</text>`)}
      <text x=${right} y=${height - 4} text-anchor="end">${title}${log ? ', logarithmic' : ''}</text><text x="0" y=${height - 4}>score, 95 %</text></g>
    ${new Set(efficient.map(({x}) => x)).size > 1 && html`<path class="frontier" d=${`${line}H${right}`} />`}
    ${placed.map(({px, py, top, bottom: end, spot, words, isEfficient}, number) => html`<g key=${number} class=${`spot ${isEfficient ? 'efficient' : ''} ${at === number ? 'seen' : ''}`} data-mark=${number}>
      ${spot?.isFar && html`<line class="leader" x1=${px} y1=${py} x2=${spot.x > px ? spot.x - 3 : spot.x + spot.w + 3} y2=${spot.y + 8} />`}
      <line class="reach" x1=${px} x2=${px} y1=${top} y2=${end} />
      <circle class="halo" cx=${px} cy=${py} r="14" /><circle class="point" cx=${px} cy=${py} r="5" />
      ${spot && html`<text x=${spot.x} y=${spot.y + 12}>${words}</text>`}</g>`)}`;
  const unnamed = placed.filter(({spot}) => !spot);
  return {height, parts, note: unnamed.length > 0 && `without a label: ${namesOf(unnamed)}`};
}

class ScoreAgainst extends Component {
  render({sides}, {chosen}) {
    const offered = Object.keys(MEASURES).filter((key) => sides.some((side) => whollyKnown(side, key) > 0));
    const scored = sides.filter(({score}) => score !== null), unscored = sides.filter(({score}) => score === null);
    if (!scored.length || !offered.length) return html`<p class="dim">${scored.length ? 'Cost, tokens and time are 0 or unknown, so there is nothing to plot scores against.' : 'No side has a score.'}</p>`;
    // Tokens where the cost of some side is unknown, for one does not choose what one cannot see.
    const whole = offered.filter((key) => sides.every((side) => whollyKnown(side, key) !== null)), first = whole.find((key) => key !== 'seconds') ?? whole[0] ?? offered[0];
    const key = offered.includes(chosen) ? chosen : first, measure = MEASURES[key];
    // Sides with other numbers of trials are compared by what one trial took.
    const each = !measure.isShared && new Set(sides.map(trialsOf)).size > 1, title = each ? `${measure.words} of a trial` : measure.words;
    const known = scored.filter((side) => whollyKnown(side, key) !== null), unknown = scored.filter((side) => whollyKnown(side, key) === null);
    const points = known.map((side) => ({...side, x: each ? side[key] / trialsOf(side) : side[key]})), efficient = efficientOf(points);
    const several = new Set(efficient.map(({x, score}) => `${x} ${score}`)).size > 1, unpriced = sides.filter((side) => whollyKnown(side, 'usd') === null);
    const words = (point) => html`<b>${point.name}</b> score ${figure(point.score)}${point.mark}${point.low !== null && ` (${interval(point.low, point.high)})`}, ${measure.text(point.x)}
      ${each && html` a trial, ${measure.text(point[key])} for ${plural(trialsOf(point), 'trial')}`}${several && efficient.includes(point) && ', on the Pareto frontier'}`;
    return html`<figure class="figure score-against">
      <figcaption><b>Score against ${title}</b>
        <span class="switch" role="group" aria-label="against">${offered.map((other) => html`<button aria-pressed=${other === key} onClick=${() => this.setState({chosen: other})}>${MEASURES[other].words}</button>`)}</span></figcaption>
      ${key === 'tokens' && unpriced.length > 0 && html`<p class="note">The cost of ${unpriced.length === sides.length ? 'every side' : namesOf(unpriced)} is unknown, so tokens are shown.</p>`}
      ${points.length > 0 && html`<${Picture} label=${`Score against ${title}: ${points.map(({label, score, x}) => `${label} ${figure(score)} at ${measure.text(x)}`).join('; ')}`}
        marks=${points.map(words)} draw=${(width, at) => drawScores(points, efficient, measure, title, width, at)}
        hint=${several ? 'The light line is the Pareto frontier. Scores are estimates: their bars may overlap.' : points.length > efficient.length ? `${namesOf(efficient)}: no side scores higher, and none takes less.` : ''} />`}
      ${unknown.length > 0 && html`<p class="note">${title} unknown: ${unknown.map((side, number) => html`${number ? ', ' : ''}<b>${side.label}</b> ${figure(side.score)}${side[key] > 0 && ` (${measuredText(key, side)})`}`)}</p>`}
      ${unscored.length > 0 && html`<p class="note">no score: ${namesOf(unscored)}</p>`}
      <${FigureTable} caption=${`score against ${title}`} heads=${['side', 'score', '95 %', ...offered.map((other) => MEASURES[other].words), 'trials']}
        rows=${sides.map((side) => [side.name, figure(side.score), interval(side.low, side.high), ...offered.map((other) => measuredText(other, side)), count(trialsOf(side))])} />
    </figure>`;
  }
}

// ---- how task scores are spread

const BINS = 10;
const binWords = (bin) => (bin === BINS - 1 ? '0.9 to 1' : `${fixed(bin / BINS, 1)} to below ${fixed((bin + 1) / BINS, 1)}`);

// How many of a side's tasks score how much, in tenths.
function spreadOf(side) {
  const known = side.scores.filter((score) => score !== null), bins = Array(BINS).fill(0);
  for (const score of known) bins[clamped(Math.floor(score * BINS + 1e-9), 0, BINS - 1)] += 1;
  return {...side, bins, scored: known.length, full: known.filter((score) => score > 1 - 1e-9).length, none: known.filter((score) => score < 1e-9).length};
}

function binFacts({bins, full, none}, bin) {
  const [ends, value] = bin === BINS - 1 ? [full, '1.00'] : bin === 0 ? [none, '0.00'] : [0, ''];
  return `${plural(bins[bin], 'task')} at ${binWords(bin)}${ends && ends < bins[bin] ? `, ${count(ends)} of them ${value}` : ''}`;
}

// One below the other, so that what moved is seen; from four sides on as many beside each other as have room.
function drawSpreads(spreads, width, at) {
  const columns = spreads.length < 4 ? 1 : clamped(Math.floor(width / 230), 1, spreads.length), gap = 24, wide = (width - gap * (columns - 1)) / columns;
  const isNarrow = wide < 460, bars = columns === 1 && spreads.length < 3 ? 78 : 56, above = isNarrow ? 51 : 36, panel = above + bars + 26;
  const most = Math.max(...spreads.flatMap(({bins}) => bins)), step = wide / BINS;
  const parts = spreads.map(({label, bins, isOld, scored, scores, score, mark: sign}, place) => {
    const left = (place % columns) * (wide + gap), top = Math.floor(place / columns) * panel, base = top + above + bars;
    const facts = [plural(scored, 'task'), score !== null && `mean ${figure(score)}${sign}`, scores.length > scored && `${count(scores.length - scored)} without a score`].filter(Boolean).join(', ');
    return html`<g key=${place} class=${`spread ${isOld && spreads.length > 1 ? 'old' : ''}`}>
      <text x=${left} y=${top + 13}><tspan class="name">${shortened(label, Math.floor(wide / 12))}${isOld && ' (old)'}</tspan>
        <tspan class="counted" ...${isNarrow ? {x: left, dy: 15} : {dx: 10}}>${facts}</tspan></text>
      <line class="base" x1=${left} x2=${left + wide} y1=${base + 0.5} y2=${base + 0.5} />
      ${bins.map((tasks, bin) => { const high = Math.max(2, (bars * tasks) / most), x = left + bin * step, mark = place * BINS + bin; return html`<g class=${at === mark ? 'seen' : ''} data-mark=${mark}>
        <rect class="target" x=${x} y=${base - bars - 18} width=${step} height=${bars + 18} />
        ${tasks > 0 && html`<rect class="bar" x=${x + 2} y=${base - high} width=${Math.max(1, step - 4)} height=${high} /><text x=${x + step / 2} y=${base - high - 4} text-anchor="middle">${count(tasks)}</text>`}</g>`; })}
      ${score !== null && html`<path class="mean" d=${`M${left + wide * score} ${base + 1}l4 6h-8z`} />`}
      ${[0, 0.5, 1].map((tick) => html`<text class="tick" x=${left + wide * tick} y=${base + 19} text-anchor=${['start', 'middle', 'end'][2 * tick]}>${tick}</text>`)}</g>`;
  });
  return {height: Math.ceil(spreads.length / columns) * panel, parts};
}

function TaskScores({sides}) {
  const spreads = sides.map(spreadOf).filter(({scored}) => scored), most = ({bins}) => bins.indexOf(Math.max(...bins));
  if (!spreads.length) return html`<p class="dim">No task has a score.</p>`;
  const bins = Array.from({length: BINS}, (_, bin) => bin);
  return html`<figure class="figure distribution"><figcaption><b>Task scores</b> <span class="dim">number of tasks by score</span></figcaption>
    <${Picture} label=${`Task scores: ${spreads.map((spread) => `${spread.label}: most, ${binFacts(spread, most(spread))}`).join('; ')}`}
      marks=${spreads.flatMap((spread) => bins.map((bin) => html`<b>${spread.name}</b> ${binFacts(spread, bin)}`))}
      draw=${(width, at) => drawSpreads(spreads, width, at)} hint="A bar is a tenth of the scale, ▲ the mean." />
    <${FigureTable} caption="tasks by score" heads=${['score', ...spreads.map(({label}) => label)]} rows=${bins.map((bin) => [binWords(bin), ...spreads.map((spread) => count(spread.bins[bin]))])} />
  </figure>`;
}

// ---- the course of a trial

const MOST_LANES = 14;
const LEAST_GAP = 0.005;

const repliesText = (number) => (number === 1 ? '1 reply' : `${count(number)} replies`);

// What took time: replies, requests that failed, and calls of tools.
function timedSteps({asks = [], events}, calls) {
  const replies = asks.map(({turn, started, ended, first_token_s: first, model}) => ({kind: 'reply', from: started, to: ended, name: `${turn}`,
    words: `reply ${turn}${model ? ` of ${plain(model)}` : ''}${first === null ? '' : `, first token after ${duration(first)}`}`}));
  const tools = calls.map(({tool, turn, started, ended, error}) => ({kind: error ? 'call failed' : 'call', from: started, to: ended, name: plain(tool), words: `${plain(tool)}, turn ${turn}${error ? `, ${oneLine(error.type, 40)}` : ''}`}));
  const retries = events.filter(({kind, details}) => kind === 'chat_retry' && details?.seconds >= 0).flatMap(({at, details: {seconds, wait_s: wait}}) => [
    {kind: 'retry', from: Math.max(0, at - seconds), to: at, name: '', words: 'request that failed'},
    ...(wait > 0 ? [{kind: 'wait', from: at, to: at + wait, name: '', words: 'waiting before the next attempt'}] : [])]);
  return {replies, tools, retries};
}

const inOrder = (steps) => [...steps].sort((a, b) => a.from - b.from || a.to - b.to);
const lasted = (parts) => parts.reduce((sum, {from, to}) => sum + to - from, 0);

// The times that steps cover: what overlaps is one.
function covered(steps) {
  const parts = [];
  for (const {from, to} of inOrder(steps)) {
    if (parts.length && from <= parts.at(-1).to) parts.at(-1).to = Math.max(parts.at(-1).to, to); else parts.push({from, to});
  }
  return parts;
}

// The times in which neither model nor tool was at work.
function gapsOf(steps, end) {
  const parts = [...covered(steps), {from: end}];
  return parts.map(({from}, number) => ({kind: 'gap', from: number ? parts[number - 1].to : 0, to: from, name: '', words: 'neither model nor tool'})).filter(({from, to}) => to - from > LEAST_GAP * end);
}

// Each step in the first row from `above` on that is free: what overlaps stands in several.
function inRows(steps, above) {
  const ends = [];
  const placed = inOrder(steps).map((step) => {
    const free = ends.findIndex((end) => end <= step.from + 1e-9), row = free < 0 ? ends.length : free;
    ends[row] = step.to;
    return {...step, row: above + row};
  });
  return {placed, rows: ends.length};
}

function courseOf(trial) {
  const all = trial.messages.flatMap(({calls}) => calls).filter(({executed, by}) => executed && by !== 'seed'), calls = all.filter(({started, ended}) => ended > started || started > 0);
  const {replies, tools, retries} = timedSteps(trial, calls), steps = [...replies, ...retries, ...tools];
  const end = Math.max(trial.seconds ?? 0, ...steps.map(({to}) => to)), gaps = gapsOf(steps, end);
  const model = inRows([...replies, ...retries, ...gaps], 0), used = inRows(tools, model.rows);
  // Judges are asked after the agent has ended; when they answered is known, and not how long they took.
  return {end, gaps, replies, tools, untimed: all.length - calls.length, judged: trial.events.filter(({kind}) => kind === 'judge_ask').length, isEmpty: !steps.length || !(end > 0),
    modelRows: model.rows, toolRows: used.rows, steps: [...model.placed, ...used.placed].sort((a, b) => a.from - b.from || a.row - b.row)};
}

// Where there is much to see, time goes on in the next line, as words do.
const MOST_LINES = 8;
const LEAST_STEP = 9;

function drawCourse({steps, end, modelRows, toolRows}, width, at) {
  const left = 48, top = 22, wide = width - left - 14, rows = modelRows + toolRows, pitch = rows > MOST_LANES ? Math.max(4, (MOST_LANES * 20) / rows) : 20, space = toolRows && modelRows ? 6 : 0;
  const lines = rows > 4 ? 1 : clamped(Math.ceil((steps.length * LEAST_STEP) / wide), 1, MOST_LINES), slice = end / lines, line = top + rows * pitch + space + (lines > 1 ? 16 : 6);
  const high = Math.max(2, pitch - 4), many = clamped(Math.floor(width / 110), 2, 8), tickStep = niceStep(slice, many, true);
  const parts = Array.from({length: lines}, (_, number) => {
    const from = number * slice, to = from + slice, above = number * line, x = (seconds) => left + (wide * (clamped(seconds, from, to) - from)) / slice, y = (row) => above + top + row * pitch + (row >= modelRows ? space : 0);
    const ticks = Array.from({length: many + 2}, (_, tick) => (Math.ceil(from / tickStep - 1e-9) + tick) * tickStep).filter((tick) => tick <= to + 1e-9 * end);
    const title = (row, words) => html`<text x="0" y=${y(row) + Math.min(high, 16) / 2 + 4}>${words}</text>`;
    return html`<g class="grid" key=${`grid ${number}`}>${ticks.map((tick) => { const place = x(tick), edge = place > width - 40 ? 'end' : place < left + 8 ? 'start' : 'middle'; return html`<line x1=${place} x2=${place} y1=${above + top - 4} y2=${above + line - 4} /><text x=${edge === 'end' ? Math.min(width, place + 12) : place} y=${above + 11} text-anchor=${edge}>${clockTick(tick)}</text>`; })}
        ${modelRows > 0 && title(0, 'model')}${toolRows > 0 && title(modelRows, 'tools')}</g>
      ${steps.map((step, mark) => ((step.to > from || step.from >= from) && (step.from < to || number === lines - 1) ? html`<${Step} key=${`${number} ${mark}`} step=${step} mark=${mark} seen=${at === mark} x=${x} y=${y(step.row)} high=${high} pitch=${pitch} />` : null))}`;
  });
  return {height: lines * line, parts};
}

function Step({step: {kind, from, to, name}, mark, seen, x, y, high, pitch}) {
  const wide = Math.max(1.5, x(to) - x(from) - 0.5), letters = Math.floor((wide - 8) / 6.6), isQuiet = kind === 'gap' || kind === 'wait';
  return html`<g class=${`step ${kind} ${seen ? 'seen' : ''}`} data-mark=${mark}>
    <rect class="target" x=${x(from) - 1} y=${y - 2} width=${wide + 2} height=${pitch} />
    ${isQuiet ? html`<line class="hatch" x1=${x(from) + 1} x2=${x(from) + Math.max(1.5, wide - 1)} y1=${y + high / 2} y2=${y + high / 2} stroke-width=${high} />`
      : html`<rect class="bar" x=${x(from)} y=${y} width=${wide} height=${high} rx=${Math.min(2, wide / 3)} />`}
    ${high > 10 && name && letters >= Math.min(name.length, 4) && html`<text x=${x(from) + 4} y=${y + high / 2 + 4}>${shortened(name, letters)}</text>`}</g>`;
}

function Waterfall({trial}) {
  const course = courseOf(trial), {steps, end, gaps, untimed, toolRows, judged, replies, tools} = course;
  if (course.isEmpty) return null;
  const head = `${repliesText(replies.length)}, ${plural(tools.length, 'call')} in ${duration(end)}`;
  const busy = (some, what, many) => some.length > 0 && html`<span><b>${what}</b> ${duration(lasted(covered(some)))} in ${many}</span>`;
  return html`<${Fold} kind="waterfall" title=${html`Timeline: <span class="dim">${head}</span>`}>
    <figure class="figure course">
      <${Picture} label=${`Timeline of the trial: ${head}`} draw=${(width, at) => drawCourse(course, width, at)}
        marks=${steps.map(({words, from, to}) => html`<b>${words}</b> ${duration(to - from)}, from ${duration(from)} on`)} hint="Seconds since the trial began, waiting included. Point at a bar, or go from bar to bar with the arrow keys." />
      <p class="sums">${busy(replies, 'model', repliesText(replies.length))}
        ${busy(tools, 'tools', `${plural(tools.length, 'call')}${toolRows > 1 ? `, up to ${toolRows} at once` : ''}`)}
        ${gaps.length > 0 && html`<span><b>neither</b> ${duration(lasted(gaps))}: the agent's own code, or waiting</span>`}
        ${untimed > 0 && html`<span>${plural(untimed, 'call')} of unknown time</span>`}
        ${judged > 0 && html`<span>judges: ${repliesText(judged)} afterwards, their time is not known</span>`}</p>
      <${FigureTable} caption="timeline of the trial" heads=${['what', 'from', 'took']} rows=${steps.map(({words, from, to}) => [words, duration(from), duration(to - from)])} />
    </figure><//>`;
}
