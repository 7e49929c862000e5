// What the file holds: the index, read at once, and trials in compressed chunks, read when they are opened.

// All of it is made by `use`, and made anew where a server sends a newer index while a run goes on.
let INDEX, RUNS, SIDES, SUITES, CAUSES, TASKS, TRIALS;
// The side that the others are compared with, null where there is only one. It follows the address.
let OLD = null;
// What has been worked out of an index is forgotten when this number changes.
let STAMP = 0;

const MOST_CHUNKS = 4;
const chunks = new Map();

// Rows travel as columns: a list of values, one value that all rows have, or numbers of a list of values. A row looks
// its values up there: 20,000 objects with 20 fields each take a tenth of a second to make.
function rowsOf({rows, columns}) {
  class Row {
    constructor(number) { this.number = number; }
  }
  for (const [name, column] of Object.entries(columns)) {
    const get = Array.isArray(column) ? function () { return column[this.number]; }
      : 'of' in column ? function () { return column.of[column.at[this.number]]; } : () => column.same;
    Object.defineProperty(Row.prototype, name, {get, set(value) { Object.defineProperty(this, name, {value, writable: true}); }});
  }
  return Array.from({length: rows}, (_, number) => new Row(number));
}

function use(index) {
  INDEX = {...index, tasks: rowsOf(index.tasks), trials: rowsOf(index.trials)};
  ({runs: RUNS, sides: SIDES, suites: SUITES, causes: CAUSES, tasks: TASKS, trials: TRIALS} = INDEX);
  const keys = new Set();
  TASKS.forEach((task, place) => {
    task.place = place;
    task.label = SUITES[task.suite].label;
    task.key = `${task.label}\n${task.task}`;
    // Several agents may have tried a task of one suite.
    while (keys.has(task.key)) task.key += '\n';
    keys.add(task.key);
    task.sides = task.scores.map((score) => ({score, trials: []}));
  });
  TRIALS.forEach((trial, place) => {
    trial.row = TASKS[trial.task];
    trial.row.sides[trial.side].trials.push(place);
  });
  for (const cause of CAUSES) cause.key = shortHash([cause.kind, cause.grader, cause.check, cause.reason].join('\n'));
  OLD = index.old;
  STAMP += 1;
}

// So that the address of a cause is short, and the same when a run has gone on (FNV-1a).
function shortHash(text) {
  let hash = 0x811c9dc5;
  for (let at = 0; at < text.length; at += 1) hash = Math.imul(hash ^ text.charCodeAt(at), 0x01000193);
  return (hash >>> 0).toString(36);
}

// Something worked out of the index, kept until there is another one, or another side is the old one.
function kept(work) {
  let stamp = '', value;
  return () => {
    const now = `${STAMP} ${OLD}`;
    if (stamp !== now) [stamp, value] = [now, work()];
    return value;
  };
}

// ---- trials

// An element is there before its text is: only what follows it tells that the parser has passed its end.
async function chunkElement(number) {
  for (;;) {
    const element = document.getElementById(`c${number}`);
    if (document.readyState !== 'loading' || element?.nextElementSibling) return element;
    await new Promise((later) => setTimeout(later, 20));
  }
}

async function chunkText(number) {
  const element = await chunkElement(number);
  if (!element) throw new Error('its part of the file is missing: was the file copied as a whole?');
  if (!self.DecompressionStream) throw new Error('this browser is too old: use Chrome 80, Firefox 113, Safari 16.4 or later');
  try {
    const signs = atob(element.textContent), bytes = new Uint8Array(signs.length);
    for (let at = 0; at < signs.length; at += 1) bytes[at] = signs.charCodeAt(at);
    return await new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream('gzip'))).text();
  } catch {
    throw new Error('its part of the file is cut off or damaged');
  }
}

function chunk(number) {
  const known = chunks.get(number) ?? chunkText(number).then(JSON.parse);
  chunks.delete(number);
  chunks.set(number, known);
  known.catch(() => chunks.delete(number));
  if (chunks.size > MOST_CHUNKS) chunks.delete(chunks.keys().next().value);
  return known;
}

async function readTrial(place) {
  if (INDEX.live) return liveTrial(place);
  const {chunk: number, at} = TRIALS[place];
  return number === null ? null : (await chunk(number))[at];
}

// Stays the same while a run goes on and places move.
const trialKey = (place) => `${TRIALS[place].side} ${TRIALS[place].name}`;

// ---- addresses of trials

const placesByName = kept(() => {
  const places = new Map();
  TRIALS.forEach(({name}, place) => (places.has(name) ? places.get(name).push(place) : places.set(name, [place])));
  return places;
});

// The names of runs that go on behind the page.
const goingOn = () => (INDEX.live ? INDEX.live.runs.filter(({state}) => state === 'running').map(({name}) => name) : []);
const runOf = (place) => SIDES[TRIALS[place].side].run;

// A name is that of the newest run's trial, unless another run is asked for.
function findTrial(name, run) {
  const places = placesByName().get(name) ?? [];
  if (run !== null) return places.find((place) => runOf(place) === run) ?? -1;
  return places.reduce((best, place) => (best < 0 || runOf(place) > runOf(best) ? place : best), -1);
}

function trialAddress(place) {
  const {name} = TRIALS[place];
  return `${encodeURIComponent(name)}${findTrial(name, null) === place ? '' : `?run=${runOf(place)}`}`;
}
const trialHash = (place) => `#/t/${trialAddress(place)}`;
const pairHash = (one, other) => `#/b/${trialAddress(one)}/${trialAddress(other)}`;

// ---- sides, and what changed from the old one

const comparisons = kept(() => new Map(INDEX.comparisons.map((each) => [`${each.old} ${each.new}`,
  {...each, leftOut: new Set(each.left_out), broken: new Set(each.broken), mended: new Set(each.mended)}])));
const comparisonWith = (side) => (OLD === null || side === OLD ? undefined : comparisons().get(`${OLD} ${side}`));
// Of many sides each is compared with the first one alone: the others cannot be the old one.
const canBeOld = (side) => INDEX.comparisons.filter((each) => each.old === side).length > 1 || side === INDEX.old || SIDES.length === 2;
const suiteChange = (suite, side) => comparisonWith(side)?.suites[suite] ?? null;
const bucketChange = (suite, bucket, side) => {
  const changes = comparisonWith(side)?.buckets[suite];
  return changes && Object.hasOwn(changes, bucket) ? changes[bucket] : null;
};

const isPair = () => SIDES.length === 2 && OLD !== null;
// The side whose trials a page of two is about.
const newSide = () => (isPair() ? 1 - OLD : SIDES.length - 1);

function changeOf(task, side) {
  const with_ = comparisonWith(side), old = task.sides[OLD]?.score ?? null, {score} = task.sides[side];
  return !with_ || with_.leftOut.has(task.place) || old === null || score === null ? null : score - old;
}

// A task whose trials all passed on the old side and none does on this one, or the other way round.
function flagOf(task, side) {
  const with_ = comparisonWith(side);
  return with_?.broken.has(task.place) ? 'broken' : with_?.mended.has(task.place) ? 'mended' : '';
}

// The old side's trial of the same repetition or, where there is none, its first.
function oldTrial(place) {
  const {row, repetition, side} = TRIALS[place], old = OLD === null || OLD === side ? [] : row.sides[OLD].trials;
  return old.find((other) => TRIALS[other].repetition === repetition) ?? old[0] ?? -1;
}

const ENDINGS = ['failed', 'missed', 'errored', 'passed'];

// Of several trials the one to look at first: as all reports order them, errors come after misses.
function worstOf(places) {
  const worth = (place) => {
    const {ending, score} = TRIALS[place];
    return [ENDINGS.indexOf(ending), score ?? 0];
  };
  return places.reduce((worst, place) => {
    const [a, b] = [worth(place), worth(worst)];
    return a[0] < b[0] || (a[0] === b[0] && a[1] < b[1]) ? place : worst;
  }, places[0]);
}

// A task that several models tried is one task, also where each of them has a row.
const hasLanes = () => SUITES.some((suite) => suite.who);
const countTasks = (tasks) => (hasLanes()
  ? new Set(tasks.map((task) => `${SUITES[task.suite].suite}\n${task.task}`)).size : tasks.length);

use(JSON.parse(document.getElementById('index').textContent));
